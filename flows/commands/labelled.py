"""``reveal evaluate --dataset``: what is shown of a labelled data set."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

COLUMNS = (
    ("ap", "AP"),
    ("auc", "AUC"),
    ("vus_pr", "VUS-PR"),
    ("event_recall", "recall"),
    ("event_recall_pooled", "pooled"),
    ("false_events_per_day", "false/day"),
    ("worst_false_events_per_day", "worst"),
    ("event_f1", "F1"),
    ("median_delay_min", "delay, min"),
    ("normal_flagged", "flagged"),
)
SHARES = ("event_recall", "event_recall_pooled", "normal_flagged")
CALLS = ("cpu", "network", "none")


def markdown(found: dict[str, Any]) -> str:
    """Return the figures as Markdown tables, with what they are of."""
    lines = [_heading(found), "", f"| detector | {' | '.join(title for _, title in COLUMNS)} |"]
    lines.append("|---|" + "---:|" * len(COLUMNS))
    for name, figures in found["detectors"].items():
        lines.append(f"| {name} | {' | '.join(_cell(key, figures[key]) for key, _ in COLUMNS)} |")
    if found.get("days"):
        lines += ["", f"| day | fault | {' | '.join(f'{call} named' for call in CALLS)} |"]
        lines.append("|---|---|" + "---:|" * len(CALLS))
        lines += [f"| {' | '.join(row)} |" for row in _calls(found)]
    for sentence in _sentences(found):
        lines += ["", sentence]
    return "\n".join(lines)


def show(console: Console, found: dict[str, Any]) -> None:
    """Print the figures for people."""
    console.print(_heading(found))
    table = _table("detector", *(title for _, title in COLUMNS))
    for name, figures in found["detectors"].items():
        table.add_row(name, *(_cell(key, figures[key]) for key, _ in COLUMNS))
    console.print(table)
    if found.get("days"):
        calls = _table("day", "fault", *(f"{call} named" for call in CALLS))
        for row in _calls(found):
            calls.add_row(*row)
        console.print(calls)
    for sentence in _sentences(found):
        console.print(sentence)


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(first)
    for title in others:
        table.add_column(title, justify="left" if title == "fault" else "right")
    return table


def _heading(found: dict[str, Any]) -> str:
    return (
        f"{found['dataset']}, profile {found['profile']}: {found['entities']} entities, "
        f"{found['host_days']:g} host-days, {found['events']} events; "
        f"{found['threshold']}; {found['seconds']:.0f} s"
    )


def _calls(found: dict[str, Any]) -> list[list[str]]:
    return [
        [day["day"], kind, *(str(counts[call]) for call in CALLS)]
        for day in found["days"]
        for kind, counts in day["named"].items()
    ]


def _sentences(found: dict[str, Any]) -> list[str]:
    told = [_attribution(found["attribution"])] if found["attribution"]["segments"] else []
    return told + [_job(job) for job in found.get("jobs", [])] + [_day(day) for day in found.get("days", [])]


def _attribution(found: dict[str, Any]) -> str:
    share = {name: _cell("ap", value) for name, value in found.items()}
    text = (
        f"Right of {found['segments']:g} labelled segments: first metric {share['top1']}, any of three "
        f"{share['top3']}; hit rate {share['hit100']} at 100 %, {share['hit150']} at 150 %"
    )
    if not found["subsystem_segments"]:
        return f"{text}."
    return (
        f"{text}; first subsystem {share['subsystem_top1']}, "
        f"{share['subsystem_top1_no_storage']} without segments of storage alone."
    )


def _job(job: dict[str, Any]) -> str:
    after = ", ".join(
        f"node {node} {'never' if minutes is None else f'after {minutes:g} min'}"
        for node, minutes in job["named_after_min"].items()
    )
    return (
        f"{job['job']}, {job['full_hours']} full hours, by {', '.join(job['metrics'])}: the slow nodes are "
        f"on top in {_cell('event_recall', job['slow_on_top'])} of them; slow nodes named: "
        f"{after or 'none is known'}; others named: {', '.join(job['others_named']) or 'none'}, in "
        f"{job['healthy_node_minutes_named']} of their {job['healthy_node_minutes']} node-minutes."
    )


def _day(day: dict[str, Any]) -> str:
    labels = ("faults of cpu", "of network", "of code, with nothing to name")
    right = ", ".join(
        f"{day['right'][call]} of {day['faults'][call]} {label}"
        for call, label in zip(CALLS, labels, strict=True)
        if day["faults"][call]
    )
    latency = "" if day["latency"] else ", no latency between services recorded"
    return (
        f"{day['day']}{latency}: right for {right}; something named at {day['free_named']} of {day['free']} "
        f"moments without a fault, {100 * (day['free_named_share'] or 0.0):.2f} %."
    )


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    if key in SHARES:
        return f"{100 * value:.1f} %"
    return f"{value:.1f}" if key == "median_delay_min" else f"{value:.3f}"
