"""From columns of others to the catalogue: the metric that is stored, and what becomes of unknown names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from reveal_core.catalog import Metric, load_catalog
from reveal_core.features.derived import DERIVED
from reveal_core.features.rates import CHANGE_SUFFIX

PREFIX = "imported"
"""Metrics that the catalogue does not know are called ``imported.<source>.<name>``."""
DERIVED_UNITS = {derived.name: (derived.subsystem, derived.unit) for derived in DERIVED}
"""Metrics that Reveal derives from others, which sources may give ready made: subsystem and unit."""

_WORDS = (
    ("gpu", r"gpu|cuda|nvidia|nvlink|dcgm|\bsm\b|xid"),
    ("network", r"net|eth|tcp|udp|packet|pkt|\bib\d|infiniband|retrans|socket|\b[rt]x"),
    ("storage", r"disk|storage|block|sector|\bio\b|nvme|\bsd[a-z]\b|write|filesystem|\bread"),
    ("memory", r"mem|swap|page|cache|numa|dram|\bram|huge|slab"),
)


def guess_subsystem(text: str) -> str:
    """Return the subsystem that a name speaks of; ``cpu`` where it speaks of none.

    >>> guess_subsystem("eth0 rx_bytes"), guess_subsystem("load")
    ('network', 'cpu')
    """
    plain = re.sub(r"[_.\-]", " ", text).lower()
    return next((name for name, words in _WORDS if re.search(words, plain)), "cpu")


def plain_name(name: str) -> str:
    """Return a name in letters that a metric may have: no blank, and nothing that parts names.

    >>> plain_name(" I/Os: all ")
    'I_Os_all'
    """
    plain = re.sub(r"[^A-Za-z0-9_.%()+-]+", "_", name)
    return re.sub(r"([_.])\1+", r"\1", plain).strip("_.") or "unnamed"


def other_metric(
    source: str, name: str, *, unit: str = "", subsystem: str = "", kind: str = "gauge"
) -> Metric:
    """Return the metric of a column that the catalogue does not know; ``unit`` is of the stored value."""
    return Metric(
        name=f"{PREFIX}.{source}.{plain_name(name)}",
        subsystem=subsystem or guess_subsystem(f"{source} {name}"),
        kind=kind,
        unit=unit,
        description=name,
    )


def physical_gauge(name: str) -> Metric:
    """Return a metric as a gauge of its physical value: a level, or the rate of what is a counter elsewhere.

    A segment says of such a channel that it is a gauge, so nothing makes a rate of the rate; by
    name and unit it is the same feature as that of a host whose counters were collected.

    Raises
    ------
    KeyError
        If neither the catalogue nor `DERIVED_UNITS` knows the metric.
    """
    base, changed = (
        (name.removesuffix(CHANGE_SUFFIX), True) if name.endswith(CHANGE_SUFFIX) else (name, False)
    )
    if base in DERIVED_UNITS:
        subsystem, unit = DERIVED_UNITS[base]
        return Metric(name, subsystem, "gauge", unit, name)
    known = load_catalog()[base]
    if changed:
        return Metric(name, known.subsystem, "gauge", f"{known.unit}/s", f"Change: {known.description}")
    if known.kind != "counter":
        return known
    return replace(known, kind="gauge", unit=known.physical_unit, minimum=None, maximum=None, rate_unit="")


def known_metric(name: str) -> bool:
    """Return whether `physical_gauge` knows a metric."""
    base = name.removesuffix(CHANGE_SUFFIX)
    return base in DERIVED_UNITS or base in load_catalog()


@dataclass(frozen=True, slots=True)
class Target:
    """What becomes of a source's column.

    Attributes
    ----------
    metric
        Name in the catalogue.
    form
        ``level``: the physical value, kept as a gauge. ``count``: counted since the row before;
        ``interval``: counted over the source's own interval; both become rates. ``counter``: a raw
        cumulative count.
    scale
        What a value is multiplied with to get the catalogue's stored unit.
    """

    metric: str
    form: str = "level"
    scale: float = 1.0

    def stored(self) -> tuple[Metric, float]:
        """Return the metric as it is stored, and what a value, or a count per second, is multiplied with."""
        if self.form == "counter":
            return load_catalog()[self.metric], self.scale
        known = load_catalog().get(self.metric)
        counted = self.form != "level" and known is not None and known.kind == "counter"
        return physical_gauge(self.metric), self.scale * (known.rate_scale if known and counted else 1.0)
