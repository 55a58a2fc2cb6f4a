"""Volume under the precision-recall surface (VUS-PR), which forgives labels that are a bit off.

Paparrizos, Boniol, Palpanas, Tsay, Elmore, Franklin, "Volume under the surface: a new accuracy evaluation
measure for time-series anomaly detection", PVLDB 15(11), 2022. Results agree with the authors' own program
(``vus`` 0.0.6) to rounding; tests hold values from it. It is written anew because the packages that have it
need a deep-learning framework, a JIT compiler, or versions of libraries that we are past.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reveal_core.evaluate.labelled import Array, Mask, Span, runs

WINDOW = 20
"""Widest buffer around an event, rows, half of it on each side."""
THRESHOLDS = 250
"""Thresholds per curve, at evenly spaced ranks; the authors' number."""


def vus_pr(scores: Array, labels: Mask, window: int = WINDOW, thresholds: int = THRESHOLDS) -> float:
    """Return the mean area under the range-based precision-recall curve over buffers of 0 to `window` rows.

    For a buffer of l rows, rows up to l // 2 away from an event count as partly anomalous, with weight
    sqrt(1 - d / l) at distance d. With P the rows labelled, TP the weights flagged, and B those of them in
    buffers: precision = TP / rows flagged, recall = min(TP / (P + B / 2), 1) times the share of events, with
    their buffers, in which anything is flagged. So a buffer that is not flagged costs nothing. The area
    is summed in steps, as average precision is; the volume is the mean over l = 0, 1, ..., `window`.

    Parameters
    ----------
    scores
        Higher is stranger, finite, shape (k,).
    labels
        True where a row is anomalous, shape (k,); some, but not all, have to be.
    window
        Widest buffer, rows.
    thresholds
        How many thresholds to try, at evenly spaced ranks of the scores, the highest and lowest among them.

    Returns
    -------
    float
        From 0 to 1. It is 1 where scores are the labels; a finer ranking stays a little below, for few
        thresholds are tried.
    """
    if window < 0 or thresholds < 2:
        raise ValueError(f"window {window} is below 0, or thresholds {thresholds} below 2")
    events = runs(labels)
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    levels = ranked[np.linspace(0, len(scores) - 1, thresholds).astype(int)]
    flagged = np.searchsorted(-ranked, -levels, side="right")
    labelled_hit = np.cumsum(labels[order])[flagged - 1]
    areas = []
    for buffer in range(window + 1):
        weights = buffered_labels(labels, events, buffer)
        peaks = [scores[start:end].max() for start, end in _joined(events, buffer, len(scores))]
        caught = (np.asarray(peaks)[None, :] >= levels[:, None]).mean(axis=1)
        hit = np.cumsum(weights[order])[flagged - 1]
        recall = np.minimum(hit / (labels.sum() + (hit - labelled_hit) / 2), 1) * caught
        areas.append(np.dot(np.diff(recall, prepend=0), hit / flagged))
    return float(np.mean(areas))


def buffered_labels(labels: Mask, events: Sequence[Span], buffer: int) -> Array:
    """Return labels as weights that fall off beside events, shape (k,); where buffers meet, at most 1."""
    weights = labels.astype(np.float64)
    distance = np.arange(1, buffer // 2 + 1)
    slope = np.sqrt(1 - distance / buffer) if buffer else distance
    for start, end in events:
        before, after = min(start, len(distance)), min(len(labels) - end, len(distance))
        weights[start - distance[:before]] += slope[:before]
        weights[end - 1 + distance[:after]] += slope[:after]
    return np.minimum(weights, 1)


def _joined(events: Sequence[Span], buffer: int, rows: int) -> list[Span]:
    """Return events with their buffers, those that share a row joined into one."""
    wide: list[Span] = []
    for start, end in events:
        first, last = max(start - buffer // 2, 0), min(end + buffer // 2, rows)
        if wide and first < wide[-1][1]:
            wide[-1] = (wide[-1][0], last)
        else:
            wide.append((first, last))
    return wide
