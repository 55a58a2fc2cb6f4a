"""The ``reveal`` command: every command in one visible list, and how errors are told.

Commands import what they need when they run, so that ``reveal --help`` and the collector start fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated

import typer
from typer.exceptions import TyperException

from flows.commands import (
    bench,
    campaign,
    collecting,
    comparing,
    demo,
    deploying,
    evaluating,
    exporting,
    fleet,
    importing,
    incidents,
    inspecting,
    jobs,
    lab,
    learning,
    maintaining,
    models,
    regimes,
    replay,
    reproducing,
    scoring,
    silences,
    site,
)
from flows.environment import prepare_environment
from reveal_core.errors import RevealError

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells give it."""

app = typer.Typer(
    name="reveal",
    help="Find performance anomalies of a machine in its hardware signals, and name their cause.",
    no_args_is_help=False,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks; works anywhere on the line.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the logs of Prefect and MLflow; likewise.")
    ] = False,
) -> None:
    """Find performance anomalies of a machine in its hardware signals, and name their cause."""
    if show_version:
        typer.echo(f"reveal {version('reveal-telemetry')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("doctor", inspecting.doctor, "reveal doctor"),
    ("channels", inspecting.channels, "reveal channels --json | jq length"),
    ("collect", collecting.collect, "reveal collect --store ./reveal-data --duration 60s"),
    ("import", importing.import_command, "reveal import csv telemetry.csv --timezone UTC --host node-17"),
    (
        "features",
        learning.features,
        "reveal features --store ./reveal-data --host node-17 --out windows.parquet",
    ),
    ("fit", learning.fit, "reveal fit --store ./reveal-data --start -1h --promote"),
    ("score", scoring.score, "reveal score --store ./reveal-data --start -10m"),
    (
        "investigate",
        scoring.investigate,
        "reveal investigate --host node-17 --start 2026-11-29T20:15Z --end 2026-11-29T20:20Z",
    ),
    ("evaluate", evaluating.evaluate, "reveal evaluate --dataset smd --data ./smd"),
    ("compare", comparing.compare, "reveal compare --store ./reveal-data --grid compare-grid.toml"),
    ("maintain", maintaining.maintain, "reveal maintain --store ./reveal-data --dry-run"),
    ("reproduce", reproducing.reproduce, "reveal reproduce --markdown docs/reproduction.md"),
    ("demo", demo.demo, "reveal demo --full"),
    ("deploy", deploying.deploy_command, "reveal deploy --pool reveal"),
    ("site", site.site_command, "reveal site --dir ./site"),
)

lab_app = typer.Typer(
    help="A workload to watch and real faults to inject, on this machine.", no_args_is_help=True
)
LAB_COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("list", lab.list_command, "reveal lab list"),
    ("workload", lab.workload, "reveal lab workload --duration 5m"),
    ("inject", lab.inject_command, "reveal lab inject cpu-contention --duration 10s"),
    ("clean", lab.clean, "reveal lab clean"),
    ("campaign", campaign.campaign, "reveal lab campaign --dir campaign --runs 150"),
    ("replay", replay.replay, "reveal lab replay --store ./healthy --start -1h"),
    ("fleet", fleet.simulate, "reveal lab fleet --store ./fleet --hosts 100 --history 10m"),
)
models_app = typer.Typer(
    help="The registered models: which there are, who moved an alias, drift, and going back.",
    no_args_is_help=True,
)
MODELS_COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("list", models.list_command, "reveal models list"),
    ("show", models.show_command, "reveal models show reveal-2cpu-0gpu-amd/3"),
    ("history", models.history, "reveal models history --class 2cpu-0gpu-amd"),
    ("promote", models.promote, "reveal models promote reveal-2cpu-0gpu-amd/3 --why 'new kernel'"),
    ("rollback", models.rollback, "reveal models rollback --class 2cpu-0gpu-amd --why 'too many alarms'"),
    ("drift", models.drift, "reveal models drift --start -1h --refit"),
)
regimes_app = typer.Typer(
    help="Hosts that stay out of their habits, held until somebody accepts the change.", no_args_is_help=True
)
REGIMES_COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("list", regimes.list_command, "reveal regimes list --store ./reveal-data"),
    ("acknowledge", regimes.acknowledge, "reveal regimes acknowledge --host node-17 --why 'new kernel'"),
)
incidents_app = typer.Typer(
    help="Incidents over all runs: which there are, what is known of one, and what people say of them.",
    no_args_is_help=True,
)
INCIDENTS_COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("list", incidents.list_command, "reveal incidents list --open"),
    ("show", incidents.show_command, "reveal incidents show 20261129T201502-node-17-1f6c2a"),
    ("label", incidents.label_command, "reveal incidents label 20261129T201502-node-17-1f6c2a known"),
    ("summary", incidents.summary_command, "reveal incidents summary --start -30d"),
    ("truth", incidents.truth_command, "reveal incidents truth --out faults.json"),
)
silences_app = typer.Typer(
    help="When nobody is told of incidents: silences and maintenance windows.", no_args_is_help=True
)
SILENCES_COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("list", silences.list_command, "reveal silences list"),
    ("add", silences.add_command, "reveal silences add --host 'rack-7-*' --end +4h --why 'new switch'"),
    ("end", silences.end_command, "reveal silences end 20261129T201500-3fa2c1"),
)
jobs_app = typer.Typer(
    help="Which hosts run which job: those of one job are held against each other.", no_args_is_help=True
)
JOBS_COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("import", jobs.import_command, "reveal jobs import slurm"),
    ("list", jobs.list_command, "reveal jobs list --host node-17 --start -6h"),
)
alerts_app = typer.Typer(help="Who is told of incidents.", no_args_is_help=True)
ALERTS_COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("test", silences.try_command, "reveal alerts test"),
)
export_app = typer.Typer(
    help="Incidents and scores for other tools: Prometheus and Grafana, and whatever takes OTLP.",
    no_args_is_help=True,
)
EXPORT_COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("prometheus", exporting.prometheus, "reveal export prometheus --listen 127.0.0.1:9465"),
    ("otlp", exporting.otlp, "reveal export otlp --endpoint http://collector:4318 --start -10m"),
)
bench_app = typer.Typer(help="What Reveal costs on this machine, measured.", no_args_is_help=True)
BENCH_COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("collector", bench.collector, "reveal bench collector --duration 60s"),
    ("features", bench.features, "reveal bench features --no-peers"),
    ("scoring", bench.scoring, "reveal bench scoring --duration 1h"),
    ("fleet", fleet.bench, "reveal bench fleet --hosts 100,300"),
)
for group, commands in (
    (app, COMMANDS),
    (lab_app, LAB_COMMANDS),
    (models_app, MODELS_COMMANDS),
    (regimes_app, REGIMES_COMMANDS),
    (incidents_app, INCIDENTS_COMMANDS),
    (silences_app, SILENCES_COMMANDS),
    (jobs_app, JOBS_COMMANDS),
    (alerts_app, ALERTS_COMMANDS),
    (export_app, EXPORT_COMMANDS),
    (bench_app, BENCH_COMMANDS),
):
    for name, function, example in commands:
        group.command(name, epilog=f"Example: {example}")(function)
app.add_typer(lab_app, name="lab")
app.add_typer(models_app, name="models")
app.add_typer(regimes_app, name="regimes")
app.add_typer(incidents_app, name="incidents")
app.add_typer(silences_app, name="silences")
app.add_typer(jobs_app, name="jobs")
app.add_typer(alerts_app, name="alerts")
app.add_typer(export_app, name="export")
app.add_typer(bench_app, name="bench")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    0 done; 2 wrong usage or bad input; 3 something needed is not available; 130 interrupted; 1 a mistake of
    our own. Each failure is one line on standard error, and a traceback only with ``--debug``.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = _take(given, "--debug")
    verbose = _take(given, "--verbose") or debug
    prepare_environment(verbose=verbose)
    try:
        code = app(given, prog_name="reveal", standalone_mode=False)
    except (RevealError, TyperException) as error:
        if debug:
            raise
        return _tell(_one_line(error), error.exit_code)
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does; nothing more can be told to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return _tell("interrupted", INTERRUPTED)
    except Exception as error:
        if debug:
            raise
        return _tell(f"internal error: {type(error).__name__}: {_one_line(error)} (--debug shows where)", 1)
    return code if isinstance(code, int) else 0


def _take(arguments: list[str], flag: str) -> bool:
    """Take a flag out of the arguments, wherever it stands."""
    found = flag in arguments
    arguments[:] = [argument for argument in arguments if argument != flag]
    return found


def _one_line(error: Exception) -> str:
    text = error.format_message() if isinstance(error, TyperException) else str(error)
    return " ".join(text.split()) or type(error).__name__


def _tell(line: str, code: int) -> int:
    sys.stderr.write(f"reveal: {line}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
