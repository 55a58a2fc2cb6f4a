"""``reveal export``: incidents and scores for Prometheus, Grafana and whatever takes OTLP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from flows import options
from flows.output import emit, progress
from flows.settings import Settings, load_settings
from flows.signals import signals
from reveal_core.errors import UsageError
from reveal_core.timespec import parse_duration

Step = Annotated[
    str, typer.Option("--step", metavar="TIME", help="Scores are told once for so long: the highest.")
]


def prometheus(
    store: options.Store = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="Serve them until Ctrl-C; a port alone is on loopback."
        ),
    ] = None,
    textfile: Annotated[
        Path | None,
        typer.Option(
            "--textfile", metavar="FILE", help="Write them for the textfile collector of node_exporter."
        ),
    ] = None,
    every: Annotated[
        str,
        typer.Option("--every", metavar="TIME", help="The store is read at most so often, whatever asks."),
    ] = "30s",
    json: options.Json = False,
) -> None:
    """Tell Prometheus of hosts and incidents: served, in a file, or on standard output.

    deployments/grafana has a dashboard over these metrics, deployments/prometheus rules for alerts.
    """
    if listen is not None and textfile is not None:
        raise UsageError("--listen and --textfile exclude each other: give one")
    settings = load_settings()
    place = store or settings.store
    fixed = {"budget": _budget(settings), "forget_s": parse_duration(settings.fleet.forget_after)}
    if listen is not None:
        _serve(place, listen if ":" in listen else f"127.0.0.1:{listen}", every, fixed, json)
        return
    from tasks.exporting import export_prometheus

    with progress("Reading the store"):
        done = export_prometheus(place, textfile=str(textfile) if textfile is not None else None, **fixed)
    text = done.pop("text", None)
    if text is None:
        text = f"{done['series']} series of {done['hosts']} hosts in {done['textfile']}\n"
    # Not by the console, which would read marks of its own out of what hosts are called.
    emit(done, as_json=json, text=lambda console: _write(console, text))


def _serve(place: str, listen: str, every: str, fixed: dict[str, float], json: bool) -> None:
    from tasks.exporting import serve_prometheus

    every_s = parse_duration(every)
    with progress("Reading the store"):
        done, server = serve_prometheus(place, listen=listen, every_s=every_s, **fixed)
    with signals() as asked:
        line = f"{done['series']} series of {done['hosts']} hosts at http://{done['listen']}/metrics\n"
        emit(done, as_json=json, text=lambda console: _write(console, line))
        asked.stop.wait()
        server.shutdown()
        server.server_close()


def _budget(settings: Settings) -> float:
    from reveal_core.profiles import load_profile

    return load_profile(settings.method.profile, settings.method.overrides).alarm_budget


def _write(console: Console, text: str) -> None:
    console.file.write(text)


def otlp(
    store: options.Store = None,
    host: options.Hosts = "*",
    start: options.Start = None,
    end: Annotated[
        str | None, typer.Option("--end", metavar="TIME", help="As --start.", show_default="now")
    ] = None,
    step: Step = "1m",
    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint",
            metavar="URL",
            help="Base address of a receiver: http://collector:4318.",
            show_default="OTEL_EXPORTER_OTLP_ENDPOINT",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the requests into a file, one a line."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Send incidents as OTLP logs and scores of hosts as OTLP metrics, or write them into a file.

    Headers with secrets come from OTEL_EXPORTER_OTLP_HEADERS, as the specification has it; so do the timeout,
    compression and certificates.
    """
    from tasks.otlp_exporting import export_otlp

    place = store or load_settings().store
    with progress(f"Exporting to {out or endpoint or 'the receiver'}"):
        done = export_otlp(
            place,
            host=host,
            start=start,
            end=end,
            step_s=parse_duration(step),
            endpoint=endpoint,
            out=str(out) if out is not None else None,
            variables=dict(os.environ),
        )
    emit(done, as_json=json, text=lambda console: _write(console, _sent(done)))


def _sent(done: dict[str, Any]) -> str:
    lines = [
        f"{done['logs']} log records and {done['points']} data points of {done['hosts']} hosts, from "
        f"{done['start']} to {done['end']}, in {done['requests']} requests to {done['to']}"
    ]
    if done["rejected"]:
        lines.append(f"The receiver left out {done['rejected']} of them")
    lines += [f"It says: {text}" for text in done["said"]]
    return "\n".join(lines) + "\n"
