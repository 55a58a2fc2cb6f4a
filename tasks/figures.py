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
    ("fault_recall", "real faults found"),
    ("injected_recall", "perturbations found"),
    ("fault_subsystem_top1", "right subsystem first, faults"),
    ("injected_subsystem_top1", "right subsystem first, perturbations"),
    ("stability_iou", "stability"),
    ("total_seconds", "seconds"),
)
"""Figures of a comparison that stand beside each other as bars; those that no setting has are left out."""
FEW_ALARMS = 10
"""Above so many false incidents their axis is logarithmic."""


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
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    names = [f"{number} {result['name']}" for number, result in enumerate(results, 1)]
    colours = [LINE if result["name"] == best else BAR for result in results]
    shown = [(key, title) for key, title in BARS if any(key in result["metrics"] for result in results)]
    height = 2.4 + 0.28 * max(len(names), 8)
    figure = Figure(figsize=(5.5 + 2.0 * len(shown), height), dpi=110, layout="constrained")
    scatter, *bars = figure.subplots(1, 1 + len(shown), width_ratios=[2.2, *([1.0] * len(shown))])
    found = next((key for key, _ in shown if key.endswith("_recall")), None)
    alarms = [result["metrics"]["alarms"] for result in results]
    recall = [result["metrics"].get(found, 0.0) for result in results]
    scatter.scatter(alarms, recall, c=colours, s=40, zorder=3)
    for x, y in dict.fromkeys(zip(alarms, recall, strict=True)):
        here = [str(n) for n, point in enumerate(zip(alarms, recall, strict=True), 1) if point == (x, y)]
        scatter.annotate(", ".join(here), (x, y), fontsize=7, xytext=(5, 4), textcoords="offset points")
    if max(alarms) > FEW_ALARMS:
        scatter.set_xscale("symlog", linthresh=FEW_ALARMS)
        scatter.xaxis.set_major_formatter(ScalarFormatter())
    else:
        scatter.xaxis.set_major_locator(MaxNLocator(integer=True))
    scatter.set_xlim(left=-0.5, right=max(1.0, 1.15 * max(alarms)))
    scatter.set_ylim(-0.03, 1.06)
    scatter.set_xlabel("false incidents in the judged telemetry")
    scatter.set_ylabel(f"share of {dict(BARS)[found]}" if found else "nothing to find")
    scatter.set_title("Up and to the left is better", loc="left", color=INK, fontsize=10)
    for axes, (key, title) in zip(bars, shown, strict=True):
        axes.barh(range(len(names)), [result["metrics"].get(key, 0.0) for result in results], color=colours)
        axes.set_yticks(range(len(names)), names if axes is bars[0] else [""] * len(names))
        axes.invert_yaxis()
        axes.set_title(title.replace(", ", ",\n"), loc="left", color=INK, fontsize=9)
    for axes in (scatter, *bars):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=7, colors=INK)
    return figure
