"""The method on labelled public data sets, each detector beside their fusion."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reveal_core.errors import UsageError
from reveal_core.evaluate.attribution import attribution_scores
from reveal_core.evaluate.datasets import SERIES
from reveal_core.evaluate.detection import EventScores, RankingScores, event_scores, pooled, ranking_scores
from reveal_core.evaluate.labelled import LabelledSeries, Segment
from reveal_core.evaluate.sampled import (
    FUSED,
    SampledProfile,
    SampledScores,
    explain,
    flagged,
    sampled_profile,
    score_sampled,
)

SCALED = ("smd", "asd")
"""Data sets whose publisher gives metrics from 0 to 1; others are divided by the range of their history."""
_ALARM = 0.5
"""Between not flagged and flagged."""


def evaluate(
    dataset: str,
    folder: str,
    *,
    profile: str = "default",
    budget_per_day: float = 1.0,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Score every entity of a data set and judge the scores by its labels, which nothing else sees.

    Parameters
    ----------
    dataset
        A key of `SERIES`.
    folder
        Where its files are.
    profile
        ``default`` or ``paper``.
    budget_per_day
        Alarm budget, false alarms per host and day.
    seed
        Of the Isolation Forest.
    say
        Told what is going on.

    Returns
    -------
    dict
        ``dataset``, ``profile``, ``threshold`` (how it was set), ``entities``, ``host_days``, ``events``,
        ``seconds``;
        ``detectors``: by name, the fusion last, means over the entities that have events (``ap``, ``auc``,
        ``vus_pr``, ``event_recall``) and figures over all events and days (``event_f1``,
        ``event_recall_pooled``, ``false_events_per_day``, ``worst_false_events_per_day`` of one entity,
        ``median_delay_min``, ``normal_flagged``); ``attribution``, None where no metric is labelled. None
        stands for what cannot be told.

    Raises
    ------
    UsageError
        If data set or profile is not known, or a file is missing or damaged.
    """
    if dataset not in SERIES:
        raise UsageError(f"unknown data set {dataset!r}: choose from {', '.join(SERIES)}")
    settings = sampled_profile(profile)
    started = time.perf_counter()
    rankings: dict[str, list[RankingScores]] = {}
    events: dict[str, list[EventScores]] = {}
    named: list[tuple[list[str], Segment, dict[str, str | None]]] = []
    all_series = SERIES[dataset](Path(folder))
    for number, series in enumerate(all_series, 1):
        say(f"{series.entity} ({number} of {len(all_series)})")
        unit = np.ones(len(series.metrics)) if dataset in SCALED else _ranges(series)
        history, test = series.train / unit, series.test / unit
        scores = score_sampled(history, test, series.period_s, settings, seed=seed)
        for name in scores.test:
            rankings.setdefault(name, []).append(ranking_scores(scores.test[name], series.labels))
            found = _event_scores(series, scores, name, budget_per_day, settings)
            events.setdefault(name, []).append(found)
        subsystems = dict(zip(series.metrics, series.subsystems, strict=True))
        for segment in series.segments:
            ranking = [series.metrics[metric] for metric in explain(scores, segment.start, segment.end)]
            named.append((ranking, segment, subsystems))
    everything = pooled(events[FUSED])
    return {
        "dataset": dataset,
        "profile": profile,
        "threshold": _threshold(settings, budget_per_day),
        "entities": len(all_series),
        "host_days": round(everything.days, 2),
        "events": everything.events,
        "seconds": round(time.perf_counter() - started, 1),
        "detectors": {name: _figures(rankings[name], events[name]) for name in rankings},
        "attribution": _attribution(named),
    }


def _ranges(series: LabelledSeries) -> NDArray[np.float64]:
    """Return the range of each metric in its history; 1 where it stands still."""
    ranges = np.nanmax(series.train, axis=0) - np.nanmin(series.train, axis=0)
    return np.where(ranges > 0, ranges, 1.0)


def _threshold(profile: SampledProfile, budget_per_day: float) -> str:
    if profile.percentile is None:
        return f"budget of {budget_per_day:g} false alarms a day"
    return f"{profile.percentile:g}th percentile, {profile.agreement} detectors agree"


def _event_scores(
    series: LabelledSeries, scores: SampledScores, name: str, budget: float, profile: SampledProfile
) -> EventScores:
    flags = flagged(scores, name, series.period_s, budget, profile)
    return event_scores(flags.astype(np.float64), _ALARM, series.labels, series.period_s)


def _figures(rankings: Sequence[RankingScores], events: Sequence[EventScores]) -> dict[str, float | None]:
    together = pooled(events)
    mean = {
        name: float(np.nanmean([getattr(ranking, field) for ranking in rankings]))
        for name, field in (("ap", "average_precision"), ("auc", "auc"), ("vus_pr", "vus_pr"))
    }
    found = {
        **mean,
        "event_f1": together.f1,
        "event_recall": float(np.nanmean([part.recall for part in events])),
        "event_recall_pooled": together.recall,
        "false_events_per_day": together.false_per_day,
        "worst_false_events_per_day": max(part.false_per_day for part in events),
        "median_delay_min": together.median_delay_min,
        "normal_flagged": together.normal_flagged_share,
    }
    return {name: _told(value) for name, value in found.items()}


def _attribution(
    named: Sequence[tuple[list[str], Segment, dict[str, str | None]]],
) -> dict[str, float | None] | None:
    if not any(segment.metrics for _, segment, _ in named):
        return None
    # Metrics have the same subsystem in every entity of a data set.
    subsystems = {metric: subsystem for _, _, table in named for metric, subsystem in table.items()}
    judged = attribution_scores([r for r, _, _ in named], [s for _, s, _ in named], subsystems)
    found = asdict(judged)
    found["subsystem_top1"] = found.pop("subsystem")
    found["subsystem_top1_no_storage"] = found.pop("subsystem_no_storage")
    return {name: _told(value) for name, value in found.items()}


def _told(value: float) -> float | None:
    """Return a figure as JSON has it; None where it cannot be told."""
    return None if np.isnan(value) else round(float(value), 4)
