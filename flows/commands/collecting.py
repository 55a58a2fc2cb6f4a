"""``reveal collect``: the agent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from flows import options
from flows.dispatch import as_flow, run_pipeline
from flows.output import emit, human_bytes, progress
from flows.settings import ADAPTIVE, Settings, load_settings
from flows.signals import signals
from reveal_core.errors import UsageError
from reveal_core.timespec import parse_duration

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CollectOptions:
    """What the command line says; None is left to the settings."""

    store: str | None
    host: str | None
    duration: str | None
    interval: str | None
    segment: str | None
    root: Path | None
    spool: Path | None
    metrics: str | None

    def arguments(self, settings: Settings) -> dict[str, Any]:
        """Return the arguments of the collecting stage, as options and settings say.

        Raises
        ------
        UsageError
            If a time is none.
        """
        chosen = settings.collect
        interval = self.interval or chosen.interval
        return {
            "store": self.store or settings.store,
            "host": self.host or chosen.host,
            "interval_s": None if interval == ADAPTIVE else parse_duration(interval),
            "duration_s": parse_duration(self.duration) if self.duration else None,
            "segment_s": parse_duration(self.segment or chosen.segment),
            "root": str(self.root or chosen.root),
            "spool": str(self.spool or chosen.spool_folder()),
            "spool_bytes": chosen.spool_mib << 20,
        }


def collect(
    store: options.Store = None,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="HOST", help="This host's label.", show_default="its host name"),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option("--duration", metavar="TIME", help="How long.", show_default="until interrupted"),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(
            "--interval", metavar="TIME", help="Between samples, or adaptive.", show_default="100ms"
        ),
    ] = None,
    segment: Annotated[
        str | None, typer.Option("--segment", metavar="TIME", help="Length of a file.", show_default="60s")
    ] = None,
    root: Annotated[
        Path | None, typer.Option("--root", metavar="DIR", help="Where /proc and /sys are.", show_default="/")
    ] = None,
    spool: Annotated[
        Path | None,
        typer.Option(
            "--spool",
            metavar="DIR",
            help="Keeps segments while a remote store is away.",
            show_default="~/.local/state/reveal/spool",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="HOST:PORT", help="Serve the agent's own health to Prometheus."),
    ] = None,
    flow: options.Flow = None,
    json: options.Json = False,
) -> None:
    """Sample this machine's hardware signals into the store, until the time is over or Ctrl-C.

    Without --duration it is an agent: SIGTERM ends it in good order, SIGHUP makes it read its settings anew.
    """
    settings = load_settings()
    chosen = CollectOptions(store, host, duration, interval, segment, root, spool, metrics)
    arguments = chosen.arguments(settings)
    title = f"Collecting for {duration}" if duration else "Collecting until Ctrl-C"
    if as_flow(flow):
        result = run_pipeline(
            "collect_telemetry",
            title,
            flow=True,
            store=arguments["store"],
            host=arguments["host"],
            interval=interval or settings.collect.interval,
            duration=duration,
            segment=segment or settings.collect.segment,
            root=arguments["root"],
        )
    else:
        with progress(title) as say:
            result = run_agent(
                chosen,
                settings,
                lambda key, size: say(f"{title}: {key.rpartition('/')[2]} ({human_bytes(size)})"),
            )
    emit(result, as_json=json, text=lambda console: _show(console, result, arguments["store"]))


def run_agent(
    chosen: CollectOptions, settings: Settings, on_stored: Callable[[str, int], None]
) -> dict[str, Any]:
    """Collect until the time is over or a signal says so; begin anew with new settings on SIGHUP.

    Returns
    -------
    dict
        Of the collecting stage; what is counted is counted over all settings.
    """
    from tasks.collecting import collect as collect_stage

    watch = None
    address = chosen.metrics or settings.collect.metrics
    if address:
        from tasks.health import AgentHealth

        health = AgentHealth()
        health.serve(address)
        watch = health.watch
    total: dict[str, Any] = {}
    with signals(reload=chosen.duration is None) as asked:
        while True:
            arguments = chosen.arguments(settings)
            result = collect_stage(**arguments, stop=asked.stop, on_stored=on_stored, watch=watch)
            for name in ("ticks", "late_ticks", "lost_ticks", "bytes", "cpu_seconds", "samples", "given_up"):
                result[name] += total.get(name, 0)
            result["segments"] = [*total.get("segments", []), *result["segments"]]
            total = result
            if not asked.reload:
                return total
            asked.again()
            try:
                fresh = load_settings()
                chosen.arguments(fresh)
            except UsageError as error:
                log.error("settings stay as they were: %s", error)
            else:
                settings = fresh


def _show(console: Console, result: dict[str, Any], place: str) -> None:
    console.print(
        f"{result['host']}: {result['ticks']} samples of {result['channels']} channels in "
        f"{len(result['segments'])} segments ({human_bytes(result['bytes'])}) put into {place}"
    )
    console.print(
        f"{result['late_ticks']} ticks late, {result['lost_ticks']} lost; "
        f"{result['cpu_seconds']:.1f} s of CPU, {human_bytes(result['rss_bytes'])} of memory"
    )
    if result["spooled"]:
        console.print(f"{result['spooled']} segments wait in the spool: the next run brings them away")
