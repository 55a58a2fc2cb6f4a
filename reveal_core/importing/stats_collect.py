"""Raw logs of stats-collect: a folder for each host, with turbostat, interrupts, IPMI and a power meter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from reveal_core.errors import UsageError
from reveal_core.importing.findings import Findings
from reveal_core.importing.interrupts import STAMP, read_interrupts
from reveal_core.importing.names import Target
from reveal_core.importing.records import Records
from reveal_core.importing.streams import files_in, identity_of, lines, opened
from reveal_core.importing.tabular import Style, read_text_table
from reveal_core.importing.times import Times
from reveal_core.importing.turbostat import read_log
from reveal_core.importing.types import NO_TIME, Chunk, ImportOptions, Layout

_NAMES = ("*turbostat*.txt*", "*interrupts*.txt*", "ipmi*.txt*", "acpower*.txt*")
_READING = re.compile(r"(-?\d+(?:\.\d+)?)\s+(.+)")
_UNITS = {
    "degrees C": Target("thermal.temperature"),
    "RPM": Target("hwmon.fan"),
    "Watts": Target("hwmon.power"),
}
_OTHERS = {
    "Volts": ("voltage", "V"),
    "Amps": ("current", "A"),
    "percent": ("share", "%"),
    "CFM": ("airflow", "CFM"),
}


def read(source: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read the logs of a host's folder, or of a folder of such; see `types.Reader`.

    A host is called as its folder, unless the source is one folder and a name was given.
    """
    paths = files_in(source, _NAMES)
    folders = {path.parent for path in paths}
    for path in paths:
        own = options.host if options.host is not None and len(folders) == 1 else path.resolve().parent.name
        findings.where = str(path.relative_to(source)) if source.is_dir() else path.name
        try:
            yield from _read(path, replace(options, host=own), findings)
        except UsageError as error:
            if not source.is_dir():
                raise
            findings.skip(str(error))


def _read(path: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    if "turbostat" in path.name:
        return read_log(path, options, findings)
    if "interrupts" in path.name:
        return read_interrupts(path, options, findings)
    if path.name.startswith("ipmi"):
        return read_ipmi(path, options, findings)
    return read_text_table(path, Style("power-meter"), options, findings)


def read_ipmi(path: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read sensors as ipmitool prints them, each snapshot below a line with its time."""
    facts = {"cpu": {"model": None}, "gpus": [], "imported": {"kind": "stats-collect", "file": path.name}}
    records = Records(options.host or "imported", identity_of(path), "ipmi", findings, facts)
    times = Times("s", None, findings)
    now = NO_TIME
    stamped = False
    with opened(path) as file:
        for number, (text, whole) in enumerate(lines(file), 1):
            found = STAMP.match(text)
            if found is not None:
                stamped = True
                now = int(times.ns([found[1]], [number])[0])
                if now != NO_TIME:
                    if records.full:
                        yield from records.take()
                    records.at(now)
                continue
            cells = [cell.strip() for cell in text.split("|")]
            if not text.strip() or now == NO_TIME:
                continue
            if len(cells) != 3 or not whole:
                findings.skip("lines that are no readings", line=number, detail=text)
                continue
            reading = _READING.fullmatch(cells[1])
            if reading is None:
                continue  # "no reading", "disabled", or the bits of a sensor that only has states
            if reading[2] in _UNITS:
                records.put(_UNITS[reading[2]], cells[0], float(reading[1]))
            else:
                name, unit = _OTHERS.get(reading[2], (reading[2], reading[2]))
                records.put_other(name, cells[0], float(reading[1]), unit=unit, subsystem="cpu")
    if not stamped:
        raise UsageError(f"{findings.where} has no line 'Timestamp | SECONDS' before its readings")
    yield from records.end()
