"""The lines that ``perf stat -I … -j`` prints, read by the places of their fields.

perf prints the same lines in the same order at every interval, so where a field stands is worked out once,
and each interval is only checked against it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reveal_core.collect.parts import Picker, picker
from reveal_core.collect.sources.perf_events import printed_name

Cell = tuple[str, str]
"""An instance, and the name of an event on it."""

VALUE, RUNTIME, SHARE = "counter-value", "event-runtime", "pcnt-running"
_BETWEEN = b', "'
_FULL = b'pcnt-running" : 100.00'


@dataclass(frozen=True)
class Scope:
    """What a line of perf's stands for.

    Attributes
    ----------
    key
        The JSON name that tells instances apart: ``cpu``, ``socket``, or empty for the whole host.
    instances
        Number of CPUs by instance (``cpu3``, ``socket0``, or empty).
    units
        By PMU (``cstate_core``): number of its counters by instance, where that is not the number of CPUs.
    """

    key: str
    instances: Mapping[str, int]
    units: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def instance(self, value: str) -> str:
        """Return the instance that the value of ``key`` means."""
        return {"cpu": f"cpu{value}", "socket": f"socket{value.lstrip('S')}"}.get(self.key, "")

    def counters(self, cell: Cell) -> int:
        """Return how many counters an event has on an instance."""
        units = self.units.get(cell[1].partition("/")[0])
        return max(1, units.get(cell[0], 1) if units is not None else self.instances[cell[0]])


@dataclass(frozen=True)
class Counts:
    """What an interval counted, by line.

    Attributes
    ----------
    values
        Counts; NaN where there is none.
    shares
        Percent of the time that the event had a counter; 0 for one that was not counted.
    runtimes
        Nanoseconds that it had a counter, over all its CPUs.
    """

    values: list[float]
    shares: list[float]
    runtimes: list[float]


class Layout:
    """Where the fields of an interval's lines stand, for the lines that count a wanted event.

    Parameters
    ----------
    text
        The lines of an interval.
    wanted
        The cells whose lines are wanted.
    scope
        What the lines stand for.

    Attributes
    ----------
    cells
        What each wanted line counts.

    Raises
    ------
    ValueError
        If a line is not one of perf's.
    """

    def __init__(self, text: bytes, wanted: Container[Cell], scope: Scope) -> None:
        self.cells: list[Cell] = []
        keys: list[int] = []
        values: list[int] = []
        shares: list[int] = []
        runtimes: list[int] = []
        start = 0
        for line in text.split(b"\n")[:-1]:
            fields = _fields(json.loads(line), scope)
            tokens = line.split(_BETWEEN)
            if fields is not None:
                cell = (scope.instance(fields[0]), printed_name(fields[1]))
                if cell in wanted:
                    self.cells.append(cell)
                    for places, name in ((values, VALUE), (shares, SHARE), (runtimes, RUNTIME)):
                        places.append(start + _place(tokens, name))
                    keys += [start + _place(tokens, name) for name in ("event", scope.key) if name]
            start += len(tokens) - 1  # the token behind a line is the one before the next
        tokens = text.split(_BETWEEN)
        self.length = len(tokens)
        self.keys: Picker = picker(keys)
        self.expected = self.keys(tokens)
        self.values: Picker = picker(values)
        self.shares: Picker = picker(shares)
        self.runtimes: Picker = picker(runtimes)
        self.full = (_FULL,) * len(values)

    def read(self, text: bytes) -> Counts | None:
        """Return the counts of an interval; None if its lines are laid out in another way."""
        tokens = text.split(_BETWEEN)
        if len(tokens) != self.length or self.keys(tokens) != self.expected:
            return None
        said = self.values(tokens)
        values = _numbers(said, VALUE)
        given = self.shares(tokens)
        if given == self.full:
            shares = [100.0] * len(said)
        else:
            shares = [min(share, 100.0) for share in _numbers(given, SHARE)]
        for place, value in enumerate(values):
            if value != value and b"<" in said[place]:  # perf gives 100 % for what never ran
                shares[place] = 0.0
        return Counts(values, shares, _numbers(self.runtimes(tokens), RUNTIME))


def _fields(line: Any, scope: Scope) -> tuple[str, str] | None:
    """Return what tells the instance, and the event that a line counts.

    None for one that counts nothing, or nothing that this machine has.
    """
    if not isinstance(line, dict):
        raise ValueError("a line that is no object")
    value, event = line.get(VALUE), line.get("event")
    instance = line.get(scope.key, "") if scope.key else ""
    if not isinstance(value, str) or not isinstance(event, str) or value == "<not supported>":
        return None
    if not isinstance(instance, str) or RUNTIME not in line or SHARE not in line:
        return None
    return instance, event


def _place(tokens: Sequence[bytes], name: str) -> int:
    """Return the place of a field among the pieces of a line."""
    start = f'{name}"'.encode()
    for place, token in enumerate(tokens):
        if token.startswith(start):
            return place
    raise ValueError(f"a line in which {name} stands in an odd place")


def _numbers(tokens: Sequence[bytes], name: str) -> list[float]:
    """Return the numbers in pieces such as ``counter-value" : "51.000000"``; NaN for what is none."""
    start = f'{name}" : '.encode()
    joined = b"\n".join(tokens)
    if joined.count(start) == len(tokens):  # all at once, which costs a third
        try:
            texts = joined.replace(start, b"").replace(b'"', b"").split(b"\n")
            return list(map(float, texts))
        except ValueError:
            pass  # one of them is none
    return [_number(token, name) for token in tokens]


def _number(token: bytes, name: str) -> float:
    """Return the same, whatever blanks there are, and if the line ends there."""
    field, _, text = token.partition(b":")
    try:
        return (
            float(text.partition(b"}")[0].strip(b' "')) if field.strip(b' "') == name.encode() else math.nan
        )
    except ValueError:
        return math.nan


def read_lines(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the lines that count an event, as perf's JSON gives them.

    >>> read_lines([b'{"counter-value" : "7", "event" : "cycles"}', b"", b"perf: oh", b'{"metric" : 1}'])
    [{'counter-value': '7', 'event': 'cycles'}]
    """
    found = []
    for line in lines:
        try:
            value = json.loads(line) if line.startswith(b"{") else None
        except ValueError:
            continue
        if isinstance(value, dict) and "counter-value" in value and isinstance(value.get("event"), str):
            found.append(value)
    return found
