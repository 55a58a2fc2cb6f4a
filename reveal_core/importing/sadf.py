"""``sadf -j``: what sar recorded, as JSON; read record by record, for a day of them may be large."""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import tzinfo
from pathlib import Path
from typing import IO, Any

from reveal_core.errors import UsageError
from reveal_core.importing.findings import Findings
from reveal_core.importing.records import Records
from reveal_core.importing.sadf_names import LABELS, instance_of, sadf_target
from reveal_core.importing.streams import identity_of, opened
from reveal_core.importing.tabular import read_files
from reveal_core.importing.times import Times, parse_zone
from reveal_core.importing.types import NO_TIME, Chunk, ImportOptions, Layout

READ_BYTES = 1 << 20
LONGEST_RECORD = 64 << 20
_STATISTICS = re.compile(r'"statistics"\s*:\s*\[')
_RECORD = re.compile(r'\{\s*"timestamp"')
_NEXT = re.compile(rf"{_STATISTICS.pattern}|{_RECORD.pattern}")
_TEXT = r'"{}"\s*:\s*"([^"]*)"'
_NUMBER = r'"{}"\s*:\s*(\d{{1,6}})\b'


def read(source: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read a file of ``sadf -j``, or those of a folder; see `types.Reader`."""
    return read_files(
        source,
        ("*.json", "*.json.gz", "*.json.xz"),
        findings,
        lambda path: _read(path, options, findings),
    )


def _read(path: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    identity = identity_of(path)
    records: Records | None = None
    clocks: dict[bool, Times] = {}
    with opened(path) as file:
        for head, record in records_of(file, findings):
            if head is not None:
                if records is not None:
                    yield from records.end()
                name = options.host or _said(_TEXT, "nodename", head) or "imported"
                cpus = _said(_NUMBER, "number-of-cpus", head)
                facts: dict[str, Any] = {
                    "cpu": {"model": None, "logical": int(cpus) if cpus else None},
                    "gpus": [],
                    "kernel": _said(_TEXT, "release", head),
                    "imported": {"kind": "sadf", "file": path.name},
                }
                records = Records(name, identity, "sadf", findings, facts)
                clocks = {
                    True: Times("iso", parse_zone("UTC"), findings),
                    False: Times("iso", options.zone or _zone(head), findings),
                }
            if record is None or records is None:
                continue
            ts = _time(record.get("timestamp"), clocks, findings)
            if ts == NO_TIME:
                continue
            records.at(ts)
            for section, content in record.items():
                if section != "timestamp":
                    _put(records, section, content, "")
            if records.full:
                yield from records.take()
    if records is None:
        raise UsageError(f"{findings.where} is no output of sadf -j: it has no list of statistics")
    yield from records.end()


def records_of(file: IO[bytes], findings: Findings) -> Iterator[tuple[str | None, dict[str, Any] | None]]:
    """Yield what stands before each list of statistics, and each record of the list, one or the other.

    What is no JSON is left out up to the next record; records that stand outside a list, which damage may
    have ended, count as of the last one.
    """
    decoder = json.JSONDecoder()
    stream = _Text(file)
    headed = False
    while stream.find(_NEXT, before=True):
        if not headed or not stream.text.startswith("{", stream.at):
            headed = True
            yield stream.passed, None
            if not stream.text.startswith("{", stream.at):
                stream.find(_STATISTICS)
        while stream.mark(" \t\r\n,") not in ("]", ""):
            try:
                record, end = decoder.raw_decode(stream.text, stream.at)
            except (ValueError, RecursionError):
                if stream.more():
                    continue
                lost = stream.line
                stream.at += 1
                more = stream.find(_RECORD, before=True)
                findings.skip(
                    "records that are no JSON" if more else "the last record: the file ends within it",
                    line=lost,
                )
                if not more:
                    return
                continue
            stream.at = end
            if isinstance(record, dict) and "timestamp" in record:
                yield None, record
            else:
                findings.skip("records without a time", line=stream.line)


class _Text:
    """A text of which a piece is held.

    Attributes
    ----------
    text, at
        The piece, and where in it we are.
    passed
        What `find` went past, at most the last 64 Ki characters.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.text = ""
        self.at = 0
        self.passed = ""
        self._lines = 1
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._ended = False

    @property
    def line(self) -> int:
        """The line that we are in."""
        return self._lines + self.text.count("\n", 0, self.at)

    def more(self) -> bool:
        """Read on, forgetting what lies behind; return whether anything came."""
        if self._ended or len(self.text) - self.at > LONGEST_RECORD:
            return False
        data = self.file.read(READ_BYTES)
        self._ended = not data
        self._lines += self.text.count("\n", 0, self.at)
        self.text = self.text[self.at :] + self._decode(data, not data)
        self.at = 0
        return not self._ended

    def find(self, pattern: re.Pattern[str], *, before: bool = False) -> bool:
        """Go behind the next place that fits a pattern, or before it; if there is none, to the end."""
        while True:
            found = pattern.search(self.text, self.at)
            if found is not None:
                self.passed = self.text[max(0, found.start() - (1 << 16)) : found.start()]
                self.at = found.start() if before else found.end()
                return True
            self.at = max(self.at, len(self.text) - 64)  # what is sought may begin at the end
            if not self.more():
                self.text, self.at = "", 0
                return False

    def mark(self, passing: str) -> str:
        """Pass over some characters; return the next one, nothing at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in passing:
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""


def _said(pattern: str, key: str, head: str) -> str | None:
    found = re.findall(pattern.format(re.escape(key)), head)
    return found[-1] if found else None


def _zone(head: str) -> tzinfo | None:
    """Return the zone that newer versions of sadf name; None for one that is not known."""
    named = _said(_TEXT, "timezone", head)
    if named is None:
        return None
    try:
        return parse_zone(named)
    except UsageError:
        return None


def _time(stamp: Any, clocks: Mapping[bool, Times], findings: Findings) -> int:
    if not isinstance(stamp, dict) or not {"date", "time"} <= stamp.keys():
        findings.skip("records whose time is none", detail=str(stamp))
        return NO_TIME
    utc = bool(stamp.get("utc", 0))
    return int(clocks[utc].ns([f"{stamp['date']} {stamp['time']}"])[0])


def _put(records: Records, section: str, content: Any, instance: str) -> None:
    """Add every number of a section, whatever it holds."""
    if isinstance(content, list):
        entries = [entry for entry in content if isinstance(entry, dict)]
        several = len(entries) > 1
        for entry in entries:
            label = next((key for key in LABELS if key in entry), None)
            place = instance_of(section, str(entry[label])) if label is not None else instance
            if several and place == "all":
                # The machine's mean beside its parts would count as one of them.
                section_, place = f"whole.{section}", ""
            else:
                section_ = section
            _put(records, section_, {k: v for k, v in entry.items() if k != label}, place)
        return
    if not isinstance(content, dict):
        return
    for key, value in content.items():
        if isinstance(value, dict | list):
            _put(records, key, value, instance)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            target, place = sadf_target(section, key, instance)
            if target is not None:
                records.put(target, place, _float(value))
            else:
                records.put_other(f"{section}.{key}", instance, _float(value))


def _float(value: float) -> float:
    """Return a number of JSON, which may have any length, as a float."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
