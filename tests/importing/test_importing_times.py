"""Times: zones, the two days on which clocks are changed, and what is no time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reveal_core.errors import UsageError
from reveal_core.importing.findings import Findings
from reveal_core.importing.times import LocalClock, Times, parse_zone
from reveal_core.importing.types import NO_TIME
from reveal_core.timespec import to_ns

LONDON = ZoneInfo("Europe/London")
ZONES = ["Europe/London", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC", "+05:45"]


def local_ns(texts: list[str]) -> np.ndarray:
    return np.array([to_ns(datetime.fromisoformat(text).replace(tzinfo=UTC)) for text in texts])


def utc_of(texts: list[str], zone=LONDON) -> tuple[list[str], Findings]:
    findings = Findings()
    found = LocalClock(zone, findings).to_utc(local_ns(texts))
    told = [
        "-" if ns == NO_TIME else f"{np.datetime64(int(ns), 'ns').astype('datetime64[s]')}" for ns in found
    ]
    return told, findings


@pytest.mark.parametrize(
    "text", ["Europe/Nowhere", "", "+25:00", "../etc/passwd", "BST1BDT", "/etc/localtime"]
)
def test_what_is_no_zone(text: str) -> None:
    with pytest.raises(UsageError, match="--timezone"):
        parse_zone(text)


def test_an_offset_is_a_zone() -> None:
    assert parse_zone("-03:30").utcoffset(None) == timedelta(hours=-3, minutes=-30)


def test_summer_and_winter() -> None:
    assert utc_of(["2025-01-15T12:00", "2025-07-15T12:00"])[0] == [
        "2025-01-15T12:00:00",
        "2025-07-15T11:00:00",
    ]


def test_clocks_go_forward() -> None:
    told, findings = utc_of(["2025-03-30T00:59:59", "2025-03-30T01:30:00", "2025-03-30T02:00:00"])
    assert told == ["2025-03-30T00:59:59", "-", "2025-03-30T01:00:00"]
    assert "clocks in Europe/London skip" in findings.skipped[0]["reason"]


def test_clocks_go_back_and_the_order_of_rows_tells() -> None:
    times = ("00:59", "01:20", "01:59", "01:01", "01:31", "01:59", "02:01")
    told, _ = utc_of([f"2025-10-26T{time}" for time in times])
    assert told[0] == "2025-10-25T23:59:00"
    assert [time[11:16] for time in told[1:]] == ["00:20", "00:59", "01:01", "01:31", "01:59", "02:01"]


def test_a_file_that_begins_in_the_hour_that_comes_twice() -> None:
    assert utc_of(["2025-10-26T01:59:58", "2025-10-26T02:00:00"])[0][0] == "2025-10-26T01:59:58"
    told, findings = utc_of(["2025-10-26T01:10", "2025-10-26T01:20"])
    assert told == ["2025-10-26T00:10:00", "2025-10-26T00:20:00"]
    assert "hour that comes twice" in findings.notes[0]


def test_small_disorder_is_no_second_pass() -> None:
    told, _ = utc_of(["2025-10-26T00:59:59", "2025-10-26T01:00:02", "2025-10-26T01:00:01"])
    assert told[2] == "2025-10-26T00:00:01"


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(ZONES),
    st.datetimes(datetime(2024, 1, 1), datetime(2026, 1, 1)),
    st.lists(st.integers(1, 600), min_size=1, max_size=40),
    st.integers(1, 5),
)
def test_every_stretch_of_time_comes_back(zone: str, start: datetime, steps: list[int], pieces: int) -> None:
    """Rows in order, none further apart than ten minutes, in pieces: what was local is the same UTC again."""
    tz = parse_zone(zone)
    start = start.replace(microsecond=0, tzinfo=UTC)
    moments = [start - timedelta(hours=3) + timedelta(minutes=10 * n) for n in range(18)]
    moments += [start + timedelta(seconds=sum(steps[:n])) for n in range(len(steps))]
    first = moments[0].astimezone(tz)
    # Where a file begins in the hour that comes twice, nothing before it tells which pass it is.
    assume(first.replace(fold=0).utcoffset() == first.replace(fold=1).utcoffset())
    local = np.array([to_ns(moment.astimezone(tz).replace(tzinfo=UTC)) for moment in moments])
    clock = LocalClock(tz, Findings())
    found = np.concatenate([clock.to_utc(piece) for piece in np.array_split(local, pieces)])
    wanted = np.array([to_ns(moment) for moment in moments])
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("form", "text", "wanted"),
    [
        ("iso", "2026/07/14 08:12:38.696", "2026-07-14T08:12:38.696"),
        ("iso", "2026-07-14T10:12:38+02:00", "2026-07-14T08:12:38"),
        ("iso", "2026-07-14T08:12:38Z", "2026-07-14T08:12:38"),
        ("s", "1784016758.696000123", "2026-07-14T08:12:38.696000123"),
        ("ms", "1784016758696", "2026-07-14T08:12:38.696"),
        ("us", "1784016758696000", "2026-07-14T08:12:38.696"),
        ("ns", "1784016758696000001", "2026-07-14T08:12:38.696000001"),
        ("%d.%m.%Y %H:%M", "14.07.2026 08:12", "2026-07-14T08:12"),
    ],
)
def test_forms(form: str, text: str, wanted: str) -> None:
    found = Times(form, UTC, Findings()).ns([text])[0]
    assert int(found) == int(np.datetime64(wanted, "ns").astype(np.int64))


def test_mixed_zones_in_one_column() -> None:
    texts = ["2025-07-01T12:00:00", "2025-07-01T12:00:01+01:00", "2025-07-01T11:00:02Z"]
    found = Times("iso", LONDON, Findings()).ns(texts)
    assert np.diff(found).tolist() == [10**9, 10**9]


def test_numbers_count_from_an_origin() -> None:
    origin = to_ns(datetime(2026, 1, 1, tzinfo=UTC))
    assert Times("m", None, Findings(), origin).ns(["0", "1.5"]).tolist() == [origin, origin + 90 * 10**9]


def test_a_zone_is_asked_for_only_where_it_is_needed() -> None:
    findings = Findings()
    findings.where = "log.csv"
    with pytest.raises(
        UsageError, match=r"log\.csv: the time '2025-07-01 12:00:00' has no zone: .*--timezone"
    ):
        Times("iso", None, findings).ns(["2025-07-01 12:00:00"])
    assert Times("iso", None, findings).ns(["2025-07-01 12:00:00Z"])[0] != NO_TIME


@pytest.mark.parametrize("text", ["", "yesterday", "2025-13-01 00:00:00", "12:00", "0", "1e300", "nan"])
@pytest.mark.parametrize("form", ["iso", "s"])
def test_what_is_no_time_is_told_with_its_line(form: str, text: str) -> None:
    findings = Findings()
    assert Times(form, UTC, findings).ns([text], [7])[0] == NO_TIME
    assert "line 7" in findings.skipped[0]["item"]


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_a_time_or_told(text: str) -> None:
    findings = Findings()
    found = Times("iso", UTC, findings).ns([text])
    assert (found[0] == NO_TIME) == bool(findings.skipped)


def test_a_format_must_be_known() -> None:
    with pytest.raises(UsageError, match="time format 'fortnights' is not known"):
        Times("fortnights", UTC, Findings())


CLOCKS = st.datetimes(datetime(1999, 1, 1), datetime(2060, 1, 1))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(CLOCKS, min_size=1, max_size=20), st.sampled_from(["microseconds", "milliseconds", "seconds"])
)
def test_times_written_alike_are_read_as_one_by_one(moments: list[datetime], precision: str) -> None:
    texts = [moment.isoformat(sep=" ", timespec=precision) for moment in moments]
    alike = Times("iso", UTC, Findings()).ns(texts)
    # One of another length makes each be parsed by itself.
    mixed = Times("iso", UTC, Findings()).ns([*texts, "2026-07-14 08:12"])
    assert alike.tolist() == mixed[:-1].tolist()


@pytest.mark.parametrize(
    "odd",
    [
        "2609-07-14 08:12:38.00",
        "2026-07-14 08:12:38+01",
        "2026-02-30 08:12:38.00",
        "2026-07-14 08:12:38 xy",
        "2026-07-14 99:12:38.00",
    ],
)
def test_one_that_is_odd_among_times_written_alike(odd: str) -> None:
    good = "2026-07-14 08:12:38.00"
    found = Times("iso", UTC, Findings()).ns([good, odd, good])
    assert found[0] == found[2] != NO_TIME
    assert found[1] == (found[0] - 3600 * 10**9 if "+" in odd else NO_TIME)
