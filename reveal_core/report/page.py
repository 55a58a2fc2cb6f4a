"""What a page shows of a report, and how much of it: all that its templates need, with nothing drawn yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reveal_core.formatting import counted
from reveal_core.report.attention import Matter, matters, told_at_length
from reveal_core.report.coverage import Coverage, coverage_of
from reveal_core.report.heatmap import HeatMap, heat_map
from reveal_core.report.types import HostReport, IncidentReport, Report

FEW_HOSTS = 4
"""Up to so many hosts a page shows each one's timeline and sources; of more, a heat map and sums."""
ROWS_SHOWN = 100
"""Rows of the list of incidents that are open from the beginning."""
MAX_ROWS = 500
"""Rows of the list of incidents in all; the report's JSON has every incident."""
MAX_MEMBERS = 200
"""Members of one incident of the fleet that its row lists."""
MAX_TIMELINES = 6
"""Timelines on the page of a fleet."""


@dataclass(frozen=True)
class Page:
    """The page of a report.

    Attributes
    ----------
    first, rest, left_out
        Rows of the list of incidents: those shown, those that open on demand, and how many there are more.
    at_length
        Incidents with a section of their own.
    anchors
        Names within the page that lead to an incident's section or row.
    sections
        Those of them that are sections.
    fleet_anchors
        Names of rows of the fleet's incidents, by their ids.
    heat
        The heat map; None for one host.
    coverage
        The fleet's coverage; None for few hosts, which are shown one by one.
    timelines
        Hosts whose timeline is shown.
    """

    first: tuple[Matter, ...]
    rest: tuple[Matter, ...]
    left_out: int
    at_length: tuple[IncidentReport, ...]
    anchors: frozenset[str]
    sections: frozenset[str]
    fleet_anchors: Mapping[str, str]
    heat: HeatMap | None
    coverage: Coverage | None
    timelines: tuple[HostReport, ...]

    @property
    def has_plots(self) -> bool:
        """Whether there is anything that a script draws."""
        return bool(self.timelines) or any(shown.plots for shown in self.at_length)


def page_of(report: Report) -> Page:
    """Return what the page of a report shows."""
    found = matters(report)
    rows = found[:MAX_ROWS]
    at_length = tuple(told_at_length(found))
    listed = {shown.anchor for matter in rows for shown in matter.members[:MAX_MEMBERS]}
    sections = frozenset(shown.anchor for shown in at_length)
    anchors = frozenset(listed | sections)
    many = len(report.hosts) > FEW_HOSTS
    return Page(
        first=rows[:ROWS_SHOWN],
        rest=rows[ROWS_SHOWN:],
        left_out=len(found) - len(rows),
        at_length=at_length,
        anchors=anchors,
        sections=sections,
        fleet_anchors={fleet.id: f"fleet-{n}" for n, fleet in enumerate(report.fleet, 1)},
        heat=heat_map(report, anchors) if len(report.hosts) > 1 else None,
        coverage=coverage_of(report) if many else None,
        timelines=_timelines(report, at_length) if many else report.hosts,
    )


def host_phrase(facts: Mapping[str, Any]) -> str:
    """Return what a host is, from its facts: processor, CPUs, GPUs, kernel; ``""`` where none is known.

    >>> host_phrase({"cpu": {"model": "EPYC 7443P", "logical": 48}, "gpus": [], "kernel": "6.18.0"})
    'EPYC 7443P, 48 CPUs, kernel 6.18.0'
    """
    cpu = facts.get("cpu")
    cpu = cpu if isinstance(cpu, Mapping) else {}
    logical, gpus = cpu.get("logical"), facts.get("gpus")
    parts = [
        str(cpu["model"]) if cpu.get("model") else "",
        counted(logical, "CPU") if isinstance(logical, int) else "",
        counted(len(gpus), "GPU") if isinstance(gpus, list) and gpus else "",
        f"kernel {facts['kernel']}" if facts.get("kernel") else "",
    ]
    return ", ".join(filter(None, parts))


def _timelines(report: Report, at_length: Sequence[IncidentReport]) -> tuple[HostReport, ...]:
    hosts = {host.host: host for host in report.hosts}
    names = dict.fromkeys(shown.incident.host for shown in at_length)
    return tuple(hosts[name] for name in names if name in hosts)[:MAX_TIMELINES]
