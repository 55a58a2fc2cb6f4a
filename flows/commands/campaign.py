"""``reveal lab campaign`` and ``reveal lab replay``: what Reveal makes of many faults."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from flows import options
from flows.commands.evaluating import put_section
from flows.output import emit
from reveal_core.errors import UnavailableError, UsageError
from reveal_core.timespec import parse_duration

if TYPE_CHECKING:
    from flows.campaign_judging import Method
    from reveal_core.lab.campaign_plan import CampaignPlan
    from tasks.campaign_files import CampaignFolder

PLANNED = ("piece_faults", "faults", "variants", "healthy", "control", "seed")
"""Options that a campaign keeps from its beginning."""
LEAST_HEALTHY_S, LEAST_CONTROL_S = 60.0, 15.0
"""The collector stores once a minute; and an incident may begin 10 s after the last fault's onset."""


def campaign(
    context: typer.Context,
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Faults to inject in all.")] = 150,
    piece_faults: Annotated[
        int, typer.Option("--piece-faults", min=1, metavar="N", help="Faults of a recording.")
    ] = 12,
    faults: Annotated[
        str | None,
        typer.Option(
            "--faults", metavar="A,B,C", help="Which faults.", show_default="all that are possible here"
        ),
    ] = None,
    variants: Annotated[
        str | None,
        typer.Option("--variants", metavar="A,B", help="Variants of the workload.", show_default="all"),
    ] = None,
    healthy: Annotated[
        str, typer.Option("--healthy", metavar="TIME", help="Healthy telemetry that a piece begins with.")
    ] = "300s",
    control: Annotated[
        str,
        typer.Option("--control", metavar="TIME", help="Healthy time amid a piece's faults, and after them."),
    ] = "180s",
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Folder of the campaign.")] = Path(
        "campaign"
    ),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the folder's campaign until it has --runs faults.")
    ] = False,
    judge_only: Annotated[
        bool, typer.Option("--judge-only", help="Inject nothing: fit and score the recorded pieces again.")
    ] = False,
    profile: options.Profile = None,
    seed: options.Seed = None,
    markdown: options.Markdown = None,
    json: options.Json = False,
) -> None:
    """Inject real faults for hours into a workload on this machine, and judge what Reveal makes of them.

    It records one piece after another: a workload, healthy telemetry, then faults of random size and length
    after random gaps. Between pieces the last one is judged. It can be stopped at any moment and gone on
    with; what is lost is the piece that was being recorded. Nothing else should run on the machine.
    """
    from flows.campaign import tell
    from flows.campaign_judging import judge_stale
    from flows.settings import load_settings, mlflow_uri
    from tasks.campaign_files import CampaignFolder
    from tasks.campaign_report import campaign_document
    from tasks.campaign_report import markdown as told
    from tasks.tracking import check_server

    settings = load_settings()
    folder = CampaignFolder(directory.resolve())
    method = _method(profile)
    tracking_uri = mlflow_uri(settings, str(folder.path))
    check_server(tracking_uri)  # now, not after hours
    if judge_only:
        options.refuse(context, ("runs", *PLANNED), "--judge-only injects nothing")
        folder.content()
    else:
        if resume:
            options.refuse(context, PLANNED, "the folder's campaign has its own plan")
        _record(
            folder,
            runs,
            resume=resume,
            planned={
                "piece_faults": piece_faults,
                "faults": faults,
                "variants": variants,
                "healthy_s": parse_duration(healthy),
                "control_s": parse_duration(control),
                "seed": seed if seed is not None else settings.method.seed,
            },
            method=method,
        )
    if not folder.pieces():
        raise UsageError(f"{folder.path} holds no whole piece to judge")
    judge_stale(folder, method, tell, anew=judge_only)
    document = campaign_document(folder)
    from tasks.campaign_tracking import log_campaign

    document["mlflow"] = log_campaign(tracking_uri, document)
    if markdown is not None:
        put_section(markdown, "lab campaign", told(document))
    emit(document, as_json=json, text=lambda console: show(console, document))


def _method(profile: str | None) -> Method:
    from flows.campaign_judging import Method
    from flows.settings import load_settings
    from reveal_core.profiles import load_profile
    from tasks.models import code_version

    settings = load_settings().method
    name = profile or settings.profile
    load_profile(name, settings.overrides)  # a wrong one shows now, not after hours
    return Method(name, settings.overrides, settings.seed, code_version())


def _record(
    folder: CampaignFolder, runs: int, *, resume: bool, planned: dict[str, Any], method: Method
) -> None:
    from flows.campaign import free_lab, record_campaign, tell
    from flows.campaign_judging import judge_apart
    from flows.settings import load_settings
    from reveal_core.collect.agent import default_host

    free_lab()
    if not resume:
        folder.begin(_plan(**planned))
    record_campaign(
        folder,
        folder.plan(),
        runs,
        host=load_settings().collect.host or default_host(),
        say=tell,
        after=lambda piece: judge_apart(piece, method),
    )


def _plan(
    *,
    piece_faults: int,
    faults: str | None,
    variants: str | None,
    healthy_s: float,
    control_s: float,
    seed: int,
) -> CampaignPlan:
    """Return the plan of a new campaign.

    Raises
    ------
    UsageError
        If a fault or a variant is not known or named twice, or there is too little healthy time.
    UnavailableError
        If a fault cannot be injected here, or none.
    """
    from reveal_core.lab.campaign_plan import CampaignPlan
    from reveal_core.lab.faults import list_faults
    from reveal_core.lab.variants import VARIANTS

    known = {info.name: info for info in list_faults()}
    usual = [name for name, info in known.items() if info.available and not info.by_name]
    chosen = _names(faults, list(known), usual, "--faults")
    for name in chosen:
        if not known[name].available:
            raise UnavailableError(f"fault {name} cannot be injected here: {known[name].reason}")
    if not chosen:
        raise UnavailableError("no fault can be injected here: reveal lab list says why")
    all_variants = [variant.name for variant in VARIANTS]
    for option, given, least in (
        ("--healthy", healthy_s, LEAST_HEALTHY_S),
        ("--control", control_s, LEAST_CONTROL_S),
    ):
        if given < least:
            raise UsageError(f"{option} {given:g} s is too short: at least {least:g} s")
    return CampaignPlan(
        seed=seed,
        faults=tuple(chosen),
        variants=tuple(_names(variants, all_variants, all_variants, "--variants")),
        piece_faults=piece_faults,
        healthy_s=healthy_s,
        control_s=control_s,
    )


def _names(given: str | None, known: list[str], usual: list[str], option: str) -> list[str]:
    """Return the names that an option lists, or the usual ones."""
    if given is None:
        return usual
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise UsageError(f"{option}: there is no {name!r}; there are {', '.join(known)}")
    if not names or len(set(names)) < len(names):
        raise UsageError(f"{option} needs different names out of {', '.join(known)}")
    return names


def show(console: Console, document: dict[str, Any]) -> None:
    """Print a campaign's targets, figures and notes."""
    from tasks.campaign_report import heading, notes, target_rows

    console.print(heading(document))
    targets = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("figure", "wanted", "reached", ""):
        targets.add_column(title)
    for cells in target_rows(document):
        targets.add_row(*cells)
    console.print(targets)
    console.print(figure_table(document))
    for note in notes(document):
        console.print(note, markup=False)


def figure_table(document: dict[str, Any]) -> Table:
    """Return the figures of all faults and of each group as a table."""
    from tasks.campaign_report import COLUMNS, figure_rows

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("")
    for _, title in COLUMNS:
        table.add_column(title, justify="right")
    for name, cells in figure_rows(document):
        table.add_row(name, *cells)
    return table
