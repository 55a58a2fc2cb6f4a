"""Figures of a fitted model for MLflow's pages, as images so that they show without a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2937"
BAR = "#3b6ea5"
LINE = "#b45309"
SHOWN_METRICS = 20


def score_histogram(scores: np.ndarray, threshold: float | None) -> Figure:
    """Return the distribution of held-out scores, on a logarithmic count, with the threshold in it.

    Parameters
    ----------
    scores
        Fused scores of held-out healthy windows, shape ``(n_windows,)``; what is not finite is left out.
    threshold
        Score from which a window is anomalous; None leaves the line out.
    """
    figure, axes = _figure(width=7.0, height=4.0)
    finite = scores[np.isfinite(scores)]
    if finite.size:
        axes.hist(finite, bins=min(60, max(10, finite.size // 5)), color=BAR, log=True)
    if threshold is not None and np.isfinite(threshold):
        axes.axvline(threshold, color=LINE, linewidth=1.5, label=f"threshold {threshold:.3g}")
        axes.legend(frameon=False)
    axes.set_xlabel("fused score (higher is stranger)")
    axes.set_ylabel("held-out windows")
    axes.set_title(f"Scores of {finite.size} held-out windows", loc="left", color=INK)
    return figure


def contribution_figure(contributions: Mapping[str, float]) -> Figure:
    """Return the metrics that contribute most to the scores of healthy windows, largest on top.

    A metric that rules the scores while all is well will rule the alarms too.
    """
    top = sorted(contributions.items(), key=lambda item: (-item[1], item[0]))[:SHOWN_METRICS]
    figure, axes = _figure(width=7.0, height=1.2 + 0.24 * max(len(top), 4))
    axes.barh([name for name, _ in reversed(top)], [value for _, value in reversed(top)], color=BAR)
    axes.set_xlabel("mean contribution on held-out windows")
    axes.set_title(f"The {len(top)} metrics that contribute most", loc="left", color=INK)
    return figure


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, colors=INK)
    return figure, axes
