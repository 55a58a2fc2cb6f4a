"""``reveal features`` and ``reveal fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from flows import options
from flows.dispatch import run_pipeline
from flows.output import emit, progress
from flows.settings import load_settings, mlflow_uri

_NAMED = 8
"""Hosts of a model that are named; of more their number is told."""


def features(
    store: options.Store = None,
    host: options.Hosts = "*",
    start: options.Start = None,
    end: options.End = None,
    profile: options.Profile = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the windows of all hosts to this Parquet file."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Compute the features of every window, and say what pruning would leave of them."""
    settings = load_settings()
    with progress("Computing features"):
        from tasks.featuring import compute_features

        result = compute_features(
            store or settings.store,
            host=host,
            start=start,
            end=end,
            profile=profile or settings.method.profile,
            overrides=settings.method.overrides,
            out=str(out) if out else None,
        )

    def show(console: Console) -> None:
        console.print(
            f"{result['windows']} windows of {len(result['hosts'])} hosts, {result['features']} features kept"
            f" and {result['pruned']} pruned, in {result['seconds']:.1f} s"
            + (f"; written to {out}" if out else "")
        )

    emit(result, as_json=json, text=show)


def fit(
    store: options.Store = None,
    host: options.Hosts = "*",
    start: options.Start = None,
    end: options.End = None,
    profile: options.Profile = None,
    seed: options.Seed = None,
    promote: Annotated[
        bool,
        typer.Option(
            "--promote",
            help="Make it the champion, which scoring uses, if it passes the gate against the one that is; "
            "the first version always is.",
        ),
    ] = False,
    gate_start: Annotated[
        str | None,
        typer.Option(
            "--gate-start",
            metavar="TIME",
            help="Healthy time to compare both on, outside the range that is fitted.",
            show_default="the newest fifth of the range is held back for it",
        ),
    ] = None,
    gate_end: Annotated[str | None, typer.Option("--gate-end", metavar="TIME", help="Its end.")] = None,
    force: Annotated[
        str | None,
        typer.Option(
            "--force", metavar="REASON", help="Promote it whatever the gate says; the reason is kept."
        ),
    ] = None,
    without_incidents: Annotated[
        bool,
        typer.Option("--without-incidents", help="Leave out windows in incidents of the store."),
    ] = False,
    flow: options.Flow = None,
    json: options.Json = False,
) -> None:
    """Learn from healthy telemetry and register a model for each hardware class."""
    settings = load_settings()
    place = store or settings.store
    models = run_pipeline(
        "fit_detectors",
        "Learning what healthy looks like",
        flow=flow,
        store=place,
        tracking_uri=mlflow_uri(settings, place),
        host=host,
        start=start,
        end=end,
        profile=profile or settings.method.profile,
        overrides=settings.method.overrides,
        seed=settings.method.seed if seed is None else seed,
        promote=promote,
        gate=settings.method.gate,
        gate_start=gate_start,
        gate_end=gate_end,
        force=force,
        without_incidents=without_incidents,
    )
    # The contract names one model; hosts of several hardware classes give several, and none is left out.
    document = models[0] if len(models) == 1 else {**models[0], "models": models}
    emit(document, as_json=json, text=lambda console: _show_models(console, models))


def _show_models(console: Console, models: list[dict[str, Any]]) -> None:
    for model in models:
        console.print(
            f"{model['model']} version {model['version']} ({model['alias']}): "
            f"{model['windows']} windows of {_hosts(model)}, {model['features']} features, "
            f"threshold {model['threshold_rule']}"
        )
        for one in model["left_out"]:
            console.print(f"  Left out: {one['reason']}", markup=False)
        if model["provisional"]:
            console.print(
                "  Less than a day of history: the threshold is provisional, no alarm rate can be promised."
            )
        if model["gate"] is not None:
            show_gate(console, model["gate"])
        console.print(f"  MLflow run {model['run_url'] or model['run_id']}")


def _hosts(model: dict[str, Any]) -> str:
    """Return the hosts that a model learned from, by name where they are few."""
    hosts, candidates = model["hosts"], model["candidates"]
    named = ", ".join(hosts) if len(hosts) <= _NAMED else f"{len(hosts)} hosts"
    return named if candidates == len(hosts) else f"{named} of {candidates}"


def show_gate(console: Console, gate: dict[str, Any]) -> None:
    """Print what the promotion gate decided and each of its criteria."""
    verdict = {"promoted": "promoted", "refused": "refused", "forced": "promoted against the gate"}
    console.print(f"  Gate against {gate['against']}: {verdict[gate['decision']]}")
    for criterion in gate["criteria"]:
        mark = "[green]met[/green]    " if criterion["passed"] else "[red]not met[/red]"
        console.print(f"    {mark} {criterion['name']}: {criterion['text']}")
    for note in gate["notes"]:
        console.print(f"    {note}")
