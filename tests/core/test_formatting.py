import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.formatting import (
    format_band,
    format_duration,
    format_number,
    format_probability,
    format_range,
    format_time,
    format_value,
    scale_for,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.2e6, "B/s", "1.2 MB/s"),
        (310, "/s", "310 /s"),
        (310.4, "segments/s", "310 segments/s"),
        (43, "%", "43 %"),
        (1e6, "%", "1,000,000 %"),
        (12_400, "/s", "12,400 /s"),
        (1.24e6, "/s", "1.24 M/s"),
        (1.24e6, "pages/s", "1.24 M pages/s"),
        (0, "B/s", "0 B/s"),
        (2048, "KiB", "2.1 MB"),
        (64e9, "B", "64 GB"),
        (1500, "us", "1.5 ms"),
        (2.5e9, "ns", "2.5 s"),
        (0, "us", "0 µs"),
        (350, "ms/s", "350 ms/s"),
        (2400, "MHz", "2.4 GHz"),
        (0.4, "W", "0.4 W"),
        (-1536, "B", "-1.54 kB"),
        (0.873, "ratio", "0.873"),
        (7, "1", "7"),
        (61.25, "°C", "61.2 °C"),
        (0.00001, "/s", "1e-05 /s"),
        (None, "B", "–"),
        (math.nan, "B", "–"),
        (math.inf, "%", "–"),
    ],
)
def test_values_read_as_people_write_them(value, unit, text):
    assert format_value(value, unit) == text


@given(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e14, max_value=1e14),
    st.sampled_from(["B/s", "us", "ms/s", "MHz", "/s", "%", "packets/s", "1", "KiB", "W", "°C", ""]),
)
def test_a_shown_value_is_the_value_within_half_a_percent(value, unit):
    factor, shown = scale_for(abs(value), unit)
    text = format_value(value, unit)
    number = float(text.removesuffix(shown).replace(",", ""))
    assert number / factor == pytest.approx(value, rel=6e-3, abs=0 if abs(value * factor) > 1e-3 else 1e-4)
    assert text.endswith(shown)


@pytest.mark.parametrize(
    ("low", "high", "unit", "text"),
    [
        (0, 2, "/s", "0 to 2 /s"),
        (900e3, 1.3e6, "B/s", "0.9 to 1.3 MB/s"),
        (3, 3, "ms", "3 ms"),
        (-4.7e-16, 17.2e6, "B/s", "0 to 17.2 MB/s"),
        (0, 0, "packets/s", "0 packets/s"),
        (math.nan, 3, "ms", "–"),
        (None, 3, "ms", "–"),
    ],
)
def test_bands_share_one_unit(low, high, unit, text):
    assert format_band(low, high, unit) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.84, "0.8 s"), (9, "9 s"), (59.97, "1 min"), (60, "1 min"), (252, "4 min 12 s"),
     (3600, "1 h"), (7260, "2 h 1 min"), (90000, "1 d 1 h")],
)  # fmt: skip
def test_durations(seconds, text):
    assert format_duration(seconds) == text


@given(st.floats(min_value=0, max_value=1e7))
def test_every_duration_has_a_text(seconds):
    assert format_duration(seconds)


@pytest.mark.parametrize(
    ("probability", "text"),
    [
        (1.0, "1 in 1"),
        (0.4, "1 in 2.5"),
        (0.05, "1 in 20"),
        (8.1e-6, "1 in 120,000"),
        (0, "less than 1 in 10 million"),
    ],
)
def test_probabilities_are_odds(probability, text):
    assert format_probability(probability) == text


def test_times_are_cut_and_in_utc():
    time = datetime.fromisoformat("2026-11-29T21:15:32.987654+01:00")
    assert format_time(time) == "20:15:32"
    assert format_time(time, day=True, decimals=1) == "2026-11-29 20:15:32.9"
    assert format_time(datetime(2026, 1, 1, 5)) == "05:00:00"


def test_a_range_over_midnight_names_both_days():
    text = format_range(datetime(2026, 11, 29, 23, 59, tzinfo=UTC), datetime(2026, 11, 30, 0, 5, tzinfo=UTC))
    assert text == "2026-11-29 23:59:00 to 2026-11-30 00:05:00 UTC"


def test_numbers_keep_three_digits():
    assert [format_number(n) for n in (12345.6, 0.01234, 2.0, 99.96, 0.0)] == [
        "12,346",
        "0.0123",
        "2",
        "100",
        "0",
    ]
