"""Figures of a fitted model for MLflow's pages, as images so that they show without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2937"
BAR = "#3b6ea5"
LINE = "#b45309"
SHOWN_METRICS = 20
BARS = (
    ("injected_recall", "injected recall"),
    ("injected_subsystem_top1", "right subsystem first"),
    ("total_seconds", "seconds"),
)
"""Figures of a comparison that stand beside each other as bars."""


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


def comparison_figure(results: Sequence[Mapping[str, Any]], best: str) -> Figure:
    """Return settings beside each other: recall against false incidents, and recall, attribution and cost.

    Parameters
    ----------
    results
        Settings with ``name`` and ``metrics``, as `tasks.comparing` has them.
    best
        Name of the one to mark.
    """
    from matplotlib.figure import Figure

    names = [result["name"] for result in results]
    colours = [LINE if name == best else BAR for name in names]
    figure = Figure(figsize=(13.0, 2.2 + 0.26 * max(len(names), 6)), dpi=110, layout="constrained")
    grid = figure.subplots(1, 4, width_ratios=[2.2, 1.0, 1.0, 1.0])
    scatter, *bars = grid
    recall = [result["metrics"].get("injected_recall", np.nan) for result in results]
    alarms = [result["metrics"]["alarms"] for result in results]
    scatter.scatter(alarms, recall, c=colours, s=36, zorder=3)
    for name, x, y in zip(names, alarms, recall, strict=True):
        if np.isfinite(y):
            scatter.annotate(name, (x, y), fontsize=6, xytext=(4, 3), textcoords="offset points", color=INK)
    scatter.set_xscale("symlog", linthresh=1.0)
    scatter.set_xlim(left=-0.2)
    scatter.set_ylim(-0.02, 1.02)
    scatter.set_xlabel("false incidents in the judged telemetry")
    scatter.set_ylabel("injected recall")
    scatter.set_title("Up and to the left is better", loc="left", color=INK, fontsize=10)
    for axes, (metric, title) in zip(bars, BARS, strict=True):
        values = [result["metrics"].get(metric, np.nan) for result in results]
        axes.barh(names, values, color=colours)
        axes.invert_yaxis()
        axes.set_title(title, loc="left", color=INK, fontsize=9)
        if axes is not bars[0]:
            axes.set_yticklabels([])
    for axes in grid:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=7, colors=INK)
    return figure
