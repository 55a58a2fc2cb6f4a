"""The table of jobs: joined over imports, and asked what runs where."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from incident_samples import NOON
from job_samples import job, minutes

from reveal_core.errors import UsageError
from reveal_core.jobtable import (
    LONGEST,
    OPEN_FOR,
    Job,
    JobHost,
    JobTable,
    job_of_facts,
    merged,
    new_job,
    together,
)

JOBS = st.builds(
    lambda name, start, length, host: job(
        name, [host], start, None if length is None else start + length, **({} if length else {"seen": NOON})
    ),
    st.sampled_from(["1", "2"]),
    st.integers(0, 20),
    st.none() | st.integers(1, 20),
    st.sampled_from(["a", "b"]),
)


@settings(max_examples=40)
@given(st.lists(JOBS, max_size=6), st.lists(JOBS, max_size=4))
def test_importing_twice_changes_nothing(known: list[Job], new: list[Job]) -> None:
    once = merged(known, new)
    assert merged(once, new) == once
    assert merged(once) == once
    assert {one.id for one in once} == {one.id for one in (*known, *new)}


@settings(max_examples=40)
@given(st.lists(JOBS, max_size=8))
def test_of_one_id_one_run_is_on_at_a_time(jobs: list[Job]) -> None:
    found = merged(jobs)
    for name in {one.id for one in found}:
        runs = [one for one in found if one.id == name]
        for run, following in pairwise(runs):
            assert run.end is not None
            assert run.end <= following.start
        assert {run.start for run in runs} == {one.start for one in jobs if one.id == name}


def test_an_end_that_is_told_later_holds_and_is_not_forgotten() -> None:
    running, over = job("1", end=None), job("1", end=30)
    assert merged([running], [over]) == (over,)
    assert merged([over], [running])[0].end == minutes(30)
    again = job("1", start=60, end=None)
    first, second = merged([running], [again])
    assert (first.end, first.seen, second.end) == (minutes(60), None, None)
    assert merged([again], [running]) == (first, second)


def test_a_job_of_which_no_end_is_told_runs_for_a_day() -> None:
    running = job("1", end=None, seen=minutes(90))
    assert running.until == minutes(90) + OPEN_FOR
    assert running.touches(minutes(80), minutes(85))
    assert not running.touches(minutes(90) + OPEN_FOR, minutes(90) + 2 * OPEN_FOR)


def test_what_runs_on_a_host_and_since_when() -> None:
    table = JobTable([job("1", ["a", "b"], 0, 60), job("2", ["b"], 30, 90), job("3", ["b"], 60, 70)])
    assert table.at("a", minutes(0)) == ((), None)
    assert table.at("a", minutes(1)) == (("1",), minutes(0))
    assert table.at("a", minutes(60)) == (("1",), minutes(0))
    assert table.at("a", minutes(61)) == ((), minutes(60))
    assert table.at("b", minutes(20)) == (("1",), minutes(0))
    assert table.at("b", minutes(40)) == (("1", "2"), minutes(30))
    assert table.at("b", minutes(65)) == (("2", "3"), minutes(60))
    assert table.at("b", minutes(80)) == (("2",), minutes(70))
    assert table.at("c", minutes(5)) == ((), None)
    assert table.during("b", minutes(50), minutes(65)) == ("1", "2", "3")
    assert table.during("b", minutes(91), minutes(95)) == ()


def test_hosts_that_may_be_peers_are_those_that_share_a_job() -> None:
    jobs = [job("1", ["a", "b", "x"]), job("2", ["b", "c"]), job("3", ["d", "e", "f"])]
    hosts = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
    own = {"g": "4", "h": "4", "i": ""}
    assert together(jobs, own, hosts, least=2) == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]
    assert together(jobs, own, hosts, least=3) == [["a", "b", "c"], ["d", "e", "f"]]
    assert together([], {}, hosts) == []


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({}, ""),
        ({"job": {"id": " 17 "}}, "17"),
        ({"job": {"id": 17}}, "17"),
        ({"job": {"id": True}}, ""),
        ({"job": {"task": "train"}}, ""),
        ({"job": "17"}, ""),
    ],
)
def test_the_job_that_telemetry_names(facts: dict, name: str) -> None:
    assert job_of_facts(facts) == name


def made(**more: object) -> Job:
    given_ = {"id": "1", "name": "", "start": NOON, "end": minutes(9), "hosts": [JobHost("a")]}
    return new_job("t.csv", **{**given_, "source": "csv", "seen": minutes(5), **more})  # type: ignore[arg-type]


def test_a_job_is_made_in_one_form() -> None:
    found = made(
        start=NOON + timedelta(microseconds=1999),
        hosts=[JobHost("b", ("1",)), JobHost("a"), JobHost("b", ("0", "1"))],
    )
    assert found.hosts == (JobHost("a"), JobHost("b", ("0", "1")))
    assert found.start == NOON + timedelta(milliseconds=1)
    assert found.seen is None
    assert made(end=None).seen == minutes(5)
    assert found.to_dict()["start"] == "2026-11-29T12:00:00.001Z"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"id": ""}, "a job without an id"),
        ({"hosts": []}, "job 1 has no host"),
        ({"hosts": [JobHost("")]}, "job 1 has a host without a name"),
        ({"end": NOON}, "before it starts"),
        ({"end": NOON + LONGEST + timedelta(days=1)}, "lasts for 367 days"),
    ],
)
def test_what_cannot_be_a_job_is_refused_in_one_line(more: dict, said: str) -> None:
    with pytest.raises(UsageError, match=f"^t.csv: .*{said}") as caught:
        made(**more)
    assert "\n" not in str(caught.value)
