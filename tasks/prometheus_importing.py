"""The importing stage that asks a Prometheus server: raw samples, hour by hour and host by host."""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.importing.assemble import Assembler
from reveal_core.importing.covered import ImportRecord, joined
from reveal_core.importing.findings import Findings
from reveal_core.importing.prometheus_answers import MS, AnswerError, series_of
from reveal_core.importing.prometheus_gather import Gather, Refusals
from reveal_core.incidents import iso
from reveal_core.segment import Segment
from reveal_core.timespec import from_ns
from storage.store import Store
from tasks.importing import window_notes
from tasks.planning import parse_range
from tasks.prometheus_access import Access, is_local, server_url
from tasks.prometheus_plan import Answer, HostPlan, Pace, Piece, Planner, Selection
from tasks.prometheus_server import PrometheusServer

USUAL_RANGE = timedelta(hours=1)
SETTLED = timedelta(minutes=5)
"""Samples of a time that is longer ago are all there, unless a server takes late ones."""
MOST_HELD = 4_000_000
"""Samples that wait to become segments; each takes some 16 bytes, and twice that while it becomes one."""


def import_prometheus(
    store: str,
    *,
    url: str,
    access: Access | None = None,
    start: str | None = None,
    end: str | None = None,
    match: str | None = None,
    host_label: str = "instance",
    concurrency: int = 2,
    keep_unknown: bool = False,
    again: bool = False,
    say: Callable[[str], None] = lambda _: None,
    wait: Callable[[float], object] | None = None,
) -> dict[str, Any]:
    """Importing from Prometheus.

    Parameters
    ----------
    store
        Root of the store.
    url
        The server's address.
    access
        How it is entered.
    start, end
        The range; the last hour if not given.
    match
        Label matchers in braces, as PromQL has them.
    host_label
        The label that names the host. Of ``instance`` the port is dropped.
    concurrency
        Requests at once.
    keep_unknown
        Keep series that the catalogue does not know under names of their own.
    again
        Import what was imported before, too.
    say
        Told what is going on.
    wait
        Waits so many seconds, where the server asks for it; for tests.

    Returns
    -------
    dict
        As `tasks.importing.import_telemetry`. If there is nothing new, ``hosts`` is empty, ``segments``,
        ``samples`` and ``bytes`` are 0, ``period_ms``, ``start`` and ``end`` are None, and a note says so.

    Raises
    ------
    UsageError
        If an argument is wrong, the server takes the selection for wrong, or there is nothing to import.
    UnavailableError
        If the server or the store cannot be reached. What was imported until then stays, and the next import
        goes on from there.
    """
    selection = Selection(match, host_label, keep_unknown)
    address = server_url(url)
    server = PrometheusServer(address, access or Access(), connections=concurrency, say=say, wait=wait)
    first, last = _range(start, end)
    try:
        return _Import(store, server, selection, first, last, concurrency, again, say).run()
    except AnswerError as error:
        raise UnavailableError(f"{address} gave an answer that is of no use: {error}") from error
    finally:
        server.close()


def _range(start: str | None, end: str | None) -> tuple[datetime, datetime]:
    """Return the range of an import, to whole milliseconds; what is to come is left out."""
    first, last = parse_range(start, end)
    now = datetime.now(UTC)
    last = min(last, now) if last is not None else now
    last -= timedelta(microseconds=last.microsecond % 1000)
    first = first if first is not None else last - USUAL_RANGE
    first -= timedelta(microseconds=first.microsecond % 1000)
    if first >= last:
        raise UsageError(f"the range begins at {iso(first)}, which is still to come")
    return first, last


class _Import:
    """One import: what was found out about it so far."""

    def __init__(
        self,
        store: str,
        server: PrometheusServer,
        selection: Selection,
        first: datetime,
        last: datetime,
        concurrency: int,
        again: bool,
        say: Callable[[str], None],
    ) -> None:
        self.target = Store(store)
        self.server = server
        self.selection = selection
        self.first, self.last = first, last
        self.concurrency = concurrency
        self.say = say
        self.source = _source(server.url, selection)
        self.findings = Findings()
        self.findings.where = server.url
        self.refusals = Refusals()
        self.assembler = Assembler(self.findings, self._put)
        self.pace = Pace()
        self.planner = Planner(
            server, selection, self.source, first, last, self.findings, self.refusals, again=again
        )
        self.settled = datetime.now(UTC) - SETTLED
        self.bytes = 0
        self.gather: Gather | None = None
        self.record: ImportRecord | None = None
        self.begin: datetime = first

    def run(self) -> dict[str, Any]:
        """Import, and return the result."""
        hosts = self.planner.hosts()
        self.target.check(write=True)
        self.findings.where = self.server.url
        pieces = self.planner.pieces(self.target, hosts, self.pace)
        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="prometheus") as pool:
            try:
                for piece, answers in self._ahead(pool, pieces):
                    self._take(piece, answers)
            finally:
                self.server.close()  # what waits for the server to heal need not wait any longer
                pool.shutdown(wait=False, cancel_futures=True)
        self.refusals.tell(self.findings)
        return self._result(len(hosts))

    def _ahead(
        self, pool: ThreadPoolExecutor, pieces: Iterator[Piece]
    ) -> Iterator[tuple[Piece, list[Answer]]]:
        """Yield pieces with their answers in order, while the next ones are on their way."""
        waiting = []
        for piece in pieces:
            waiting.append((piece, pool.submit(piece.fetch, self.server)))
            if len(waiting) >= self.concurrency:
                done, answer = waiting.pop(0)
                yield done, answer.result()
        for done, answer in waiting:
            yield done, answer.result()

    def _take(self, piece: Piece, answers: list[Answer]) -> None:
        plan = piece.plan
        if self.gather is None or self.gather.host != plan.host:
            self.gather = self._gather(plan)
            self.record = plan.record
        if piece.first:
            self.begin = from_ns(piece.start * MS)
            self.say(f"Importing {plan.host}: {iso(self.begin)}")
        seen = 0
        with _uncollected():
            for start, body in answers:
                for series in series_of(body, self.findings):
                    seen += self.gather.add(series, start * MS)
        self.pace.saw(seen, piece.end - piece.start)
        if piece.ends or self.gather.samples > MOST_HELD:
            self._flush(piece)

    def _gather(self, plan: HostPlan) -> Gather:
        return Gather(
            plan.host,
            self.source,
            self.findings,
            self.refusals,
            keep_unknown=self.selection.keep_unknown,
            kinds=self.planner.kinds,
            whose=(self.selection.host_label,),
        )

    def _flush(self, piece: Piece) -> None:
        """Store what was gathered, and then that it was."""
        assert self.gather is not None
        assert self.record is not None
        taken = self.gather.take(last=piece.last)
        for chunk in taken.chunks:
            self.assembler.add(chunk)
            self.assembler.end(chunk.layout)
        until = from_ns(piece.end * MS)
        if until > self.settled:
            # The scrape that comes next may belong before the end of the range.
            until = from_ns(taken.newest + MS) if taken.newest is not None else self.begin
        if taken.held is not None:
            until = min(until, from_ns(taken.held))
        if until > self.begin:
            self.record = replace(self.record, covered=joined(self.record.covered, self.begin, until))
            self.target.put_import(piece.plan.host, self.record)
            self.begin = until

    def _put(self, segment: Segment) -> None:
        self.target.put_segment(segment)
        self.bytes += len(segment.data)
        self.say(f"Importing {segment.host}: {iso(segment.start)}")

    def _result(self, hosts: int) -> dict[str, Any]:
        notes = [*self._warnings(), *self.findings.notes]
        if self.planner.done:
            notes.append(
                f"of {self.planner.done} of {hosts} hosts all of the range was imported before "
                "(--again imports it anew)"
            )
        assembler = self.assembler
        if not assembler.segments:
            if not self.planner.known:
                skipped = self.findings.skipped
                why = f": {skipped[0]['item']}: {skipped[0]['reason']}" if skipped else ""
                raise UsageError(f"nothing of {self.server.url} could be imported{why}")
            notes.append("there is nothing new")
        rows = assembler.rows_by_period
        period_ms = max(rows, key=lambda ms: rows[ms]) if rows else None
        return {
            "hosts": sorted(assembler.hosts),
            "segments": assembler.segments,
            "samples": assembler.samples,
            "skipped": self.findings.skipped,
            "unmapped": self.findings.kept_as,
            "notes": [*notes, *(window_notes(period_ms) if period_ms is not None else [])],
            "period_ms": period_ms,
            "bytes": self.bytes,
            "start": iso(from_ns(assembler.first_ns)) if assembler.segments else None,
            "end": iso(from_ns(assembler.last_ns)) if assembler.segments else None,
        }

    def _warnings(self) -> list[str]:
        """Return what to say of how the server was entered."""
        access, url = self.server.access, self.server.url
        found = []
        if access.insecure:
            found.append(
                f"the certificate of {url} was not checked (--insecure): anybody could have answered"
            )
        if access.secret and not url.startswith("https:") and not is_local(url):
            found.append(f"what enters {url} went over the network in clear, for it is no https address")
        return found


@contextmanager
def _uncollected() -> Iterator[None]:
    """Do without the search for cycles: an answer is a hundred thousand lists, all alive, and without any."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _source(url: str, selection: Selection) -> str:
    """Return what tells an import from others: everything that decides which samples come."""
    said = json.dumps([url, selection.match, selection.host_label, selection.keep_unknown])
    return hashlib.sha256(said.encode()).hexdigest()[:16]
