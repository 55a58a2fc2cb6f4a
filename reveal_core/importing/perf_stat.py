"""Logs of ``perf stat -I``: with a separator (``-x,``), as JSON (``-j``), or as people read them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from reveal_core.errors import UsageError
from reveal_core.importing.findings import Findings
from reveal_core.importing.names import Target
from reveal_core.importing.records import Records
from reveal_core.importing.streams import identity_of, lines, opened
from reveal_core.importing.tabular import read_files
from reveal_core.importing.times import Times, seconds_after
from reveal_core.importing.types import NO_TIME, Chunk, ImportOptions, Layout
from reveal_core.timespec import to_ns

EVENTS: dict[str, Target] = {
    "cycles": Target("perf.cycles"),
    "cpu-cycles": Target("perf.cycles"),
    "instructions": Target("perf.instructions"),
    "branches": Target("perf.branches"),
    "branch-instructions": Target("perf.branches"),
    "branch-misses": Target("perf.branch_misses"),
    "cache-references": Target("perf.cache_references"),
    "cache-misses": Target("perf.cache_misses"),
    "ref-cycles": Target("perf.ref_cycles"),
    "stalled-cycles-backend": Target("perf.stalled_cycles_backend"),
    "cycle_activity.stalls_l3_miss": Target("perf.stalls_l3_miss"),
    "cycle_activity.cycles_l3_miss": Target("perf.cycles_l3_miss"),
    "ls_dispatch.ld_dispatch": Target("perf.ls_dispatch_loads"),
    "ls_dispatch.store_dispatch": Target("perf.ls_dispatch_stores"),
    "msr/smi/": Target("perf.smi"),
    "context-switches": Target("stat.ctxt", "count"),
    "cs": Target("stat.ctxt", "count"),
    "page-faults": Target("vmstat.pgfault", "count"),
    "faults": Target("vmstat.pgfault", "count"),
    "major-faults": Target("vmstat.pgmajfault", "count"),
    "power/energy-pkg/": Target("power.energy"),
    "power/energy-ram/": Target("power.energy"),
}
"""Events that the catalogue has; their counts per second, and of energy joules per second, are stored."""

_ENERGY = {"power/energy-pkg/": "package", "power/energy-ram/": "dram"}
_STARTED = re.compile(r"# started on (.+)")
_PLACE = re.compile(r"(CPU|S|N)(\d+)(?:-[A-Z]\d+)*")
_NOT = ("<not counted>", "<not supported>")
_PLAIN = re.compile(r"\s*(\d+\.\d+)\s+(?:(CPU\d+|S\d+)\s+(?:\d+\s+)?)?(<not \w+>|[\d.,]+)\s+(.*)")
_UNITS = ("msec", "Joules", "MiB", "ns")
_LOWEST_SHARE = 5.0
"""As the collector: what perf makes of a counter that ran for less than this share of the time is a guess."""


@dataclass(frozen=True)
class Line:
    """What a line says: seconds since perf's start, where, which event, how many, and how long it ran."""

    seconds: float
    instance: str
    event: str
    value: float | None
    share: float = 100.0


def read(source: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read a log, or those of a folder; see `types.Reader`.

    Lines count seconds from perf's start, which ``# started on`` tells in local time; else ``--origin`` does.
    """
    return read_files(
        source, ("*.csv", "*.log", "*.txt", "*.json"), findings, lambda path: _read(path, options, findings)
    )


def _read(path: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    facts = {"cpu": {}, "gpus": [], "imported": {"kind": "perf", "file": path.name}}
    records = Records(options.host or "imported", identity_of(path), "perf", findings, facts)
    origin = to_ns(options.origin) if options.origin is not None else None
    last: dict[tuple[str, str], float] = {}
    found = 0
    with opened(path) as file:
        for number, (text, _) in enumerate(lines(file), 1):
            started = _STARTED.match(text)
            if started is not None and options.origin is None:
                origin = _origin(started[1].strip(), options, findings)
            if not text.strip() or text.lstrip().startswith("#"):
                continue
            line = parse_line(text)
            if line is None:
                findings.skip("lines that are none of perf's", line=number, detail=text)
                continue
            if origin is None:
                raise UsageError(
                    f"{findings.where} counts seconds from a start that it does not tell: give --origin"
                )
            found += 1
            key = line.instance, line.event
            before = last.get(key, 0.0)
            if line.seconds <= before:
                before = 0.0  # perf was started anew into the same file
            last[key] = line.seconds
            if line.value is None:
                findings.skip(f"samples of {line.event} that perf did not count", line=number)
                continue
            if line.share < _LOWEST_SHARE:
                findings.skip(
                    f"samples of {line.event} that ran for less than {_LOWEST_SHARE:g} % of the time",
                    line=number,
                )
                continue
            records.at(seconds_after(origin, line.seconds), number)
            _put(records, line, line.value / (line.seconds - before))
            if records.full:
                yield from records.take()
    if not found:
        raise UsageError(f"{findings.where} is no log of perf stat -I: no line of it counts anything")
    yield from records.end()


def _put(records: Records, line: Line, rate: float) -> None:
    target = EVENTS.get(line.event)
    if target is None:
        records.put_other(line.event, line.instance, rate, unit="events/s")
    elif line.event in _ENERGY:
        records.put(target, f"{_ENERGY[line.event]} {line.instance}".strip(), rate)
    else:
        records.put(target, line.instance, rate)


def _origin(text: str, options: ImportOptions, findings: Findings) -> int | None:
    try:
        began = datetime.strptime(text, "%a %b %d %H:%M:%S %Y")
    except ValueError:
        findings.skip("a start that is no time", detail=text)
        return None
    ns = int(Times("iso", options.zone, findings).ns([began.isoformat()])[0])
    return None if ns == NO_TIME else ns


def parse_line(text: str) -> Line | None:
    """Return what a line of an interval says; None for one that says nothing.

    >>> parse_line("     1.000107345,CPU0,12345,,cycles,1000000000,100.00,,")
    Line(seconds=1.000107345, instance='cpu0', event='cycles', value=12345.0, share=100.0)
    """
    if text.lstrip().startswith("{"):
        line = _json_line(text)
    else:
        mark = next((mark for mark in (",", ";", "\t", "|") if text.count(mark) >= 5), None)
        line = _separated(text.split(mark)) if mark is not None else _plain(text)
    # Seconds since perf's start: nothing was counted over an interval without a length.
    return line if line is not None and 0.0 < line.seconds < math.inf else None


def _json_line(text: str) -> Line | None:
    try:
        found = json.loads(text)
        seconds, event = float(found["interval"]), str(found["event"])
        counted = str(found["counter-value"])
        place = next((f"{k}{found[k]}" for k in ("cpu", "socket") if k in found), "")
        value = None if counted in _NOT else float(counted)
        return Line(seconds, _instance(place), _event(event), value, float(found.get("pcnt-running", 100.0)))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _separated(cells: list[str]) -> Line | None:
    """Read time, [place, [number of CPUs,]] value, unit, event, time that it ran, share …"""
    cells = [cell.strip() for cell in cells]
    place = ""
    if len(cells) > 1 and _PLACE.fullmatch(cells[1]):
        place = cells.pop(1)
        if not place.startswith("CPU") and cells[1].isdigit():
            cells.pop(1)
    try:
        seconds = float(cells[0])
        value = None if cells[1] in _NOT else float(cells[1])
        event = cells[3]
        share = float(cells[5]) if len(cells) > 5 and cells[5] else 100.0
    except (ValueError, IndexError):
        return None
    return Line(seconds, _instance(place), _event(event), value, share) if event else None


def _plain(text: str) -> Line | None:
    found = _PLAIN.match(text)
    if found is None:
        return None
    words = found[4].partition("#")[0].split()
    share = 100.0
    if words and (ran := re.fullmatch(r"\((\d+(?:\.\d+)?)%\)", words[-1])):
        share = float(ran[1])
        words.pop()
    elif ran := re.search(r"\((\d+(?:\.\d+)?)%\)\s*$", found[4]):
        share = float(ran[1])
    if words and words[0] in _UNITS:
        words.pop(0)
    if len(words) != 1:
        return None
    try:
        value = None if found[3] in _NOT else float(found[3].replace(",", ""))
    except ValueError:
        return None
    return Line(float(found[1]), _instance(found[2] or ""), _event(words[0]), value, share)


def _instance(place: str) -> str:
    number = re.search(r"\d+", place)
    if number is None:
        return ""
    return f"cpu{number[0]}" if place.lower().startswith("cpu") else f"socket{number[0]}"


def _event(name: str) -> str:
    return name.strip().lower()
