"""Logs of ``nvidia-smi dmon`` and ``dcgmi dmon``: a header of short names, then a line a GPU and time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from reveal_core.errors import UsageError
from reveal_core.importing.delimited import number
from reveal_core.importing.findings import Findings
from reveal_core.importing.nvidia_names import DMON
from reveal_core.importing.records import Records
from reveal_core.importing.streams import identity_of, lines, opened
from reveal_core.importing.tabular import read_files
from reveal_core.importing.times import ISO, Times, seconds_after
from reveal_core.importing.types import NO_TIME, Chunk, ImportOptions, Layout
from reveal_core.timespec import to_ns

_WHEN = ("date", "time")
_ENTITY = re.compile(r"(GPU-CI|GPU-I|GPU|Switch|CPU)[\s-]+(\S+)\s+")
_STAMP = re.compile(r"^(\d{4}[-/]?\d{2}[-/]?\d{2})[ T](\d{2}:\d{2}:\d{2}(?:[.,]\d+)?)\s+")


def read(source: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read a log of ``dcgmi dmon``, or those of a folder; see `types.Reader`."""
    return read_files(
        source,
        ("*.csv", "*.log", "*.txt", "*.log.gz", "*.txt.gz"),
        findings,
        lambda path: read_dmon(path, options, findings, "dcgmi"),
    )


def read_dmon(path: Path, options: ImportOptions, findings: Findings, kind: str) -> Iterator[Chunk | Layout]:
    """Read one log of either program.

    Times come from the columns Date and Time (``nvidia-smi dmon -o DT``) or from a stamp that another program
    (``ts``) has put before each line; else from ``--origin`` and ``--interval``.
    """
    records = Records(
        options.host or "imported",
        identity_of(path),
        kind,
        findings,
        {"cpu": {}, "gpus": [], "imported": {"kind": kind, "file": path.name}},
    )
    log = _Log(options, findings)
    with opened(path) as file:
        for line, (text, _) in enumerate(lines(file), 1):
            row = log.row(text, line)
            if row is None:
                continue
            ts, instance, values = row
            if ts == NO_TIME:
                continue
            gpus = records.facts["gpus"]
            if instance not in [gpu["name"] for gpu in gpus]:
                gpus.append({"index": len(gpus), "name": instance})
            records.at(ts, line)
            for name, value in values:
                target = DMON.get(name)
                if target is not None:
                    records.put(target, instance, value)
                else:
                    records.put_other(name, instance, value, subsystem="gpu")
            if records.full:
                yield from records.take()
    if not log.headed:
        raise UsageError(f"{findings.where} is no log of dmon: it has no header that begins with #")
    yield from records.end()


class _Log:
    """The lines of a log, with the header that was seen last."""

    def __init__(self, options: ImportOptions, findings: Findings) -> None:
        self.options = options
        self.findings = findings
        self.names: list[str] = []
        self.headed = False
        self.times = Times(ISO, options.zone, findings)
        self.tick = -1
        self.seen: set[str] = set()

    def row(self, text: str, line: int) -> tuple[int, str, list[tuple[str, float]]] | None:
        """Return time, GPU and values of a line; None for a header, and for one that is told to be bad."""
        timed = {name.lower() for name in self.names[:2]} & set(_WHEN)
        stamp = _STAMP.match(text) if not timed else None
        body = (text[stamp.end() :] if stamp is not None else text).strip()
        if not body or body.split()[0] in ("ID", "Entity"):
            return None
        if body.startswith("#"):
            self._header(body[1:].split())
            return None
        if not self.headed:
            self.findings.skip("lines before the first header", line=line, detail=text)
            return None
        entity = _ENTITY.match(body)
        cells = (
            [entity[2], *body[entity.end() :].split()]
            if entity is not None
            else body.replace(",", " ").split()
        )
        when = [cells.pop(0) for name in self.names[:2] if name.lower() in _WHEN and cells]
        names = self.names[len(when) :]
        if len(cells) != len(names):
            self.findings.skip(
                "lines that do not have the header's columns",
                line=line,
                detail=f"{len(cells)} of {len(names)}",
            )
            return None
        kind = entity[1].lower() if entity is not None else "gpu"
        instance = f"{kind}{cells[0]}" if cells[0].isdigit() else cells[0]
        values = []
        for name, cell in zip(names[1:], cells[1:], strict=True):
            try:
                value = number(cell)
            except ValueError:
                self.findings.skip(f"samples of column {name} that are no number", line=line, detail=cell)
                continue
            if value == value:
                values.append((name, value))
        return self._time(stamp, when, instance, line), instance, values

    def _header(self, names: list[str]) -> None:
        known = {name.lower() for name in names}
        if known & {"gpu", "entity"}:
            self.names = names
            self.headed = True

    def _time(self, stamp: re.Match[str] | None, when: list[str], instance: str, line: int) -> int:
        if stamp is not None:
            text = f"{stamp[1].replace('/', '-')} {stamp[2].replace(',', '.')}"
        elif len(when) == 2:
            date = when[0].replace("/", "-")
            text = f"{date[:4]}-{date[4:6]}-{date[6:]} {when[1]}" if len(date) == 8 else f"{date} {when[1]}"
        else:
            return self._counted(instance)
        return int(self.times.ns([text], [line])[0])

    def _counted(self, instance: str) -> int:
        """Return the time of a line of a log without times: an interval later once a GPU comes again."""
        origin, every = self.options.origin, self.options.interval_s
        if origin is None or every is None:
            raise UsageError(
                f"{self.findings.where} has no times: say when it began and how often it sampled, "
                "with --origin and --interval"
            )
        if self.tick < 0 or instance in self.seen:
            self.tick += 1
            self.seen.clear()
        self.seen.add(instance)
        return seconds_after(to_ns(origin), self.tick * every)
