"""Jobs, and what is kept to compare their hosts, in every kind of store."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from incident_samples import NOON
from job_samples import job, minutes

from reveal_core.jobtable import Job, merged
from reveal_core.odd_hosts import WorkMetric
from reveal_core.work import Work
from storage.layout import OPEN_JOBS, STRAGGLERS, jobs_key, work_key
from storage.store import Store

DAY = 24 * 60.0
TODAY, TOMORROW = (f"jobs/date=2026-11-{day}.json" for day in (29, 30))


def test_jobs_lie_by_the_days_that_they_touch(store: Store) -> None:
    assert store.jobs() == []
    long, short, running = job("1", end=DAY), job("2"), job("3", end=None)
    assert jobs_key(NOON.date()) == TODAY
    assert store.put_jobs([long, short, running]) == [TODAY, TOMORROW, OPEN_JOBS]
    assert store.jobs() == [long, short, running]
    assert store.jobs(minutes(DAY - 1), minutes(DAY + 5)) == [long, running]
    assert store.jobs(minutes(-5), minutes(0)) == []
    assert store.jobs(minutes(2 * DAY), minutes(3 * DAY)) == []


def test_importing_twice_writes_nothing(store: Store) -> None:
    jobs = [job("1"), job("2", end=None)]
    assert len(store.put_jobs(jobs)) == 2
    assert store.put_jobs(jobs) == []
    assert store.put_jobs(jobs[:1]) == []
    assert store.put_jobs([]) == []


def test_a_job_whose_end_is_told_moves_to_its_days(store: Store) -> None:
    store.put_jobs([job("1", end=None), job("2", end=None)])
    over = job("1", end=DAY)
    assert store.put_jobs([over]) == [TODAY, TOMORROW, OPEN_JOBS]
    assert store.jobs() == [over, job("2", end=None)]
    # An older list does not know its end.
    assert store.put_jobs([job("1", end=None)]) == []
    # It was over earlier than was thought: the second day holds it no more.
    assert store.put_jobs([job("1", end=60)]) == [TODAY, TOMORROW]
    assert [one.id for one in store.jobs(minutes(DAY - 60), minutes(DAY))] == ["2"]
    assert json.loads(store.backend.read(TOMORROW) or b"") == []


def test_a_job_that_runs_again_ends_the_run_before(local_store: Store) -> None:
    local_store.put_jobs([job("1", end=None)])
    local_store.put_jobs([job("1", start=DAY, end=None, seen=minutes(DAY))])
    first, second = local_store.jobs()
    assert (first.end, second.end) == (minutes(DAY), None)
    assert local_store.put_jobs([job("1", end=None)]) == []


RUNS = st.builds(
    lambda name, start, length: job(
        name, ["a"], start * 60, None if length is None else (start + length) * 60
    ),
    st.sampled_from(["1", "2"]),
    st.integers(0, 60),
    st.none() | st.integers(1, 40),
)


@settings(max_examples=15)
@example(batches=[[job("1", ["a"], 720, None), job("1", ["a"], 780, None)], [job("1", ["a"], 0, None)]])
@given(batches=st.lists(st.lists(RUNS, max_size=4), max_size=4))
def test_the_store_holds_what_joining_gives(batches: list[list[Job]], tmp_path_factory) -> None:
    store = Store(str(tmp_path_factory.mktemp("jobs")))
    known: tuple[Job, ...] = ()
    for batch in batches:
        store.put_jobs(batch)
        known = merged(known, batch)
    assert store.jobs() == list(known)


def test_a_damaged_file_is_put_aside(local_store: Store) -> None:
    local_store.put_jobs([job("1"), job("2", end=None)])
    local_store.backend.write(TODAY, b'[{"id": 1}]')
    assert [one.id for one in local_store.jobs()] == ["2"]
    assert local_store.backend.read(f"quarantine/{TODAY}") == b'[{"id": 1}]'


def work(values: tuple[float | None, ...]) -> Work:
    metric = WorkMetric("perf.ipc", "instructions/cycle", "cpu", "mean")
    return Work("rack 7/n1", ("perf.*",), NOON, len(values), 20.0, (metric,), (values,))


def test_work_and_stragglers_come_back(store: Store) -> None:
    one = work((1.5, None, 1.25))
    assert store.works(["rack 7/n1"]) == [None]
    assert store.put_work(one) == work_key("rack 7/n1") == "work/host=rack%207%2Fn1.json"
    assert store.works(["n2", "rack 7/n1"]) == [None, one]
    assert store.stragglers() == {}
    assert store.put_stragglers({"b": ["1", "2"], "a": ["1"], "c": []}) == STRAGGLERS
    assert store.stragglers() == {"a": ("1",), "b": ("1", "2")}


def test_an_hour_of_work_is_kilobytes(local_store: Store) -> None:
    key = local_store.put_work(work(tuple(1.0 + number / 1e4 for number in range(120))))
    assert len(local_store.backend.read(key) or b"") < 4000


@pytest.mark.parametrize("day", [0, 1, 40])
def test_how_long_a_job_may_be_open(local_store: Store, day: int) -> None:
    """A job that has run for weeks costs no reading of weeks: it is in one file, whatever its age."""
    seen = NOON + timedelta(days=day)
    local_store.put_jobs([job("1", end=None, seen=seen)])
    assert local_store.backend.names("jobs") == ["open.json"]
    (found,) = local_store.jobs(seen, seen + timedelta(hours=1))
    assert found.seen == seen
