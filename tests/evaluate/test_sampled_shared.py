"""The method on some servers of a labelled set: a guard against a change that makes it worse."""

from pathlib import Path

import numpy as np
import pytest

from reveal_core.evaluate.datasets import asd
from reveal_core.evaluate.detection import event_scores, pooled, ranking_scores
from reveal_core.evaluate.sampled import FUSED, PAPER, explain, flagged, score_sampled

SHARED = Path(__file__).parents[3] / "shared/data"
SERVERS = ("omi-7", "omi-11")

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there"),
]


def test_the_fusion_beats_the_publication_within_the_budget() -> None:
    ours, theirs, events, right = [], [], [], []
    for series in asd.read(SHARED / "asd"):
        if series.entity not in SERVERS:
            continue
        scores = score_sampled(series.train, series.test, series.period_s)
        paper = score_sampled(series.train, series.test, series.period_s, PAPER)
        ours.append(ranking_scores(scores.test[FUSED], series.labels).average_precision)
        theirs.append(ranking_scores(paper.test[FUSED], series.labels).average_precision)
        flags = flagged(scores, FUSED, series.period_s, 1.0)
        events.append(event_scores(flags.astype(float), 0.5, series.labels, series.period_s))
        right += [
            series.metrics[explain(scores, segment.start, segment.end)[0]] in segment.metrics
            for segment in series.segments
        ]
    assert np.mean(ours) > 0.48
    assert np.mean(ours) > np.mean(theirs) + 0.15
    assert pooled(events).false_per_day <= 1.1
    assert pooled(events).recall > 0.7
    assert np.mean(right) > 0.85
