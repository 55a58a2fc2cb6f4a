"""``reveal models``: which models there are, who made one the champion, and how to go back."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from flows import options
from flows.commands.learning import show_gate
from flows.dispatch import run_pipeline
from flows.output import emit, progress
from flows.settings import Settings, load_settings, mlflow_uri, plugins
from reveal_core.errors import UsageError

Name = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="Name of the registered model: reveal-CLASS.")
]
Class = Annotated[
    str | None, typer.Option("--class", metavar="CLASS", help="Its hardware class, in place of --model.")
]
Why = Annotated[str, typer.Option("--why", metavar="REASON", help="Why; it is kept in the model's history.")]
Reference = Annotated[str, typer.Argument(metavar="NAME/VERSION", help="A version of a registered model.")]


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("model", "version", "host"))
    return table


def _tracking_uri(store: str | None) -> str:
    settings = load_settings()
    return mlflow_uri(settings, store or settings.store)


def _name(model: str | None, hardware_class: str | None) -> str | None:
    from tasks.models import registered_name

    if model is not None and hardware_class is not None:
        raise UsageError("--model and --class name the same thing: give one of them")
    return registered_name(hardware_class) if hardware_class is not None else model


def list_command(
    model: Name = None,
    hardware_class: Class = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """List the registered models of each hardware class, every version with its aliases and its decision."""
    with progress("Asking MLflow"):
        from tasks.inventory import list_models

        found = list_models(_tracking_uri(store), name=_name(model, hardware_class))

    def show(console: Console) -> None:
        if not found:
            console.print("No model is registered yet: reveal fit makes one.")
            return
        table = _table("model", "version", "alias", "profile", "trained", "features", "decision")
        for row in found:
            table.add_row(
                row["model"],
                row["version"],
                ", ".join(row["aliases"]),
                row["profile"],
                _interval(row),
                str(row["features"] or ""),
                row["decision"],
            )
        console.print(table)

    emit(found, as_json=json, text=show)


def _interval(row: dict[str, Any]) -> str:
    return f"{row['trained_from'][:16]} to {row['trained_to'][:16]}" if row["trained_from"] else ""


def show_command(reference: Reference, store: options.Store = None, json: options.Json = False) -> None:
    """Show a version: what it was fitted on, what the gate measured, and every tag, parameter and figure."""
    with progress("Asking MLflow"):
        from tasks.inventory import show_model

        found = show_model(_tracking_uri(store), reference=reference)

    def show(console: Console) -> None:
        aliases = f" ({', '.join(found['aliases'])})" if found["aliases"] else ""
        console.print(f"{found['model']} version {found['version']}{aliases}: {found['decision']}")
        console.print(f"  Profile {found['profile']}, fitted on {_interval(found)} of {found['hosts']}")
        console.print(
            f"  {found['features']} features, {found['windows']} windows, seed {found['seed']}, "
            f"code {found['code']}"
        )
        if found["trigger"]:
            console.print(f"  Fitted because of {found['trigger']}")
        if found["gate"] is not None:
            show_gate(console, found["gate"])
        for name, value in found["metrics"].items():
            if not name.startswith("gate_"):
                console.print(f"  {name} {value:.6g}")
        console.print(f"  MLflow run {found['run_url'] or found['run_id']}")

    emit(found, as_json=json, text=show)


def history(
    model: Name = None,
    hardware_class: Class = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Show who moved which alias of a model, when and why."""
    with progress("Asking MLflow"):
        from tasks.inventory import model_history

        found = model_history(_tracking_uri(store), name=_name(model, hardware_class))

    def show(console: Console) -> None:
        table = _table("when", "model", "who", "what", "aliases", "why")
        for event in found["events"]:
            moves = ", ".join(
                f"{alias} {before or '-'} to {after or '-'}"
                for alias, (before, after) in event["changes"].items()
            )
            table.add_row(
                event["when"][:19], event["model"], event["who"], event["action"], moves, event["why"]
            )
        console.print(table)
        for note in found["notes"]:
            console.print(note)

    emit(found, as_json=json, text=show)


def promote(reference: Reference, why: Why, store: options.Store = None, json: options.Json = False) -> None:
    """Make a version the champion by hand; the champion before it becomes the previous one."""
    with progress("Asking MLflow"):
        from tasks.inventory import promote_by_hand

        found = promote_by_hand(_tracking_uri(store), reference=reference, why=why)
    emit(found, as_json=json, text=lambda console: _show_move(console, found))


def rollback(
    why: Why = "asked for",
    model: Name = None,
    hardware_class: Class = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Make the previous version the champion again: one step back; a second one goes forth again."""
    with progress("Asking MLflow"):
        from tasks.inventory import roll_back_model

        found = roll_back_model(_tracking_uri(store), name=_name(model, hardware_class), why=why)
    emit(found, as_json=json, text=lambda console: _show_move(console, found))


def _show_move(console: Console, found: dict[str, Any]) -> None:
    before = f"version {found['before']}" if found["before"] else "none"
    console.print(f"{found['model']}: champion is version {found['version']} now, before it {before}")


def drift(
    store: options.Store = None,
    host: options.Hosts = "*",
    start: options.Start = None,
    end: options.End = None,
    model: options.Model = None,
    refit: Annotated[
        bool,
        typer.Option("--refit", help="Where hosts have drifted, fit a challenger; it is never promoted."),
    ] = False,
    seed: options.Seed = None,
    flow: options.Flow = None,
    json: options.Json = False,
) -> None:
    """Tell whether hosts still look like what their model was fitted on."""
    settings: Settings = load_settings()
    place = store or settings.store
    found = run_pipeline(
        "watch_drift",
        "Looking for drift",
        flow=flow,
        store=place,
        tracking_uri=mlflow_uri(settings, place),
        host=host,
        start=start,
        end=end,
        model=model,
        rules=settings.method.drift,
        refit=refit,
        seed=settings.method.seed if seed is None else seed,
        plugins=plugins(settings),
    )

    def show(console: Console) -> None:
        for one in found:
            _show_drift(console, one)

    emit(found, as_json=json, text=show)


def _show_drift(console: Console, found: dict[str, Any]) -> None:
    # Without drift the reason says so itself.
    verdict = "drifted: " if found["drifted"] else ""
    console.print(f"{found['model']} version {found['version']}: {verdict}{found['why']}")
    table = _table("host", "drifted", "features moved", "scores beyond", "furthest features (index, shift)")
    for one in found["hosts"]:
        if one["skipped"]:
            table.add_row(one["host"], "not judged", "", "", one["skipped"])
            continue
        table.add_row(
            one["host"],
            "yes" if one["drifted"] else "no",
            f"{100 * one['feature_share']:.0f} %",
            f"{100 * one['score_share']:.0f} %",
            "\n".join(_feature(feature) for feature in one["features"][:5] if feature["drifted"]),
        )
    console.print(table)
    challenger = found["challenger"]
    if challenger is not None and challenger["refused"]:
        console.print(f"No challenger could be fitted: {challenger['refused']}")
    elif challenger is not None:
        console.print(
            f"Challenger: version {challenger['version']}, {challenger['windows']} windows; "
            f"reveal models promote {challenger['model']}/{challenger['version']} --why REASON "
            "makes it the champion"
        )
    elif found["answered"]:
        console.print(f"{found['answered']} was fitted because of drift and knows this telemetry.")


def _feature(feature: dict[str, Any]) -> str:
    if feature["psi"] is None:
        return f"{feature['name']} (no samples)"
    return f"{feature['name']} ({feature['psi']:.2f}, {feature['shift']:+.1f})"
