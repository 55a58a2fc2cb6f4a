"""Figures of labelled data sets as documents have them: the same keys for each, None where there is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reveal_core.evaluate.detection import EventScores, RankingScores, pooled

NO_ATTRIBUTION: dict[str, float | None] = {
    "segments": 0,
    **dict.fromkeys(("top1", "top3", "hit100", "hit150", "subsystem_top1")),
}
"""Of a data set that labels no metric."""


def detector_figures(
    rankings: Sequence[RankingScores], events: Sequence[EventScores]
) -> dict[str, float | None]:
    """Return what one detector is worth: means over entities that have events, then all events together."""
    together = pooled(events)
    mean = {
        name: mean_known([getattr(ranking, field) for ranking in rankings])
        for name, field in (("ap", "average_precision"), ("auc", "auc"), ("vus_pr", "vus_pr"))
    }
    found = {
        **mean,
        "event_f1": together.f1,
        "event_recall": mean_known([part.recall for part in events]),
        "event_recall_pooled": together.recall,
        "false_events_per_day": together.false_per_day,
        "worst_false_events_per_day": max(part.false_per_day for part in events),
        "median_delay_min": together.median_delay_min,
        "normal_flagged": together.normal_flagged_share,
    }
    return {name: told(value) for name, value in found.items()}


def mean_known(values: Sequence[float]) -> float:
    """Return the mean of what is not NaN; NaN where all is."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else np.nan


def told(value: float) -> float | None:
    """Return a figure as JSON has it; None where it cannot be told."""
    return None if np.isnan(value) else round(float(value), 4)
