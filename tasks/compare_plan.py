"""Planning a comparison: which hosts, what settings learn from, and what they are judged on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from reveal_core.errors import UsageError
from reveal_core.incidents import iso
from reveal_core.timespec import parse_time
from tasks.history import sample_hosts
from tasks.planning import classify_hosts, parse_range, plan_hosts

LEARNED_SHARE = 0.5
"""Share of the range that settings learn from where no other is given."""
BEFORE_FAULT = timedelta(seconds=5)
"""Healthy telemetry that is learned from ends so much before the first fault."""


def plan_comparison(
    store: str,
    *,
    host: str,
    start: str | None,
    end: str | None,
    fit_start: str | None,
    fit_end: str | None,
    faults: list[dict[str, Any]],
    most_hosts: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Looking for telemetry to compare on.

    Parameters
    ----------
    store, host, start, end
        As `tasks.planning.plan_hosts`.
    fit_start, fit_end
        The healthy range that settings learn from; without an end the first half of the range, or up to the
        first fault in it.
    faults
        Real faults that the telemetry holds, from `tasks.faultfiles`.
    most_hosts
        So many hosts at most of the largest hardware class, drawn with the seed. None: all hosts, which must
        be of one class.
    seed
        Of the hosts that are drawn.

    Returns
    -------
    dict
        ``hardware_class``, and ``hosts``: for each ``host``, ``learned_start``, ``learned_end``,
        ``judged_start`` and ``judged_end``.

    Raises
    ------
    UsageError
        If there is no telemetry, nothing is left to judge, or all hosts are asked for and they are of several
        hardware classes.
    UnavailableError
        If the store cannot be reached.
    """
    if most_hosts is not None and most_hosts < 1:
        raise UsageError(f"{most_hosts} hosts cannot be compared on: at least one is needed")
    fit_from, fit_to = parse_range(fit_start, fit_end)
    plans = classify_hosts(store, plans=plan_hosts(store, host=host, start=start, end=end))
    if most_hosts is not None:
        plans = _some_of_the_largest(plans, most_hosts, seed)
    classes = sorted({plan["hardware_class"] for plan in plans})
    if len(classes) > 1:
        raise UsageError(
            f"settings are compared on hosts of one hardware class, {host!r} matches {', '.join(classes)}: "
            "choose by --host"
        )
    hosts = []
    for plan in plans:
        first, last = parse_time(plan["start"]), parse_time(plan["end"])
        learned_from = fit_from or first
        learned_to = fit_to or learned_from + LEARNED_SHARE * (last - learned_from)
        onsets = [parse_time(fault["start"]) for fault in faults]
        if fit_to is None:
            learned_to = min(
                [learned_to, *(onset - BEFORE_FAULT for onset in onsets if onset > learned_from)]
            )
        judged_from = max(first, learned_to)
        if judged_from >= last or learned_to <= learned_from:
            raise UsageError(
                f"{plan['host']}: settings learn from {iso(learned_from)} to {iso(learned_to)}, "
                f"and nothing is left to judge until {iso(last)}"
            )
        hosts.append(
            {
                "host": plan["host"],
                "learned_start": iso(learned_from),
                "learned_end": iso(learned_to),
                "judged_start": iso(judged_from),
                "judged_end": plan["end"],
            }
        )
    return {"hardware_class": classes[0], "hosts": hosts}


def _some_of_the_largest(plans: list[dict[str, Any]], most: int, seed: int) -> list[dict[str, Any]]:
    """Return hosts of the class that has most of those whose class is known; the first by name of equals."""
    classes = [plan["hardware_class"] for plan in plans if plan["hardware_class"]]
    largest = max(sorted(set(classes)), key=classes.count, default="")
    return sample_hosts([plan for plan in plans if plan["hardware_class"] == largest], seed, most)
