"""Plots as plain data: what the page's script hands to Plotly, in the colours of the reader's theme."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from reveal_core.evaluate.matching import FaultMatch
from reveal_core.incidents import Incident
from reveal_core.report.plot_types import MetricPlot
from reveal_core.report.plots import MARGIN_S
from reveal_core.report.types import HostReport
from reveal_core.report.words import subsystem_name


def timeline_figure(host: HostReport, faults: Sequence[FaultMatch]) -> dict[str, Any]:
    """Return a host's timeline; times are ms since 1970, those of points counted from the first (``t0``)."""
    times = host.timeline.times_ms
    first = times[0] if times else 0
    return {
        "kind": "timeline",
        "range": [_ms(host.start), _ms(host.end)],
        "t0": first,
        "t": [t - first for t in times],
        "y": list(host.timeline.ratio),
        "incidents": [
            {
                "start": _ms(i.incident.start),
                "end": _ms(i.incident.end),
                "subsystem": i.incident.subsystem,
                "label": str(i.number),
                "name": subsystem_name(i.incident.subsystem),
                "text": f"Incident {i.number}: {subsystem_name(i.incident.subsystem)}",
                "cause": i.incident.causes[0].title if i.incident.causes else "cause unknown",
                "anchor": i.anchor,
            }
            for i in host.incidents
        ],
        "faults": [
            {
                "start": _ms(m.fault.start),
                "end": _ms(m.fault.end),
                "subsystem": m.fault.subsystem,
                "label": m.fault.name,
                "found": m.found,
            }
            for m in faults
        ],
        "gaps": [[_ms(start), _ms(end)] for start, end in host.gaps],
    }


def metric_figure(plot: MetricPlot, incident: Incident) -> dict[str, Any]:
    """Return a metric around an incident; point ``n`` lies at ``t0 + n * step`` ms."""
    margin = int(MARGIN_S * 1e3)
    start, end = _ms(incident.start), _ms(incident.end)
    return {
        "kind": "metric",
        "range": [start - margin, end + margin],
        "t0": plot.times_ms[0],
        "step": plot.step_ms,
        "y": list(plot.values),
        "low": plot.low,
        "high": plot.high,
        "unit": plot.unit,
        "span": [start, end],
        "subsystem": incident.subsystem,
    }


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)
