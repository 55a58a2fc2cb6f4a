"""``reveal collect``: the agent."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from flows import options
from flows.dispatch import as_flow, run_pipeline
from flows.output import emit, human_bytes, progress
from flows.settings import load_settings
from reveal_core.timespec import parse_duration


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
        str | None, typer.Option("--interval", metavar="TIME", help="Between samples.", show_default="100ms")
    ] = None,
    segment: Annotated[
        str | None, typer.Option("--segment", metavar="TIME", help="Length of a file.", show_default="60s")
    ] = None,
    root: Annotated[
        Path | None, typer.Option("--root", metavar="DIR", help="Where /proc and /sys are.", show_default="/")
    ] = None,
    flow: options.Flow = None,
    json: options.Json = False,
) -> None:
    """Sample this machine's hardware signals into the store, until the time is over or Ctrl-C."""
    settings = load_settings()
    place = store or settings.store
    label = host or settings.collect.host
    every, length = interval or settings.collect.interval, segment or settings.collect.segment
    base = str(root or settings.collect.root)
    interval_s, segment_s = parse_duration(every), parse_duration(length)
    duration_s = parse_duration(duration) if duration else None
    title = f"Collecting for {duration}" if duration else "Collecting until Ctrl-C"
    if as_flow(flow):
        result = run_pipeline(
            "collect_telemetry",
            title,
            flow=True,
            store=place,
            host=label,
            interval=every,
            duration=duration,
            segment=length,
            root=base,
        )
    else:
        from tasks.collecting import collect as collect_stage

        with progress(title) as say, stop_on_signal() as stop:
            result = collect_stage(
                place,
                host=label,
                interval_s=interval_s,
                duration_s=duration_s,
                segment_s=segment_s,
                root=base,
                stop=stop,
                on_stored=lambda key, size: say(f"{title}: {key.rpartition('/')[2]} ({human_bytes(size)})"),
            )
    emit(result, as_json=json, text=lambda console: _show(console, result, place))


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """Yield an event that the first SIGINT or SIGTERM sets, for an end in good order; a second kills."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask_to_stop(number: int, _frame: Any) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    try:
        for number in before:
            signal.signal(number, ask_to_stop)
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(console: Console, result: dict[str, Any], place: str) -> None:
    console.print(
        f"{result['host']}: {result['ticks']} samples of {result['channels']} channels in "
        f"{len(result['segments'])} segments ({human_bytes(result['bytes'])}) put into {place}"
    )
    console.print(
        f"{result['late_ticks']} ticks late, {result['lost_ticks']} lost; "
        f"{result['cpu_seconds']:.1f} s of CPU, {human_bytes(result['rss_bytes'])} of memory"
    )
