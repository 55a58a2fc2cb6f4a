"""The exporting stage for Prometheus: what is told of a fleet, on request, into a file, or served."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIServer

from prometheus_client import write_to_textfile
from prometheus_client.core import Metric

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.exporting.fleet import SPAN, Comings, FleetState, Levels, host_state, judged_until, levels_of
from reveal_core.exporting.prometheus import Families, fleet_families, render, samples_of, store_families
from reveal_core.ledger import Ledger
from tasks.metrics_server import serve_metrics

if TYPE_CHECKING:
    from storage.store import Store

logger = logging.getLogger(__name__)

SCORES_KEPT = timedelta(hours=1)
"""Scores of windows that were judged up to an earlier time are none of now, and are not told."""
HOSTS_AT_ONCE = 64
"""Hosts whose scores are held at a time."""
SUFFIX = ".prom"
"""What the textfile collector of node_exporter reads."""


class FleetWatch:
    """Reads from a store what is told of a fleet, as often as one likes.

    What costs most, scores, is read only of hosts that were judged since the look before.

    Parameters
    ----------
    source
        The store.
    budget
        Incidents per host and day that the settings allow.
    forget_s
        Of a host that was judged last so long ago nothing is told, s.
    """

    def __init__(self, source: Store, *, budget: float, forget_s: float) -> None:
        self.source = source
        self.budget = budget
        self.forget = timedelta(seconds=forget_s)
        self._comings = Comings()
        self._counted = False
        self._levels: dict[str, tuple[datetime, Levels | None]] = {}

    def look(self, now: datetime | None = None) -> FleetState:
        """Return what is to be told now, or at another time.

        Raises
        ------
        UnavailableError
            If the store cannot be reached.
        """
        begun = time.perf_counter()
        at = now or datetime.now(UTC)
        self.source.check()
        marks = {host: mark.until for host, mark in self.source.watermarks().items()}
        ledgers = {ledger.host: ledger for ledger in self.source.ledgers(self.source.ledger_hosts())}
        ledgers = {host: Ledger(host) for host in marks} | ledgers
        self._count(ledgers)
        judged = {host: judged_until(ledger, marks.get(host)) for host, ledger in ledgers.items()}
        known = {host: until for host, until in judged.items() if until and at - until <= self.forget}
        levels = self._levels_of(known, at)
        held = {regime.host for regime in self.source.regimes() if regime.held}
        hosts = tuple(
            host_state(ledgers[host], at, mark=marks.get(host), levels=levels.get(host), held=host in held)
            for host in sorted(known)
        )
        return FleetState(
            at=at,
            hosts=hosts,
            forgotten=len(ledgers) - len(known),
            comings=dict(self._comings.totals),
            budget=self.budget,
            report=self._report(),
            took_s=time.perf_counter() - begun,
        )

    def _count(self, ledgers: Mapping[str, Ledger]) -> None:
        """Count comings: at the first look of all that the store knows, then of what has come since."""
        if self._counted:
            for host, ledger in ledgers.items():
                self._comings.add(host, ledger.entries)
            return
        every: dict[str, list[Any]] = {host: [] for host in ledgers}
        for entry in self.source.read_entries(sorted(ledgers)):
            every.setdefault(entry.host, []).append(entry)
        for host, entries in every.items():
            self._comings.add(host, entries)
        self._counted = True

    def _levels_of(self, judged: Mapping[str, datetime], now: datetime) -> dict[str, Levels]:
        fresh = {host: until for host, until in judged.items() if now - until <= SCORES_KEPT}
        self._levels = {host: known for host, known in self._levels.items() if fresh.get(host) == known[0]}
        # By time, so that hosts of a group need the same few files.
        changed = sorted(fresh.keys() - self._levels.keys(), key=lambda host: (fresh[host], host))
        for first in range(0, len(changed), HOSTS_AT_ONCE):
            group = changed[first : first + HOSTS_AT_ONCE]
            frames = self.source.read_judged(group, fresh[group[0]] - SPAN, fresh[group[-1]])
            for host in group:
                frame = frames.get(host)
                self._levels[host] = fresh[host], levels_of(frame, fresh[host]) if frame is not None else None
        return {host: levels for host, (_, levels) in self._levels.items() if levels is not None}

    def _report(self) -> str:
        try:
            return str(self.source.latest_report().get("report") or "")
        except UsageError:  # there is none
            return ""


class FleetExporter:
    """What ``/metrics`` says: one look at the store at most every so often, whatever asks.

    A store that cannot be read is told as such, with nothing beside it: what was true minutes ago would pass
    for the present.

    Parameters
    ----------
    watch
        Reads the store.
    every_s
        Between two looks, s.
    found
        What a look a moment ago gave; without, the first who asks waits for one.
    clock
        Tells the time, s.
    """

    def __init__(
        self,
        watch: FleetWatch,
        *,
        every_s: float,
        found: Sequence[Metric] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.watch = watch
        self.every_s = every_s
        self.clock = clock
        self._lock = threading.Lock()
        self._found = found
        self._due = clock() + (every_s if found else 0.0)

    def collect(self) -> Iterable[Metric]:
        """Return the metrics; called by the Prometheus client, from threads of its own."""
        with self._lock:
            if self.clock() >= self._due:
                self._found = self._look()
                self._due = self.clock() + self.every_s
            return self._found

    def _look(self) -> Sequence[Metric]:
        try:
            return fleet_families(self.watch.look())
        except UnavailableError as error:
            logger.warning("the store could not be read: %s", error)
            return store_families(False)


def export_prometheus(
    store: str, *, budget: float, forget_s: float, textfile: str | None = None
) -> dict[str, Any]:
    """Exporting to Prometheus.

    Parameters
    ----------
    store
        Root of the store.
    budget, forget_s
        As `FleetWatch` takes them.
    textfile
        Where the text goes, for the textfile collector of node_exporter: there whole or not at all.

    Returns
    -------
    dict
        ``hosts`` (their number), ``silent`` (labels), ``open`` (incidents that are on), ``series``; and
        ``textfile`` or, without one, ``samples`` (``name``, ``labels``, ``value``) and ``text``.

    Raises
    ------
    UsageError
        If node_exporter would not read a file of that name.
    UnavailableError
        If the store cannot be read or the file cannot be written.
    """
    if textfile is not None and not textfile.endswith(SUFFIX):
        raise UsageError(f"--textfile {textfile}: node_exporter reads only files that end in {SUFFIX}")
    state = _watch(store, budget, forget_s).look()
    found = fleet_families(state)
    if textfile is None:
        return {**_told(state, found), "samples": samples_of(found), "text": render(found)}
    try:
        write_to_textfile(textfile, Families(found))
    except OSError as error:
        raise UnavailableError(f"{textfile} cannot be written: {error.strerror}") from error
    return {**_told(state, found), "textfile": str(Path(textfile).resolve())}


def serve_prometheus(
    store: str, *, listen: str, every_s: float, budget: float, forget_s: float
) -> tuple[dict[str, Any], WSGIServer]:
    """Serving Prometheus.

    Parameters
    ----------
    store, budget, forget_s
        As `export_prometheus` takes them.
    listen
        ``HOST:PORT``.
    every_s
        Between two looks at the store, s.

    Returns
    -------
    dict
        ``hosts``, ``silent``, ``open`` and ``series`` of the first look, and ``listen``: the address.
    WSGIServer
        Serves until it is shut down.

    Raises
    ------
    UsageError
        If the address is none.
    UnavailableError
        If the store cannot be read, or nothing can be served there.
    """
    watch = _watch(store, budget, forget_s)
    state = watch.look()  # a store that is not there is told at once, not by a metric
    found = fleet_families(state)
    exporter = FleetExporter(watch, every_s=every_s, found=found)
    server = serve_metrics("--listen", listen, exporter, "127.0.0.1:9465")
    host = listen.rpartition(":")[0]
    return {**_told(state, found), "listen": f"{host}:{server.server_port}"}, server


def _watch(store: str, budget: float, forget_s: float) -> FleetWatch:
    from storage.store import Store

    return FleetWatch(Store(store), budget=budget, forget_s=forget_s)


def _told(state: FleetState, found: Sequence[Metric]) -> dict[str, Any]:
    return {
        "hosts": len(state.hosts),
        "silent": [host.host for host in state.hosts if host.silent],
        "open": len(state.open_incidents),
        "series": sum(len(metric.samples) for metric in found),
    }
