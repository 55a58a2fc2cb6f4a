"""What is told of a comparison: which setting is best and why, a table, and a note for MLflow's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

RULE = (
    "Among settings whose false incidents are compatible with their alarm budget: the highest recall on real "
    "faults if there are some, then on injected perturbations; then the right subsystem named first most "
    "often; then the least time. Where none keeps its budget: the fewest false incidents."
)
SHOWN = (
    ("fault_recall", "faults"),
    ("fault_subsystem_top1", "subsys"),
    ("fault_cause_top1", "cause"),
    ("injected_recall", "injected"),
    ("injected_median_delay_s", "delay s"),
    ("injected_metric_top3", "metric"),
    ("injected_subsystem_top1", "subsys"),
    ("alarms", "false"),
    ("alarms_per_day", "a day"),
    ("within_budget", "budget"),
    ("agreement_iou", "agree"),
    ("agreement_hit_rate", "hits"),
    ("stability_iou", "stable"),
    ("features", "feat."),
    ("total_seconds", "s"),
    ("peak_memory_mib", "MiB"),
)
"""Figures that people are shown, in order; those that no setting has are left out."""
LEGEND = (
    "faults, injected: share found; cause and subsys: named first, metric: among the first three, of those "
    "found; false: incidents without a cause, against the alarm budget; agree, hits: overlap with the "
    "reference and share of its flagged windows; stable: overlap of repeated fits; s: features, fit, score."
)
COUNTS = ("alarms", "features", "peak_memory_mib")


def best_setting(results: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], str]:
    """Return the best of some judged settings by `RULE`, and why it is."""
    best = in_order(results)[0]
    fit = [result for result in results if result["metrics"]["within_budget"]]
    if not fit:
        return best, (
            f"No setting keeps its alarm budget on this telemetry; {best['name']} has the fewest false "
            f"incidents, {best['metrics']['alarms']:.0f} in {best['metrics']['healthy_hours']:.2f} h."
        )
    metrics = best["metrics"]
    said = [
        f"{label} {metrics[name]:.2f}"
        for name, label in (
            ("fault_recall", "recall of real faults"),
            ("injected_recall", "injected recall"),
            ("injected_subsystem_top1", "the right subsystem first in a share of"),
        )
        if name in metrics
    ]
    others = len(results) - len(fit)
    apart = f"; {others} of {len(results)} settings exceed theirs" if others else ""
    budget = f"its alarm budget of {metrics['alarm_budget_per_day']:g} a day"
    return best, (
        f"{best['name']}: {', '.join(said) or 'nothing was injected'}, {metrics['alarms']:.0f} false "
        f"incidents in {metrics['healthy_hours']:.2f} h, which {budget} allows{apart}; "
        f"{metrics['total_seconds']:.1f} s."
    )


def _rank(result: Mapping[str, Any]) -> tuple[float, ...]:
    metrics = result["metrics"]
    subsystem = metrics.get("fault_subsystem_top1", metrics.get("injected_subsystem_top1", 0.0))
    return (
        -metrics.get("fault_recall", 0.0),
        -metrics.get("injected_recall", 0.0),
        -subsystem,
        metrics["total_seconds"],
    )


def noise(results: Sequence[Mapping[str, Any]]) -> str:
    """Return how far injected recalls may differ by chance, "" where nothing was injected."""
    count = max((result["metrics"].get("injected", 0.0) for result in results), default=0.0)
    if not count:
        return ""
    return (
        f"Of {count:.0f} perturbations a recall has a standard error of up to {0.5 / sqrt(count):.2f}: "
        "settings that lie closer together are not told apart."
    )


def columns(results: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the figures that any of the settings has, with their titles."""
    return [(name, title) for name, title in SHOWN if any(name in r["metrics"] for r in results)]


def cell(name: str, value: float | None) -> str:
    """Return a figure as people read it."""
    if value is None:
        return "-"
    if name == "within_budget":
        return "yes" if value else "no"
    if name in COUNTS:
        return f"{value:.0f}"
    return f"{value:.1f}" if name in ("total_seconds", "alarms_per_day") else f"{value:.2f}"


def table(results: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return settings and all their figures as columns, for MLflow's table of a run."""
    names = sorted({name for result in results for name in result["metrics"]})
    return {
        "setting": [result["name"] for result in results],
        "run_id": [result["run_id"] for result in results],
        **{name: [result["metrics"].get(name) for result in results] for name in names},
    }


def note(document: Mapping[str, Any]) -> str:
    """Return the comparison as Markdown: what won and why, and the table."""
    runs = document["runs"]
    shown = columns(runs)
    lines = [
        f"**Best: {document['best_setting']}.** {document['why']}",
        "",
        RULE,
        "",
        f"| setting | {' | '.join(title for _, title in shown)} |",
        "|---|" + "---:|" * len(shown),
    ]
    for run in in_order(runs):
        cells = [cell(name, run["metrics"].get(name)) for name, _ in shown]
        mark = "**" if run["run_id"] == document["best"] else ""
        lines.append(f"| {mark}{run['name']}{mark} | {' | '.join(cells)} |")
    lines += ["", LEGEND, "", f"The reference is {document['reference']}. {noise(runs)}".strip(), ""]
    for host in document["hosts"]:
        lines.append(
            f"{host['host']}: learned from {host['learned_start']} to {host['learned_end']}, judged until "
            f"{host['judged_end']}."
        )
    lines += [f"{one['name']} could not be judged: {one['reason']}" for one in document["failed"]]
    return "\n".join([*lines, *document["notes"]])


def in_order(runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return settings from the best to the worst by `RULE`."""
    return sorted(runs, key=_order)


def _order(run: Mapping[str, Any]) -> tuple[float, ...]:
    metrics = run["metrics"]
    return (0.0, *_rank(run)) if metrics["within_budget"] else (1.0 + metrics["alarms"], *_rank(run))


def agreement(reference: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, float]:
    """Return how far a setting agrees with the reference, both as `tasks.comparing` has them."""
    from reveal_core.evaluate.agreement import Extent
    from reveal_core.evaluate.compared import agreement_metrics

    incidents = [Extent(*one) for one in reference["incidents"]]
    return agreement_metrics(_flags(reference), incidents, _flags(result))


def _flags(result: Mapping[str, Any]) -> dict[str, frozenset[int]]:
    return {name: frozenset(seconds) for name, seconds in result["flags"].items()}
