"""What an import asks a Prometheus server for: which hosts, which names, which stretches of time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from reveal_core.errors import RevealError, UnavailableError, UsageError
from reveal_core.importing.covered import ImportRecord, missing_of
from reveal_core.importing.findings import Findings
from reveal_core.importing.prometheus_answers import MS, AnswerError, kinds_of, names_of
from reveal_core.importing.prometheus_gather import Refusals
from reveal_core.importing.prometheus_names import NAME, judge_name, known_names
from reveal_core.incidents import iso
from reveal_core.timespec import to_ns
from storage.store import Store
from tasks.prometheus_server import PrometheusServer, TooMuchError

HOUR_MS = 3_600_000
FIRST_MS = 60_000
"""Length of the first piece, before it is known how many samples a host has."""
LEAST_MS = 1000
"""A piece is not cut shorter."""
WANTED = 200_000
"""Samples of an answer, more or less: some 7 MB."""
INSTANCE = "instance"
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

Answer = tuple[int, bytes]
"""When the stretch that was asked for begins, in ms since 1970, and the answer."""


def to_ms(moment: datetime) -> int:
    """Return a time in ms since 1970."""
    return to_ns(moment) // MS


def host_of(instance: str) -> str:
    """Return the host of an ``instance`` label: what stands before the port.

    >>> host_of("node-17:9100"), host_of("[fe80::1]:9100"), host_of("fe80::1"), host_of("node-17")
    ('node-17', 'fe80::1', 'fe80::1', 'node-17')
    """
    before, colon, port = instance.rpartition(":")
    if colon and port.isdigit() and (":" not in before or before.endswith("]")):
        instance = before
    return instance.removeprefix("[").removesuffix("]")


@dataclass(frozen=True)
class Selection:
    """Which series are wanted.

    Attributes
    ----------
    match
        Label matchers in braces, as PromQL has them.
    host_label
        The label that names the host.
    keep_unknown
        Whether series are wanted that the catalogue does not know.

    Raises
    ------
    UsageError
        If one is none.
    """

    match: str | None = None
    host_label: str = INSTANCE
    keep_unknown: bool = False

    def __post_init__(self) -> None:
        if self.match is not None and not re.fullmatch(r"\{.*[^\s{].*\}", self.match.strip(), re.DOTALL):
            raise UsageError(
                f"--match takes label matchers in braces, like '{{job=\"node\"}}', not {self.match!r}"
            )
        if not _LABEL.fullmatch(self.host_label):
            raise UsageError(f"--host-label: {self.host_label!r} is no name of a label")

    def selector(self, *matchers: str) -> str:
        """Return the selection with further matchers, as PromQL has it."""
        own = self.match.strip()[1:-1].strip().rstrip(",") if self.match is not None else ""
        return f"{{{', '.join([own, *matchers] if own else matchers)}}}"

    def base(self) -> str:
        """Return a matcher of the names that are looked for."""
        return f'{NAME}=~".+"' if self.keep_unknown else f"{NAME}=~{_quoted(known_names())}"

    def host(self, values: tuple[str, ...]) -> str:
        """Return a matcher of a host, by the values of its label."""
        if len(values) == 1:
            return f"{self.host_label}={_quoted(values[0])}"
        return f"{self.host_label}=~{_quoted('|'.join(map(re.escape, values)))}"

    def host_name(self, value: str) -> str:
        """Return the host that a label's value stands for."""
        return host_of(value) if self.host_label == INSTANCE else value


def _quoted(text: str) -> str:
    """Return a text as PromQL quotes it, which is as JSON does."""
    return json.dumps(text, ensure_ascii=False)


@dataclass
class Pace:
    """How many samples there are, so that an answer is of a good size.

    Attributes
    ----------
    length_ms
        Of the next piece.
    """

    length_ms: int = FIRST_MS

    def saw(self, samples: int, milliseconds: int) -> None:
        """Take how many samples a piece had, and how long it was."""
        if samples:
            self.length_ms = max(LEAST_MS, min(HOUR_MS, WANTED * milliseconds // samples))
        else:
            self.length_ms = HOUR_MS


@dataclass(frozen=True)
class HostPlan:
    """What is asked of a host.

    Attributes
    ----------
    host
        Its label in the store.
    selector
        Its series, as PromQL has it.
    record
        What was imported of it before.
    """

    host: str
    selector: str
    record: ImportRecord


@dataclass(frozen=True)
class Piece:
    """A stretch of time of a host that is asked for at once, [``start``, ``end``) in ms since 1970.

    Attributes
    ----------
    first, last
        It is the first or the last of a stretch that is missing.
    ends
        A segment ends with it.
    """

    plan: HostPlan
    start: int
    end: int
    first: bool
    last: bool

    @property
    def ends(self) -> bool:
        """Whether segments end with it: they hold to the hours of the store."""
        return self.last or self.end % HOUR_MS == 0

    def fetch(self, server: PrometheusServer) -> list[Answer]:
        """Return the answers with its samples, in order: one, unless that is too much for the server."""
        return _fetched(server, self.plan, self.start, self.end)


def _fetched(server: PrometheusServer, plan: HostPlan, start: int, end: int) -> list[Answer]:
    try:
        return [(start, server.samples(plan.selector, start, end))]
    except TooMuchError as error:
        if end - start < 2 * LEAST_MS:
            raise UnavailableError(
                f"{server.url} cannot give {(end - start) / 1000:g} s of {plan.host} at once: {error}"
            ) from error
    middle = (start + end) // 2
    return [*_fetched(server, plan, start, middle), *_fetched(server, plan, middle, end)]


@dataclass
class Planner:
    """Finds out what there is to import.

    Attributes
    ----------
    kinds
        Of metrics, where series are wanted that nobody knows.
    done
        Hosts of which everything was imported before.
    known
        Hosts of which something was imported before.
    """

    server: PrometheusServer
    selection: Selection
    source: str
    first: datetime
    last: datetime
    findings: Findings
    refusals: Refusals
    again: bool = False
    kinds: Mapping[str, str] = field(default_factory=dict)
    done: int = 0
    known: int = 0

    def hosts(self) -> dict[str, tuple[str, ...]]:
        """Return the hosts in order of name, with the values of their label.

        Raises
        ------
        UsageError
            If there is none.
        """
        label = self.selection.host_label
        wanted = self.selection.selector(f'{label}!=""', self.selection.base())
        found: dict[str, list[str]] = {}
        for value in self._values(label, wanted):
            found.setdefault(self.selection.host_name(value), []).append(value)
        if not found:
            raise UsageError(
                f"{self.server.url} has no series {wanted} from {iso(self.first)} to {iso(self.last)}"
            )
        if self.selection.keep_unknown:
            self.kinds = self._kinds()
        return {host: tuple(sorted(found[host])) for host in sorted(found)}

    def pieces(self, store: Store, hosts: Mapping[str, tuple[str, ...]], pace: Pace) -> Iterator[Piece]:
        """Yield what is to be asked for, host by host and in order of time, as long as ``pace`` says."""
        for host, values in hosts.items():
            records = {record.source: record for record in store.imports(host)}
            record = records.get(self.source) or ImportRecord(self.source, self._what())
            self.known += bool(record.covered)
            covered = () if self.again else record.covered
            gaps = missing_of(covered, self.first, self.last)
            if not gaps:
                self.done += 1
                continue
            names = self._names(values)
            if not names:
                continue
            matcher = f"{NAME}=~{_quoted('|'.join(map(re.escape, names)))}"
            plan = HostPlan(host, self.selection.selector(self.selection.host(values), matcher), record)
            for begin, until in gaps:
                yield from _cut(plan, to_ms(begin), to_ms(until), pace)

    def _names(self, values: tuple[str, ...]) -> list[str]:
        """Return the names that a host has and that are wanted; what is not is told."""
        wanted = []
        for name in self._values(NAME, self.selection.selector(self.selection.host(values))):
            refusal = judge_name(name)
            if refusal is None or (self.selection.keep_unknown and not refusal.known):
                wanted.append(name)
            else:
                self.refusals.add(name, refusal)
        return sorted(wanted)

    def _values(self, label: str, selector: str) -> list[str]:
        start, end = to_ms(self.first), to_ms(self.last)
        try:
            values, warnings = names_of(self.server.label_values(label, selector, start, end))
        except TooMuchError as error:
            raise UnavailableError(f"{self.server.url} cannot list its series: {error}") from error
        for warning in warnings:
            self.findings.note(f"the server warns: {warning}")
        return values

    def _kinds(self) -> dict[str, str]:
        try:
            return kinds_of(self.server.metadata())
        except (RevealError, AnswerError, TooMuchError) as error:
            self.findings.note(f"only names that end in _total count as counters: {error}")
            return {}

    def _what(self) -> str:
        return " ".join(part for part in (self.server.url, self.selection.match) if part)


def _cut(plan: HostPlan, start: int, end: int, pace: Pace) -> Iterator[Piece]:
    at = start
    while at < end:
        hour_ends = (at // HOUR_MS + 1) * HOUR_MS
        until = min(at + pace.length_ms, hour_ends, end)
        yield Piece(plan, at, until, first=at == start, last=until == end)
        at = until
