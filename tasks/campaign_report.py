"""What is told of a campaign: its document, and the same as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.campaign_files import CampaignFolder, judged_piece

COLUMNS = (
    ("injected", "injected"),
    ("detected", "found"),
    ("recall", "share"),
    ("median_delay_s", "delay, s"),
    ("median_slowdown", "slower by"),
    ("subsystem_first", "subsystem first"),
    ("subsystem_first_lenient", "lenient"),
    ("cause_first", "cause first"),
    ("cause_first_strict", "its own"),
    ("cause_in_three", "in three"),
)
GROUPS = ("subsystem", "variant", "fault")
COUNTS = ("injected", "detected")
LEGEND = (
    'Delay and slowdown are medians. Subsystem and cause are shares of the faults found: "lenient" counts '
    'another subsystem where this host\'s signals cannot tell two faults apart, "its own" no other cause.'
)


def campaign_document(folder: CampaignFolder) -> dict[str, Any]:
    """Return what became of a campaign's faults, from the pieces that have been judged.

    Returns
    -------
    dict
        ``runs`` and ``summary`` by the contract, ``pieces``, ``skipped`` (faults that could not be injected,
        with the reason), and ``campaign``: ``folder``, ``machine``, ``plan``, ``method`` of the pieces and
        ``hardware_class``.

    Raises
    ------
    UsageError
        If the folder holds no campaign, or a file of it cannot be read.
    """
    from reveal_core.evaluate.campaign import judge_pieces
    from reveal_core.evaluate.campaign_summary import summarise

    content = folder.content()
    pieces, skipped, methods, classes = [], [], [], []
    for piece in folder.pieces():
        judged = piece.judged()
        if judged is None:
            continue
        facts = piece.facts()
        pieces.append(judged_piece(facts, judged["incidents"]))
        skipped += [{"piece": facts["number"], **one} for one in facts["skipped"]]
        methods.append(judged["method"])
        classes.append(judged["hardware_class"])
    runs, lines = judge_pieces(pieces)
    return {
        "runs": [run.to_dict() for run in runs],
        "summary": {**summarise(runs, lines), "machine": content["machine"]},
        "pieces": lines,
        "skipped": skipped,
        "campaign": {
            "folder": str(folder.path),
            "machine": content["machine"],
            "begun": content["begun"],
            "plan": content["plan"],
            "method": methods[-1] if methods else None,
            "hardware_class": classes[-1] if classes else None,
        },
    }


def heading(document: Mapping[str, Any]) -> str:
    """Return what was injected, where, and with which method it was judged."""
    campaign, summary = document["campaign"], document["summary"]
    method = campaign["method"] or {}
    seeds = ", ".join(str(piece["seed"]) for piece in document["pieces"])
    pieces = len(document["pieces"])
    held = f"{pieces} recording{'' if pieces == 1 else 's'}"
    return (
        f"{summary['all']['injected']} real faults in {held} on a machine with "
        f"{campaign['machine']}; profile {method.get('profile', '-')}, each fitted on the first "
        f"{campaign['plan']['healthy_s']:g} s of its recording. Seed {campaign['plan']['seed']}; of the "
        f"recordings: {seeds}."
    )


def markdown(document: Mapping[str, Any]) -> str:
    """Return a campaign as Markdown: its targets, and its figures apart by subsystem, variant and fault."""
    lines = [heading(document), "", "| figure | wanted | reached | |", "|---|---:|---:|---|"]
    lines += [f"| {' | '.join(cells)} |" for cells in target_rows(document)]
    return "\n".join([*lines, "", *_figure_lines(document)])


def replay_heading(document: Mapping[str, Any]) -> str:
    """Return what was replayed, over which recording."""
    recording = document["recording"]
    count = document["summary"]["all"]["injected"]
    where = f"{recording['host']} from {recording['judged_from']} to {recording['end']}"
    return (
        f"Replayed, not real: {count} faults of devices that this machine does not have, written over "
        f"{where}; profile {recording['profile']}, fitted from {recording['start']} on. Seed "
        f"{recording['seed']}."
    )


def replay_markdown(document: Mapping[str, Any]) -> str:
    """Return what became of replayed faults as Markdown."""
    return "\n".join([replay_heading(document), "", *_figure_lines(document)])


def _figure_lines(document: Mapping[str, Any]) -> list[str]:
    lines = [f"| | {' | '.join(title for _, title in COLUMNS)} |", "|---|" + "---:|" * len(COLUMNS)]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in figure_rows(document)]
    return [*lines, "", LEGEND, "", *notes(document)]


def target_rows(document: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield each wanted figure: in words, its bound, its value, and whether it is met."""
    mark = {True: "met", False: "missed", None: "-"}
    for target in document["summary"]["targets"]:
        bound = f"≥ {target['least']:g}" if target["least"] is not None else f"≤ {target['most']:g}"
        value = "-" if target["value"] is None else f"{target['value']:.3g}"
        yield [target["words"], bound, value, mark[target["met"]]]


def figure_rows(document: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the figures of all faults, of the harmful ones, and of each group."""
    summary = document["summary"]
    yield "all", _cells(summary["all"])
    if summary["harmful"]["injected"]:
        yield "harmful", _cells(summary["harmful"])
    for group in GROUPS:
        for name, values in summary[f"by_{group}"].items():
            yield f"{group} {name}", _cells(values)


def notes(document: Mapping[str, Any]) -> list[str]:
    """Return what else must be known: false incidents, and faults that could not be injected."""
    summary = document["summary"]
    told = [
        f"False incidents: {summary['false_incidents']} in {summary['healthy_hours']:.2f} h without a fault."
    ]
    told += [
        f"- piece {piece['piece']} ({piece['variant']}), {one['start']}: {one['subsystem']}, "
        f"{one['cause'] or 'no cause known'}"
        for piece in document["pieces"]
        for one in piece["false_incidents"]
    ]
    skipped = {(one["fault"], one["reason"]) for one in document.get("skipped", ())}
    return told + [f"{fault} was not injected: {reason}" for fault, reason in sorted(skipped)]


def _cells(figures: Mapping[str, Any]) -> list[str]:
    return [_cell(name, figures[name]) for name, _ in COLUMNS]


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if name in COUNTS else f"{value:.2f}"


def run_table(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the runs as columns, for MLflow's table of a run."""
    names = list(runs[0]) if runs else []
    return {name: [run[name] for run in runs] for name in names}
