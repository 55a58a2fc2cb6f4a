"""Telemetry as agents leave it, and stores in which somebody dies, or meddles, at a chosen moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from storage_parts import channel, segment

from reveal_core.errors import NoTelemetryError
from reveal_core.segment import Segment
from storage.backend import Backend
from storage.store import Store
from storage.telemetry import TelemetryRead

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
H20 = datetime(2026, 11, 29, 20, tzinfo=UTC)
HOST = "node-1"
RANGES = (
    (H20 - HOUR, H20 + 4 * HOUR),
    (H20 + 7 * MINUTE, H20 + 16 * MINUTE),
    (H20 + 31 * MINUTE, H20 + 61 * MINUTE),
)


def columns_of(kind: str, rows: int, first: int) -> tuple[dict[str, pa.Array], list[Any]]:
    """Return columns, and their channels, of one of several layouts that follow each other in real stores."""
    counts = pa.array([first + n for n in range(rows)], pa.int64())
    gaps = pa.array([None if n % 2 else 1.5 * n + first for n in range(rows)], pa.float32())
    counter, gauge = channel("c/x"), channel("g", "gauge", "B")
    if kind == "turned":
        return {"g": gaps, "c/x": counts}, [gauge, counter]
    if kind == "fewer":
        return {"c/x": counts}, [counter]
    if kind == "more":
        fine = pa.array([first + n / 3 for n in range(rows)], pa.float64())
        return {"c/x": counts, "d": fine, "g": gaps}, [counter, channel("d", "gauge", "1"), gauge]
    if kind == "other type":
        return {"c/x": counts, "g": counts}, [counter, gauge]
    if kind == "other unit":
        return {"c/x": counts, "g": gaps}, [counter, channel("g", "gauge", "kB")]
    return {"c/x": counts, "g": gaps}, [counter, gauge]


LAYOUTS = ["plain"] * 6 + ["turned", "fewer", "more", "other type", "other unit"]


def made(
    start: datetime,
    sequence: int,
    *,
    layout: str = "plain",
    boot: str = "b-1",
    rows: int = 3,
    step_s: float = 15,
    **other: Any,
) -> Segment:
    """Return a segment of a few samples."""
    values, channels = columns_of(layout, rows, sequence * rows)
    step = timedelta(seconds=step_s)
    given: Mapping[str, Any] = {"host": HOST, "facts": {"layout": layout}, **other}
    return segment(
        start, rows=rows, sequence=sequence, boot=boot, step=step, values=values, channels=channels, **given
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Segment]:
    """Two hours of a host: its agent is started several times, in two boots; some segments never arrived."""
    segments: list[Segment] = []
    at = H20 + draw(st.integers(0, 50)) * MINUTE
    step_s = draw(st.sampled_from([3, 15]))
    for _ in range(draw(st.integers(1, 3))):
        boot = draw(st.sampled_from(["b-1", "b-2"]))
        length = draw(st.sampled_from([1, 1, 4, 20]))
        for number in range(draw(st.integers(1, 7))):
            if draw(st.integers(0, 7)):
                layout = draw(st.sampled_from(LAYOUTS))
                segments.append(made(at, number, boot=boot, layout=layout, step_s=step_s))
            at += length * MINUTE
        at += draw(st.integers(0, 9)) * MINUTE
    return segments


def looks(store: Store, ranges: Sequence[tuple[datetime, datetime]] = RANGES) -> list[TelemetryRead | None]:
    """Return what readers of several ranges see."""
    found: list[TelemetryRead | None] = []
    for start, end in ranges:
        for columns in (None, ["g"]) if (start, end) == ranges[0] else (None,):
            try:
                found.append(store.read_telemetry(HOST, start, end, columns))
            except NoTelemetryError:
                found.append(None)
    return found


def assert_same_looks(now: list[TelemetryRead | None], then: list[TelemetryRead | None]) -> None:
    """Make sure that readers see the same, to the bit, the order of columns and the facts."""
    assert len(now) == len(then)
    for one, other in zip(now, then, strict=True):
        assert (one is None) == (other is None)
        if one is None or other is None:
            continue
        assert one.telemetry.frame.schema == other.telemetry.frame.schema
        assert one.telemetry.frame.columns == other.telemetry.frame.columns
        assert one.telemetry.frame.equals(other.telemetry.frame)
        assert list(one.telemetry.channels.items()) == list(other.telemetry.channels.items())
        assert one.telemetry.facts == other.telemetry.facts
        assert (one.notes, one.quarantined) == (other.notes, other.quarantined)


class Killed(BaseException):
    """Stands for SIGKILL."""


class Dying(Backend):
    """A store whose user is killed when it has changed so many files."""

    def __init__(self, url: str, lives: int, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(url, options)
        self.lives = lives

    def _live(self) -> None:
        if self.lives == 0:
            raise Killed
        self.lives -= 1

    def write(self, key: str, data: bytes) -> None:
        self._live()
        super().write(key, data)

    def remove(self, key: str) -> None:
        self._live()
        super().remove(key)

    def each(self, function: Callable[[Any], Any], items: Any) -> list[Any]:
        return [function(item) for item in items]  # one after another, so that lives are counted


class Meddled(Backend):
    """A store in which somebody else does something just before the n-th time that it is used."""

    def __init__(self, url: str, moment: int, meddle: Callable[[], None]) -> None:
        super().__init__(url)
        self.moment = moment
        self.meddle = meddle

    def _pass(self) -> None:
        self.moment -= 1
        if self.moment == 0:
            self.meddle()

    def names(self, key: str) -> list[str]:
        self._pass()
        return super().names(key)

    def read(self, key: str) -> bytes | None:
        self._pass()
        return super().read(key)

    def write(self, key: str, data: bytes) -> None:
        self._pass()
        super().write(key, data)

    def remove(self, key: str) -> None:
        self._pass()
        super().remove(key)

    def each(self, function: Callable[[Any], Any], items: Any) -> list[Any]:
        return [function(item) for item in items]
