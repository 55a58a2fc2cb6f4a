"""The method on labelled public data sets: series of hosts, each detector beside their fusion, and others."""

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
from reveal_core.evaluate.datasets import READERS, SERIES
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
from tasks.evaluating_jobs import evaluate_peers, evaluate_pods
from tasks.labelled_figures import NO_ATTRIBUTION, detector_figures, told

Say = Callable[[str], None]
BUDGET_PER_DAY = 1.0
SCALED = ("smd", "asd")
"""Data sets whose publisher gives metrics from 0 to 1; others are divided by the range of their history."""
_ALARM = 0.5
"""Between not flagged and flagged."""


def evaluate(
    dataset: str,
    folder: str,
    *,
    profile: str = "default",
    budget_per_day: float | None = None,
    seed: int = 0,
    say: Say = lambda _: None,
) -> dict[str, Any]:
    """Judge the method by the labels of a data set, which nothing else sees.

    Parameters
    ----------
    dataset
        A key of `READERS`.
    folder
        Where its files are.
    profile
        ``default`` or ``paper``; the latter for series of hosts alone.
    budget_per_day
        Alarm budget, false alarms per host and day; `BUDGET_PER_DAY` if not given. For series of hosts alone.
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
        ``median_delay_min``, ``normal_flagged``); ``attribution``, of the labelled segments. None stands for
        what cannot be told. `evaluate_peers` and `evaluate_pods` add figures of their own.

    Raises
    ------
    UsageError
        If data set or profile is not known, one does not go with the other, or a file is missing or damaged.
    """
    if dataset not in READERS:
        raise UsageError(f"unknown data set {dataset!r}: choose from {', '.join(READERS)}")
    settings = sampled_profile(profile)
    if dataset in SERIES:
        budget = BUDGET_PER_DAY if budget_per_day is None else budget_per_day
        return _evaluate_series(dataset, Path(folder), settings, budget, seed, say)
    if profile != "default":
        raise UsageError(f"data set {dataset} has no profile {profile!r}: the publication has no rule for it")
    if budget_per_day is not None:
        raise UsageError(f"data set {dataset} has no alarm budget: its thresholds are fixed")
    return (evaluate_peers if dataset == "emmy" else evaluate_pods)(Path(folder), say)


def _evaluate_series(
    dataset: str, folder: Path, settings: SampledProfile, budget_per_day: float, seed: int, say: Say
) -> dict[str, Any]:
    """Score every host of a data set."""
    started = time.perf_counter()
    rankings: dict[str, list[RankingScores]] = {}
    events: dict[str, list[EventScores]] = {}
    named: list[tuple[list[str], Segment, dict[str, str | None]]] = []
    all_series = SERIES[dataset](folder)
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
        "profile": settings.name,
        "threshold": _threshold(settings, budget_per_day),
        "entities": len(all_series),
        "host_days": round(everything.days, 2),
        "events": everything.events,
        "seconds": round(time.perf_counter() - started, 1),
        "detectors": {name: detector_figures(rankings[name], events[name]) for name in rankings},
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


def _attribution(
    named: Sequence[tuple[list[str], Segment, dict[str, str | None]]],
) -> dict[str, float | None]:
    if not any(segment.metrics for _, segment, _ in named):
        return dict(NO_ATTRIBUTION)
    # Metrics have the same subsystem in every entity of a data set.
    subsystems = {metric: subsystem for _, _, table in named for metric, subsystem in table.items()}
    judged = attribution_scores([r for r, _, _ in named], [s for _, s, _ in named], subsystems)
    found = asdict(judged)
    found["subsystem_top1"] = found.pop("subsystem")
    found["subsystem_top1_no_storage"] = found.pop("subsystem_no_storage")
    return {name: told(value) for name, value in found.items()}
