"""The exporting stage for OTLP: incidents as logs, scores of hosts as metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reveal_core.attribute.tracking import KEPT
from reveal_core.errors import UsageError
from reveal_core.exporting.otlp import Told, changes, count_of, log_requests, metric_requests, steps_of
from reveal_core.exporting.otlp_access import place_of, targets_of
from reveal_core.incidents import iso
from reveal_core.timespec import from_ns, to_ns
from tasks.otlp_sending import Receiver, Sink, lines_into
from tasks.planning import parse_range

if TYPE_CHECKING:
    from storage.store import Store

NEWEST = timedelta(hours=1)
"""How much is exported where no start is given."""
HOSTS_AT_ONCE = 16
"""Hosts whose scores are held at a time."""
PIECE = timedelta(days=1)
"""Of a long range, so much is read at a time."""


def export_otlp(
    store: str,
    *,
    host: str,
    start: str | None,
    end: str | None,
    step_s: float,
    endpoint: str | None,
    out: str | None,
    variables: Mapping[str, str],
) -> dict[str, Any]:
    """Exporting as OTLP.

    Parameters
    ----------
    store
        Root of the store.
    host
        A host's label, or a shell pattern over labels.
    start, end
        The range: of what happened to incidents, and of windows. Without an end it goes to the present,
        without a start it is the hour before that.
    step_s
        Scores are told once for each step, s. Only whole steps are, so ranges that adjoin give each once.
    endpoint
        Base address of a receiver.
    out
        A file in place of a receiver.
    variables
        Of the environment, as the specification of OTLP exporters has them.

    Returns
    -------
    dict
        ``hosts``, ``logs``, ``points``, ``requests`` (numbers), ``rejected`` (items that the receiver left
        out) and ``said`` (why, in its words), ``start``, ``end`` (of the range), ``to``.

    Raises
    ------
    UsageError
        If no host matches, the range is none, or where to is not said.
    UnavailableError
        If the store or the receiver cannot be reached, or the file cannot be written.
    """
    if endpoint is not None and out is not None:
        raise UsageError("--endpoint and --out exclude each other: give one")
    if step_s < 1:
        raise UsageError(f"--step: a step is at least 1 s long, not {step_s:g} s")
    first, last = parse_range(start, end)
    until = last or datetime.now(UTC)
    since = first or until - NEWEST
    if since >= until:
        raise UsageError(f"the range ends ({iso(until)}) before it starts ({iso(since)})")
    targets = targets_of(endpoint, variables) if out is None else {}
    source = _open(store)
    hosts = _hosts(source, store, host)
    export = _Export(source, hosts, since, until, round(step_s * 1e9))
    if out is not None:
        with lines_into(Path(out)) as lines:
            done = export.into(lines)
        return {**done, "said": [], "to": str(Path(out).resolve())}
    with closing(Receiver(targets)) as receiver:
        done = export.into(receiver)
    places = sorted({place_of(target.url) for target in targets.values()})
    return {**done, "said": list(receiver.said), "to": " and ".join(places)}


def _open(store: str) -> Store:
    from storage.store import Store

    source = Store(store)
    source.check()
    return source


def _hosts(source: Store, store: str, pattern: str) -> list[str]:
    known = sorted({*source.ledger_hosts(), *source.watermarks()})
    matching = [name for name in known if fnmatchcase(name, pattern)]
    if known and not matching:
        raise UsageError(f"no host {pattern!r} was judged in store {store}: it knows {', '.join(known[:8])}")
    return matching


class _Export:
    """What goes out, a group of hosts after another, so that memory does not follow their number."""

    def __init__(
        self, source: Store, hosts: Sequence[str], since: datetime, until: datetime, step_ns: int
    ) -> None:
        self.source = source
        self.hosts = hosts
        self.since, self.until = since, until
        self.step_ns = step_ns
        self.version = version("reveal-telemetry")

    def into(self, sink: Sink) -> dict[str, Any]:
        """Deliver everything; return how much it was."""
        counts = {"logs": 0, "metrics": 0}
        requests = rejected = 0
        for signal, request in self._requests():
            rejected += sink.put(signal, request)
            counts[signal] += count_of(request)
            requests += 1
        return {
            "hosts": len(self.hosts),
            "logs": counts["logs"],
            "points": counts["metrics"],
            "requests": requests,
            "rejected": rejected,
            "start": iso(self.since),
            "end": iso(self.until),
        }

    def _requests(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for first in range(0, len(self.hosts), HOSTS_AT_ONCE):
            group = self.hosts[first : first + HOSTS_AT_ONCE]
            for request in log_requests(self._told(group), self.version):
                yield "logs", request
            for low, high in self._pieces():
                for host, frame in sorted(self.source.read_judged(group, low, high).items()):
                    for request in metric_requests(host, steps_of(frame, self.step_ns), self.version):
                        yield "metrics", request

    def _told(self, hosts: Sequence[str]) -> list[Told]:
        # What is found to be over may have ended long before: as far back as ledgers keep it at hand.
        back = min(KEPT, self.since - datetime.min.replace(tzinfo=UTC))
        entries = self.source.read_entries(hosts, self.since - back, self.until)
        return [
            Told(at, change, entry, self.source.read_incident(entry.strongest))
            for at, change, entry in changes(entries, self.since, self.until)
        ]

    def _pieces(self) -> Iterator[tuple[datetime, datetime]]:
        """Yield the whole steps that begin in the range, in pieces of about `PIECE`."""
        step = self.step_ns
        first = -(-to_ns(self.since) // step) * step
        last = to_ns(self.until) // step * step
        piece = max(1, round(PIECE.total_seconds() * 1e9) // step) * step
        for at in range(first, last, piece):
            yield from_ns(at), from_ns(min(at + piece, last))
