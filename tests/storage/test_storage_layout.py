from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.errors import UsageError
from storage.layout import (
    host_folder,
    incident_key,
    parse_date_part,
    parse_host_part,
    parse_hour_part,
    parse_segment_key,
    quote_name,
    report_folder,
    scores_key,
    segment_key,
    unquote_name,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=16)
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-11))])
TIMES = st.datetimes(datetime(1900, 1, 2), datetime(2200, 1, 1), timezones=ZONES)


@given(NAMES)
def test_a_name_comes_back_and_stays_one_visible_part(name: str) -> None:
    part = quote_name(name)
    assert unquote_name(part) == name
    assert not set(part) & set("/\\*?[]#: \0")
    assert not part.startswith(".")
    assert part.isascii()


@given(NAMES, NAMES)
def test_different_names_never_share_a_part(one: str, other: str) -> None:
    assert (quote_name(one) == quote_name(other)) == (one == other)


@pytest.mark.parametrize("name", ["", "x" * 201, "ü" * 60, "\ud800"])
def test_what_cannot_be_a_name_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        quote_name(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("part", ["", "a b", "%zz", "%41", ".hidden", "%ff", "a/b"])
def test_parts_that_no_name_has(part: str) -> None:
    assert unquote_name(part) is None


@given(NAMES, TIMES, NAMES, st.integers(0, 10**9))
def test_a_segment_key_says_what_it_was_made_of(host: str, start: datetime, boot: str, sequence: int) -> None:
    key = segment_key(host, start, boot, sequence)
    name = parse_segment_key(key)
    assert name is not None
    assert (name.host, name.boot, name.sequence, name.key) == (host, boot, sequence, key)
    assert timedelta(0) <= start - name.start < timedelta(milliseconds=1)
    assert key.startswith(host_folder(start.astimezone(UTC), host) + "/")


@given(NAMES, TIMES, NAMES, st.integers(0, 10**9), st.integers(1, 10**6), st.booleans())
def test_the_key_of_a_merged_segment_says_from_which_to_which(
    host: str, start: datetime, boot: str, sequence: int, more: int, downsampled: bool
) -> None:
    until = start + timedelta(milliseconds=more)
    key = segment_key(host, start, boot, sequence, last=(until, sequence + more), downsampled=downsampled)
    name = parse_segment_key(key)
    assert name is not None
    assert (name.host, name.boot, name.sequence, name.last_sequence) == (
        host,
        boot,
        sequence,
        sequence + more,
    )
    assert timedelta(0) <= until - name.last_start < timedelta(milliseconds=1)
    assert name.downsampled == downsampled
    plain = parse_segment_key(segment_key(host, start, boot, sequence, downsampled=downsampled))
    assert plain is not None
    assert (plain.last_start, plain.last_sequence) == (plain.start, plain.sequence)
    assert (plain.start, plain.boot, plain.downsampled) == (name.start, boot, downsampled)


@given(TIMES, TIMES)
def test_names_sort_by_time(one: datetime, other: datetime) -> None:
    first, second = sorted([one, other])
    assert segment_key("h", first, "b", 0) <= segment_key("h", second, "b", 0)


def test_the_layout_is_the_documented_one() -> None:
    start = datetime(2026, 11, 29, 20, 15, 0, 999, tzinfo=UTC)
    assert (
        segment_key("node-17", start, "1f3c", 12)
        == "telemetry/date=2026-11-29/hour=20/host=node-17/20261129T201500.000Z-1f3c-000012.parquet"
    )
    assert (
        scores_key("cpu2@3", "node-17", start)
        == "scores/model=cpu2@3/date=2026-11-29/hour=20/host=node-17.parquet"
    )
    assert incident_key("i-1", start) == "incidents/date=2026-11-29/i-1.json"
    assert report_folder("..") == "reports/%2E."


@pytest.mark.parametrize(
    "key",
    [
        "",
        "x.parquet",
        "telemetry/date=2026-11-29/hour=20/host=n/x.parquet",
        "telemetry/date=2026-11-29/hour=20/host=n/20261329T201500.000Z-b-000001.parquet",
        "telemetry/date=2026-11-29/hour=20/host=n/20261129T201500.000Z-b-1.parquet",
        "telemetry/date=2026-11-29/hour=21/host=n/20261129T201500.000Z-b-000001.parquet",
        "telemetry/date=2026-11-29/hour=20/n/20261129T201500.000Z-b-000001.parquet",
        "telemetry/date=2026-11-29/hour=20/host=n/20261129T201500.000Z-b-000001=20261129T201500.000Z-000002.parquet",
        "telemetry/date=2026-11-29/hour=20/host=n/20261129T201500.000Z-b-000001=20261129T201600.000Z-000001.parquet",
        "telemetry/date=2026-11-29/hour=20/host=n/20261129T201500.000Z-b-000001.60s.parquet",
    ],
)
def test_other_keys_are_no_segments(key: str) -> None:
    assert parse_segment_key(key) is None


def test_other_folders_are_no_partitions() -> None:
    assert [parse_date_part(p) for p in ("date=2026-02-30", "date=x", "hour=01")] == [None] * 3
    assert [parse_hour_part(p) for p in ("hour=24", "hour=1", "hour=x")] == [None] * 3
    assert [parse_host_part(p) for p in ("host=", "node", "host=a b")] == [None] * 3


def test_a_time_without_zone_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="time zone"):
        segment_key("h", datetime(2026, 1, 1), "b", 0)
    with pytest.raises(ValueError, match="negative"):
        segment_key("h", datetime(2026, 1, 1, tzinfo=UTC), "b", -1)


@pytest.mark.parametrize("name", ["index.html", "latest.json"])
def test_a_report_cannot_take_the_place_of_the_list(name: str) -> None:
    with pytest.raises(UsageError):
        report_folder(name)
