"""Logs of turbostat: a header, then a row for the machine and one for each CPU, again and again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reveal_core.errors import UsageError
from reveal_core.importing.dataset_names import WHOLE, is_package_field, turbostat_target
from reveal_core.importing.findings import Findings
from reveal_core.importing.names import Target
from reveal_core.importing.records import Records
from reveal_core.importing.streams import identity_of, lines, opened
from reveal_core.importing.tabular import read_files
from reveal_core.importing.times import Times, seconds_after
from reveal_core.importing.types import NO_TIME, Chunk, ImportOptions, Layout
from reveal_core.timespec import to_ns

_PLACES = ("Package", "Die", "Node", "L3", "Core", "CPU", "APIC", "X2APIC")
_TIME = "Time_Of_Day_Seconds"
_FIRST = ("usec", _TIME, *_PLACES, "Avg_MHz")
"""What a header begins with."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_INTERVAL = re.compile(r"Measurement interval: (\d+(?:\.\d+)?) seconds")
_UNITS = (("%", "%"), ("MHz", "MHz"), ("Watt", "W"), ("Tmp", "°C"), ("_J", "J"))
_SUBSYSTEMS = (("GFX", "gpu"), ("RAM", "memory"), ("SAM", "gpu"))


def read(source: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read a log, or those of a folder; see `types.Reader`.

    Times come from the column ``Time_Of_Day_Seconds`` (``--enable Time_Of_Day_Seconds``); without it from
    ``--origin`` and the interval that turbostat prints first, or ``--interval``.
    """
    return read_files(
        source,
        ("*turbostat*.txt", "*turbostat*.log", "*turbostat*.txt.xz", "*turbostat*.txt.gz"),
        findings,
        lambda path: read_log(path, options, findings),
    )


@dataclass
class _Snapshot:
    """What turbostat printed at one time: the values of each row, by its CPU and package.

    ``ts`` is `NO_TIME` where the time was told to be none.
    """

    ts: int
    rows: list[tuple[str, str, dict[str, float]]] = field(default_factory=list)


def read_log(path: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read one log."""
    facts = {"cpu": {"model": None}, "gpus": [], "imported": {"kind": "turbostat", "file": path.name}}
    records = Records(options.host or "imported", identity_of(path), "turbostat", findings, facts)
    log = _Log(options, findings)
    with opened(path) as file:
        for line, (text, whole) in enumerate(lines(file), 1):
            done = log.line(text, line, whole)
            if done is not None:
                _put(done, log.seconds(done), records, findings)
                if records.full:
                    yield from records.take()
    if not log.headers:
        raise UsageError(f"{findings.where} is no log of turbostat: it has no header")
    if log.snapshot is not None:
        _put(log.snapshot, log.seconds(log.snapshot), records, findings)
    yield from records.end()


class _Log:
    """The lines of a log: which header holds, and the snapshot that is being read."""

    def __init__(self, options: ImportOptions, findings: Findings) -> None:
        self.options = options
        self.findings = findings
        self.times = Times("s", None, findings)
        self.names: list[str] | None = None
        self.headers = 0
        self.broken: tuple[int, str] | None = None
        self.snapshot: _Snapshot | None = None
        self.interval_s = options.interval_s
        self.count = 0
        self.last: int | None = None

    def line(self, text: str, line: int, whole: bool) -> _Snapshot | None:
        """Take a line; return the snapshot that it ends, if it does."""
        words = text.split()
        if not words:
            return None
        if "Avg_MHz" in text and not _NUMBER.fullmatch(words[0]):
            good = words[0] in _FIRST and len(set(words)) == len(words)
            self.names = words if good else None
            self.headers += good
            self.broken = None if good else (line, text)
            return None
        if not all(word == WHOLE or _NUMBER.fullmatch(word) for word in words):
            found = _INTERVAL.search(text)
            if found is not None and self.interval_s is None:
                self.interval_s = float(found[1])
            elif self.headers:
                self.findings.skip("lines that are no rows of numbers", line=line, detail=text)
            return None
        if self.names is None:
            where, head = self.broken or (line, text)
            self.findings.skip("rows below a header that cannot be read", line=where, detail=head)
            return None
        if not whole:
            self.findings.skip("the last row: the file ends within it", line=line)
            return None
        if len(words) > len(self.names):
            self.findings.skip("rows with more values than the header has columns", line=line)
            return None
        return self._row(dict(zip(self.names, words, strict=False)), line)

    def _row(self, cells: dict[str, str], line: int) -> _Snapshot | None:
        cpu = cells.get("CPU", WHOLE)
        package = cells.get("Package", "0")
        done = None
        now = self.snapshot
        if now is None or cpu == WHOLE or any(cpu == known for known, _, _ in now.rows):
            done = now
            self.snapshot = now = _Snapshot(self._time(cells, line))
            self.count += 1
        values = {
            name: float(cell)
            for name, cell in cells.items()
            if cell != WHOLE and name not in _PLACES and name not in ("usec", _TIME)
        }
        now.rows.append((cpu, package, values))
        return done

    def _time(self, cells: dict[str, str], line: int) -> int:
        if _TIME in cells:
            return int(self.times.ns([cells[_TIME]], [line])[0])
        if self.options.origin is None or self.interval_s is None:
            raise UsageError(
                f"{self.findings.where} has no column {_TIME}: say when it began with --origin, and with "
                "--interval how often it sampled"
            )
        return seconds_after(to_ns(self.options.origin), self.count * self.interval_s)

    def seconds(self, snapshot: _Snapshot) -> float | None:
        """Return over how long a snapshot's counts were counted; None where nothing says."""
        if snapshot.ts == NO_TIME:
            return None
        since = None if self.last is None else (snapshot.ts - self.last) / 1e9
        self.last = snapshot.ts
        return self.interval_s or since


def _put(snapshot: _Snapshot, seconds: float | None, records: Records, findings: Findings) -> None:
    records.at(snapshot.ts)
    if snapshot.ts == NO_TIME:
        return
    cpus = sum(cpu != WHOLE for cpu, _, _ in snapshot.rows)
    several = cpus > 0
    records.facts["cpu"]["logical"] = max(cpus, records.facts["cpu"].get("logical") or 0) or None
    for cpu, package, values in snapshot.rows:
        for name, value in values.items():
            if cpu == WHOLE and several:
                # The machine's mean beside the CPUs would count as one of them.
                records.put_other(f"whole.{name}", "", value, unit=_unit(name), subsystem=_subsystem(name))
                continue
            place = package if is_package_field(name) and cpu != WHOLE else cpu
            target, instance = turbostat_target(name, place)
            if name == "IPC":
                target = Target("perf.ipc")
            if target is None:
                records.put_other(name, instance, value, unit=_unit(name), subsystem=_subsystem(name))
            elif target.form != "interval":
                records.put(target, instance, value)
            elif seconds is not None and seconds > 0:
                records.put(target, instance, value / seconds)
            else:
                findings.skip("counts of a snapshot whose interval is not known")


def _unit(name: str) -> str:
    return next((unit for part, unit in _UNITS if part in name), "")


def _subsystem(name: str) -> str:
    return next((subsystem for part, subsystem in _SUBSYSTEMS if name.startswith(part)), "cpu")
