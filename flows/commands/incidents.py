"""``reveal incidents``: what is known of them over all runs, and what people say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from flows import options
from flows.output import emit
from flows.settings import load_settings

Incident = Annotated[str, typer.Argument(metavar="ID", help="An incident's id, from a report or the list.")]
Since = Annotated[
    str | None,
    typer.Option("--start", metavar="TIME", help="ISO 8601 or relative: -7d.", show_default="the beginning"),
]


def list_command(
    store: options.Store = None,
    host: options.Hosts = "*",
    start: Since = "-7d",
    end: options.End = None,
    only_open: Annotated[bool, typer.Option("--open", help="Only those that are not over.")] = False,
    json: options.Json = False,
) -> None:
    """List incidents, each once however often it came, the newest first."""
    from tasks.incidents import list_incidents

    found = list_incidents(
        store or load_settings().store, host=host, start=start, end=end, only_open=only_open
    )
    emit(found, as_json=json, text=lambda console: _show_list(console, found))


def _show_list(console: Console, incidents: list[dict[str, Any]]) -> None:
    if not incidents:
        console.print("No incident.")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("incident", "state", "came", "last (UTC)", "host", "subsystem", "likely cause"):
        table.add_column(column, overflow="fold", justify="right" if column == "came" else "left")
    for one in incidents:
        note = " ".join(filter(None, [one["label"], "(told to nobody)" if one["silenced"] else ""]))
        table.add_row(
            one["id"],
            ("flapping" if one["flapping"] and one["state"] == "open" else one["state"])
            + (f", {note}" if note else ""),
            f"{one['count']}×",
            one["start"][:19].replace("T", " "),
            one["host"],
            one["subsystem"],
            one["title"] or "unknown",
        )
    console.print(table)


def show_command(incident: Incident, store: options.Store = None, json: options.Json = False) -> None:
    """Show all that is known of an incident: evidence, causes, and what became of it."""
    from tasks.incidents import show_incident

    found = show_incident(store or load_settings().store, incident)
    emit(found, as_json=json, text=lambda console: _show_one(console, found))


def _show_one(console: Console, found: dict[str, Any]) -> None:
    from reveal_core.formatting import format_band, format_value

    def line(text: str = "") -> None:
        console.print(text, markup=False, soft_wrap=True)

    ran = f", job {found['job']}" if found["job"] else ""
    line(f"{found['id']} on {found['host']}{ran}: {found['subsystem']}")
    line(f"from {found['start']} to {found['end']}, {found['score']:.1f} times its threshold")
    if history := found["history"]:
        state = history["state"] if not history["flapping"] else f"{history['state']}, flapping"
        times = "1 time" if history["count"] == 1 else f"{history['count']} times"
        line(f"came {times} since {history['first']}; {state}")
        for name in ("label", "silenced"):
            if history[name]:
                line(f"{name}: {history[name]}")
    line()
    for metric in found["metrics"][:8]:
        name = " ".join(filter(None, [metric["metric"], metric["instance"]]))
        band = format_band(metric["normal_low"], metric["normal_high"], metric["unit"])
        line(f"  {name}: {format_value(metric['value'], metric['unit'])}, normally {band}")
    if not found["causes"]:
        line("\nThe cause is unknown: no entry of the catalogue fits.")
    for cause in found["causes"]:
        line(f"\n{cause['title']} ({100 * cause['confidence']:.0f} %)")
        for sentence in cause["evidence"]:
            line(f"  + {sentence}")
        for sentence in cause["against"]:
            line(f"  - {sentence}")
    if found["causes"]:
        first = found["causes"][0]
        line(f"\nWhat to do: {first['fix']}")
        for command in first["commands"]:
            line(f"  $ {command}")


def label_command(
    incident: Incident,
    verdict: Annotated[
        str, typer.Argument(metavar="real|false|known", help="What it was; false and known quiet its like.")
    ],
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, kept with it.")] = "",
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Say of an incident that it was real, false, or is known."""
    from tasks.incidents import label_incident

    label = label_incident(store or load_settings().store, incident, verdict=verdict, why=why)
    emit(
        label,
        as_json=json,
        text=lambda console: console.print(
            f"{label['incident']} on {label['host']} is labelled {label['verdict']}", markup=False
        ),
    )


def summary_command(
    store: options.Store = None,
    host: options.Hosts = "*",
    start: Since = "-30d",
    end: options.End = None,
    json: options.Json = False,
) -> None:
    """Count incidents against the time judged, and how many of those labelled were right."""
    from tasks.incidents import summarise

    found = summarise(store or load_settings().store, host=host, start=start, end=end)
    emit(found, as_json=json, text=lambda console: _show_summary(console, found))


def _show_summary(console: Console, found: dict[str, Any]) -> None:
    rate = "" if found["per_host_day"] is None else f", {found['per_host_day']:.2f} per host and day"
    judged = f"{found['host_days']:.2f} host-days of {found['hosts']} hosts"
    console.print(f"{found['incidents']} incidents in {judged}{rate}")
    counts = ", ".join(f"{count} {verdict}" for verdict, count in found["labelled"].items())
    right = "" if found["precision"] is None else f": {100 * found['precision']:.0f} % were right"
    console.print(f"labelled: {counts}{right}")
    for row in found["causes"]:
        verdicts = ", ".join(f"{row[v]} {v}" for v in found["labelled"] if row[v])
        console.print(
            f"  {row['incidents']:>4}  {row['cause'] or 'unknown'}" + (f"  ({verdicts})" if verdicts else ""),
            markup=False,
        )


def truth_command(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write.")],
    store: options.Store = None,
    host: options.Hosts = "*",
    json: options.Json = False,
) -> None:
    """Write the incidents labelled real as a file of faults, for ``reveal compare --faults``."""
    from tasks.incidents import write_truth

    count = write_truth(store or load_settings().store, out, host=host)
    emit(
        {"file": str(out), "faults": count},
        as_json=json,
        text=lambda console: console.print(f"{count} faults in {out}", markup=False),
    )
