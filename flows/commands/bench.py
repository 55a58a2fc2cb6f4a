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
