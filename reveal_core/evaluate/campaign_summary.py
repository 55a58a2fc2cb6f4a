"""A campaign's figures, each wanted one beside its target, and apart by fault, subsystem and variant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from reveal_core.evaluate.campaign import CampaignRun


def figures(runs: Iterable[CampaignRun]) -> dict[str, Any]:
    """Return counts, and shares of the found ones; None stands for what cannot be told.

    ``subsystem_first`` is strict, ``subsystem_first_lenient`` counts what a host's signals cannot tell;
    ``cause_first`` and ``cause_in_three`` count every right cause, ``cause_first_strict`` the fault's own.
    """
    runs = list(runs)
    found = [run for run in runs if run.detected]
    delays = [run.delay_s for run in found if run.delay_s is not None]
    slowdowns = [run.slowdown for run in runs if run.slowdown is not None]
    return {
        "injected": len(runs),
        "detected": len(found),
        "recall": _share(len(found), len(runs)),
        "median_delay_s": round(median(delays), 3) if delays else None,
        "median_slowdown": round(median(slowdowns), 3) if slowdowns else None,
        "subsystem_first": _share(sum(bool(run.subsystem_right) for run in found), len(found)),
        "subsystem_first_lenient": _share(sum(bool(run.subsystem_lenient) for run in found), len(found)),
        "cause_first": _share(sum(run.cause_rank == 1 for run in found), len(found)),
        "cause_first_strict": _share(sum(bool(run.cause_strict) for run in found), len(found)),
        "cause_in_three": _share(sum((run.cause_rank or 99) <= 3 for run in found), len(found)),
    }


def summarise(runs: Sequence[CampaignRun], pieces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a campaign's figures, each wanted one beside its target, and apart by fault and so on.

    Parameters
    ----------
    runs, pieces
        From `reveal_core.evaluate.campaign.judge_pieces`.
    """
    hours = sum(piece["healthy_hours"] for piece in pieces)
    wrong = sum(len(piece["false_incidents"]) for piece in pieces)
    every, harmful = figures(runs), figures(run for run in runs if run.harmful)
    per_3h = round(3.0 * wrong / hours, 3) if hours else None
    values: dict[str, dict[str, Any]] = {
        "all": every,
        "harmful": harmful,
        "healthy": {"false_per_3h": per_3h},
    }
    return {
        "all": every,
        "harmful": harmful,
        "healthy_hours": round(hours, 4),
        "false_incidents": wrong,
        "false_per_3h": per_3h,
        "targets": [target.judge(values[target.group][target.name]) for target in TARGETS],
        **{f"by_{what}": _apart(runs, key) for what, key in GROUPS.items()},
        "seeds": [piece["seed"] for piece in pieces],
    }


@dataclass(frozen=True)
class Target:
    """A figure that a campaign is to reach: where it stands, its words, and its least or greatest value."""

    group: str
    name: str
    words: str
    bound: float
    at_most: bool = False

    def judge(self, value: float | None) -> dict[str, Any]:
        """Return the figure beside its bound; ``met`` is None where it cannot be told."""
        met = None if value is None else (value <= self.bound if self.at_most else value >= self.bound)
        return {
            "figure": f"{self.group}.{self.name}",
            "words": self.words,
            "least": None if self.at_most else self.bound,
            "most": self.bound if self.at_most else None,
            "value": value,
            "met": met,
        }


TARGETS = (
    Target("all", "injected", "faults injected", 150.0),
    Target("harmful", "recall", "found, of those that slow the workload by 20 % or more", 0.95),
    Target("harmful", "median_delay_s", "median delay of these, s", 3.0, at_most=True),
    Target("all", "recall", "found, of all", 0.85),
    Target("all", "subsystem_first_lenient", "right subsystem first, of those found", 0.90),
    Target("all", "cause_first", "right cause first, of those found", 0.80),
    Target("all", "cause_in_three", "right cause among three, of those found", 0.92),
    Target("healthy", "false_per_3h", "false incidents in 3 h of healthy workload", 1.0, at_most=True),
)

GROUPS: dict[str, Callable[[CampaignRun], str]] = {
    "fault": lambda run: run.fault,
    "subsystem": lambda run: run.subsystem,
    "variant": lambda run: run.variant,
}


def _apart(runs: Sequence[CampaignRun], key: Callable[[CampaignRun], str]) -> dict[str, Any]:
    names = sorted({key(run) for run in runs})
    return {name: figures(run for run in runs if key(run) == name) for name in names}


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
