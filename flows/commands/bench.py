"""``reveal bench``: what Reveal costs on this machine."""

from __future__ import annotations

import tempfile
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from flows import options
from flows.output import emit, progress
from reveal_core.timespec import parse_duration


def collector(
    duration: Annotated[
        str, typer.Option("--duration", metavar="TIME", help="How long each is watched.")
    ] = "60s",
    workload: Annotated[
        bool, typer.Option("--workload/--no-workload", help="Run the lab's workload meanwhile.")
    ] = True,
    peers: Annotated[
        bool, typer.Option("--peers/--no-peers", help="Measure node_exporter and Netdata too.")
    ] = True,
    json: options.Json = False,
) -> None:
    """Measure what the collector costs at 100 ms, 600 ms and adaptively, beside node_exporter and Netdata."""
    seconds = parse_duration(duration)
    with progress("Measuring the collector") as say:
        from tasks.benching import bench_collector

        found = bench_collector(
            seconds, workload=workload, peers=peers, folder=tempfile.gettempdir(), say=say
        )
    emit(found, as_json=json, text=lambda console: _show(console, found))


Hour = Annotated[str, typer.Option("--duration", metavar="TIME", help="Length of the telemetry, at 10 Hz.")]
Channels = Annotated[int, typer.Option("--channels", min=10, help="Channels of the host.")]


def features(
    duration: Hour = "1h",
    channels: Channels = 700,
    peers: Annotated[bool, typer.Option("--peers/--no-peers", help="Measure pandas and tsfresh too.")] = True,
    json: options.Json = False,
) -> None:
    """Measure the statistics of windows of an hour, beside pandas and tsfresh."""
    seconds = parse_duration(duration)
    with progress("Measuring features") as say:
        from tasks.benching_method import bench_features

        found = bench_features(seconds, channels, peers=peers, say=say)
    emit(found, as_json=json, text=lambda console: _show_features(console, found))


def scoring(duration: Hour = "1h", channels: Channels = 700, json: options.Json = False) -> None:
    """Measure scoring from the store to attributed incidents, on one core."""
    seconds = parse_duration(duration)
    with progress("Measuring scoring") as say:
        from tasks.benching_method import bench_scoring

        found = bench_scoring(seconds, channels, folder=tempfile.gettempdir(), say=say)
    emit(found, as_json=json, text=lambda console: _show_scoring(console, found))


def _show_features(console: Console, found: dict[str, Any]) -> None:
    console.print(
        f"{found['rows']} rows of {found['channels']} channels to six statistics of {found['windows']} "
        f"windows: {found['seconds']:.2f} s, {found['peak_mib']:.0f} MiB "
        f"({found['input_mib']:.0f} of them the input), {found['cores']} cores"
    )
    for name in ("pandas", "tsfresh"):
        if f"{name}_ratio" in found:
            took, ratio = found[f"{name}_seconds"], found[f"{name}_ratio"]
            console.print(f"  {name} needs {took:.1f} s, {ratio:.1f} times as long")
    for note in found["notes"]:
        console.print(note, markup=False)


def _show_scoring(console: Console, found: dict[str, Any]) -> None:
    console.print(
        f"{found['rows']} rows of {found['channels']} channels, {found['features']} features, on one core: "
        f"{found['score_seconds']:.2f} s from the store to {found['incidents']} attributed incidents "
        f"(reading {found['read_seconds']:.2f} s), {found['peak_mib']:.0f} MiB"
    )
    console.print(
        f"The newest minute: {found['newest_seconds']:.2f} s to its incident in the store, "
        f"{found['publish_seconds']:.2f} s more to a report"
    )


def _show(console: Console, found: dict[str, Any]) -> None:
    machine = found["machine"]
    under = "under the lab's workload" if found["workload"] else "idle but for what runs anyway"
    console.print(
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, Linux {machine['kernel']}, {under}; "
        f"{found['seconds']:g} s each"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in (
        "collector",
        "channels",
        "% of a core",
        "µs CPU/sample",
        "B/sample",
        "MiB",
        "late ticks",
        "start, ms",
    ):
        table.add_column(column, justify="left" if column == "collector" else "right")
    for pace, cost in found["collector"].items():
        table.add_row(
            f"reveal {pace}",
            str(cost["channels"]),
            f"{cost['cpu_percent_of_a_core']:.2f}",
            f"{cost['cpu_us_per_sample']:.2f}",
            f"{cost['bytes_per_sample']:.2f}",
            f"{cost['resident_mib']:.0f}",
            f"{cost['late_ticks']} of {cost['ticks']}",
            str(cost["start_cpu_ms"]),
        )
    for name, every in (("node_exporter", "100ms"), ("netdata", "1s")):
        if name in found:
            cost = found[name]
            ratio = found[f"{name}_cpu_per_sample_ratio"]
            table.add_row(
                f"{name} {every}",
                str(cost["metrics"]),
                f"{cost['cpu_percent_of_a_core']:.2f}",
                f"{cost['cpu_us_per_sample']:.2f} ({ratio:.1f} x)",
                "",
                f"{cost['resident_mib']:.0f}",
                "",
                "",
            )
    console.print(table)
    wide = found["wide_host"]
    console.print(
        f"A host of {wide['cpus']} CPUs and {wide['interrupt_lines']} interrupt lines, {wide['channels']} "
        f"channels: a tick takes {wide['tick_cpu_ms_median']:.0f} ms of CPU, "
        f"at most {wide['tick_cpu_ms_max']:.0f}"
    )
    for note in found["notes"]:
        console.print(note, markup=False)
