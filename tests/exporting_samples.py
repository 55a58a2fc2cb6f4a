"""A small fleet in a store, for the tests of what is told of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import polars as pl
from incident_samples import at, incident_at

from reveal_core.arrivals import Watermark
from reveal_core.attribute.silence import note_silence, silent_incident
from reveal_core.attribute.tracking import follow
from reveal_core.incidents import Incident
from reveal_core.ledger import Ledger
from reveal_core.scores import Scores
from storage.store import Store

UNTIL = 600.0
"""Until when hosts were judged, s after noon."""
NOW = at(660)
MODEL = "reveal-2cpu-0gpu-amd@3"
DAY_S = 86400.0


def windows(
    start: datetime, ratios: Sequence[float | None], *, threshold: float = 2.0, coverage: float = 1.0
) -> pl.DataFrame:
    """Return windows, one a second, of these scores over their threshold; None for one without samples."""
    begins = [start + timedelta(seconds=number) for number in range(len(ratios))]
    time = pl.Datetime("ns", "UTC")
    return pl.DataFrame(
        {
            "start": pl.Series(begins, dtype=time),
            "end": pl.Series([begin + timedelta(seconds=3) for begin in begins], dtype=time),
            "coverage": pl.Series([0.0 if ratio is None else coverage for ratio in ratios], dtype=pl.Float64),
            "fused": pl.Series([None if r is None else r * threshold for r in ratios], dtype=pl.Float64),
            "threshold": pl.Series([threshold] * len(ratios), dtype=pl.Float64),
        }
    )


def judged(host: str, *incidents: Incident, since: float = 0.0, until: float = UNTIL) -> Ledger:
    """Return the ledger of a host after a stretch, in s after noon, in which incidents were found."""
    return follow(Ledger(host), incidents, at(since), at(until))


def put_host(store: Store, ledger: Ledger, ratios: Sequence[float | None], *, model: str = MODEL) -> None:
    """Store a ledger, and scores of which the newest lie at the end of what was judged."""
    end = ledger.judged[-1][1]
    frame = windows(end - timedelta(seconds=len(ratios)), ratios)
    store.put_scores(model, Scores(ledger.host, frame, ()))
    store.put_ledger(ledger)


def put_fleet(store: Store) -> None:
    """Store four hosts: one with an open and a closed incident, a quiet, a silent, and a forgotten one.

    They were judged until `UNTIL`, the forgotten one ten days before.
    """
    closed = incident_at(60, 70, "memory-pressure", host="node-1", score=2.0)
    on = incident_at(580, UNTIL, "packet-loss", host="node-1", score=4.5, state="open", action="drain")
    for incident in (closed, on):
        store.put_incident(incident)
    put_host(store, judged("node-1", closed, on), [0.25] * 400 + [4.5, 1.75])
    put_host(store, judged("node-2"), [0.5] * 300)
    silence = silent_incident("node-3", at(100), NOW, patience_s=180.0)
    store.put_incident(silence)
    put_host(store, note_silence(judged("node-3", until=100.0), silence), [0.5, 0.5])
    put_host(store, judged("node-4", since=-10 * DAY_S, until=-10 * DAY_S + UNTIL), [0.5])
    store.put_watermarks({"node-2": Watermark(at(UNTIL)), "node-3": Watermark(at(100))})
