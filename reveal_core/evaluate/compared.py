"""One setting of the method on recorded telemetry: every figure that settings are compared by."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from typing import Any

from reveal_core.detect.threshold import DAY_S
from reveal_core.evaluate.agreement import (
    Extent,
    Flags,
    flagged_seconds,
    hit_rate,
    incident_hit_rate,
    overlap,
    stability,
    within_budget,
)
from reveal_core.evaluate.injected import Found, Judged, judge_incidents
from reveal_core.evaluate.injected_result import InjectedResult, pooled
from reveal_core.evaluate.matching import EARLY_S, LATE_S, InjectedFault, false_incidents, match_faults
from reveal_core.incidents import Incident
from reveal_core.method import analyse_windows
from reveal_core.model import RevealModel
from reveal_core.profiles import Profile
from reveal_core.windows import Windows


@dataclass(frozen=True)
class HostPart:
    """The part of a host's telemetry that is judged.

    ``judged`` gives it as recorded, then its copies with perturbations; it is gone through once, so that one
    copy at a time need be in memory.
    """

    host: str
    judged: Iterable[Judged]


@dataclass(frozen=True)
class SettingResult:
    """What one setting gave.

    Attributes
    ----------
    metrics
        Figures by stable names; what cannot be told is not there.
    flags
        What it flags, by host and copy.
    incidents
        Extents of its incidents, in the same copies.
    within_budget
        Whether its false incidents are compatible with its alarm budget.
    facts
        What the model tells of itself.
    """

    metrics: dict[str, float]
    flags: dict[str, frozenset[int]]
    incidents: tuple[Extent, ...]
    within_budget: bool
    facts: dict[str, Any]


def judge_setting(
    profile: Profile,
    learned: Sequence[Windows],
    parts: Sequence[HostPart],
    *,
    seeds: Sequence[int] = (0,),
    faults: Sequence[InjectedFault] = (),
    clock: Callable[[], float] = time.perf_counter,
) -> SettingResult:
    """Fit a setting on healthy windows and judge it on others.

    Parameters
    ----------
    profile
        The setting.
    learned
        Healthy windows of each host, made with it.
    parts
        What is judged, with windows made with it.
    seeds
        The first is of the model that is judged; with the others it is fitted again, to see how far the same
        windows are flagged.
    faults
        Real faults that the judged telemetry holds, if any.
    clock
        Of ``fit_seconds`` and ``score_seconds``.

    Raises
    ------
    UsageError
        If there is too little to learn from, or a host lacks the model's features.
    """
    begun = clock()
    model = RevealModel(profile.to_dict(), seeds[0]).fit(learned)
    fit_seconds = clock() - begun
    repeated = [RevealModel(profile.to_dict(), seed).fit(learned) for seed in seeds[1:]]
    score_seconds = 0.0
    own: list[Incident] = []
    runs: list[dict[str, frozenset[int]]] = [{} for _ in seeds]
    extents: list[Extent] = []
    injected: list[InjectedResult] = []
    for part in parts:
        found: list[Found] = []
        recorded: Windows | None = None
        for number, judged in enumerate(part.judged):
            begun = clock()
            analysis = analyse_windows(model, judged.series, judged.windows)
            score_seconds += clock() - begun if number == 0 else 0.0
            name = f"{part.host}/{number}"
            runs[0][name] = flagged_seconds(analysis.scores)
            for flags, other in zip(runs[1:], repeated, strict=True):
                flags[name] = flagged_seconds(other.score_windows(judged.windows))
            extents += [_extent(name, incident) for incident in analysis.incidents]
            found.append(Found(judged.perturbations, analysis.incidents))
            recorded = recorded or judged.windows
        if recorded is None:
            raise ValueError(f"{part.host}: nothing to judge")
        own += found[0].incidents
        injected.append(judge_incidents(recorded, found[0].incidents, found[1:], stride_s=profile.stride_s))
    false, days = _false(own, injected, faults)
    metrics = {
        "fit_seconds": round(fit_seconds, 3),
        "score_seconds": round(score_seconds, 3),
        "features": float(model.facts()["features"]),
        "windows_learned": float(model.facts()["windows"]),
        "threshold": float(model.facts()["threshold"]),
        "provisional": float(model.facts()["provisional"]),
        "alarms": float(false),
        "alarms_per_day": round(false / days, 4) if days else None,
        "alarm_budget_per_day": profile.alarm_budget,
        "within_budget": float(within_budget(false, days, profile.alarm_budget)),
        "healthy_hours": round(24 * days, 4),
        "stability_iou": stability(runs),
        **_injected_metrics(pooled(injected)),
        **_fault_metrics(faults, own),
    }
    return SettingResult(
        metrics={name: float(value) for name, value in metrics.items() if value is not None},
        flags=runs[0],
        incidents=tuple(extents),
        within_budget=bool(metrics["within_budget"]),
        facts=model.facts(),
    )


def agreement_metrics(reference: Flags, incidents: Sequence[Extent], other: Flags) -> dict[str, float]:
    """Return how far a setting flags what a reference flags, in the same telemetry and its copies.

    Parameters
    ----------
    reference, incidents
        What the reference flags, and the extents of its incidents.
    other
        What the setting flags.
    """
    found = {
        "agreement_iou": overlap(reference, other),
        "agreement_hit_rate": hit_rate(reference, other),
        "agreement_incident_hit_rate": incident_hit_rate(incidents, other),
    }
    return {name: round(value, 4) for name, value in found.items() if value is not None}


def _extent(name: str, incident: Incident) -> Extent:
    return Extent(name, int(incident.start.timestamp()), int(incident.end.timestamp()) + 1)


def _false(
    own: Sequence[Incident], injected: Sequence[InjectedResult], faults: Sequence[InjectedFault]
) -> tuple[int, float]:
    """Return the false incidents of the telemetry itself, and the healthy days that they are of."""
    seconds = sum(result.healthy_hours for result in injected) * 3600.0
    late = timedelta(seconds=LATE_S)
    for fault in faults:
        seconds -= (max(fault.end, fault.start + late) - fault.start).total_seconds() + EARLY_S
    return len(false_incidents(faults, own)), max(0.0, seconds) / DAY_S


def _injected_metrics(result: InjectedResult) -> dict[str, float | None]:
    summary = result.summary
    if not summary["injected"]:
        return {}
    names = ("recall", "median_delay_s", "metric_top1", "metric_top3", "subsystem_top1")
    return {
        "injected": summary["injected"],
        **{f"injected_{name}": summary[name] for name in names},
        **{f"injected_recall_{kind}": recall for kind, recall in summary["recall_by_kind"].items()},
        **{f"injected_recall_size_{size}": recall for size, recall in summary["recall_by_size"].items()},
        "injected_after_effects": float(result.after_effects),
    }


def _fault_metrics(faults: Sequence[InjectedFault], own: Sequence[Incident]) -> Mapping[str, float | None]:
    if not faults:
        return {}
    matches = match_faults(faults, own)
    found = [match for match in matches if match.found]
    delays = [match.delay_s for match in found if match.delay_s is not None]
    ranks = [match.cause_rank for match in found]
    return {
        "faults": float(len(matches)),
        "fault_recall": len(found) / len(matches),
        "fault_median_delay_s": median(delays) if delays else None,
        "fault_subsystem_top1": _share([match.subsystem_rank == 1 for match in found]),
        "fault_cause_top1": _share([rank == 1 for rank in ranks]),
        "fault_cause_top3": _share([rank is not None and rank <= 3 for rank in ranks]),
    }


def _share(right: Sequence[bool]) -> float | None:
    return sum(right) / len(right) if right else None
