"""``reveal lab fleet`` and ``reveal bench fleet``: many hosts that do not exist."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from flows import options
from flows.output import emit, human_bytes, progress
from reveal_core.errors import UsageError
from reveal_core.timespec import parse_duration, parse_time

Seconds = Annotated[str, typer.Option("--duration", metavar="TIME", help="Length of each host's telemetry.")]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="LIST",
        help="Hardware classes: vendor (amd, intel, arm) and cores.",
        show_default="amd16,intel32,amd48",
    ),
]
Faulty = Annotated[
    float, typer.Option("--faulty", min=0.0, max=1.0, metavar="SHARE", help="Share of hosts with a fault.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of everything random.")]
Channels = Annotated[
    int, typer.Option("--channels", min=10, metavar="N", help="Channels of a host, at most.")
]
Donor = Annotated[
    str | None,
    typer.Option(
        "--donor",
        metavar="URL",
        help="Store with a healthy recording that hosts are made from.",
        show_default="a made-up host",
    ),
]
DonorHost = Annotated[str, typer.Option("--donor-host", metavar="GLOB", help="The recording's host.")]
DonorStart = Annotated[
    str | None,
    typer.Option(
        "--donor-start",
        metavar="TIME",
        help="Where the recording begins.",
        show_default="ten minutes before its end",
    ),
]
DonorEnd = Annotated[
    str | None,
    typer.Option(
        "--donor-end", metavar="TIME", help="Where the recording ends.", show_default="the newest sample"
    ),
]
Distinct = Annotated[
    int,
    typer.Option(
        "--distinct",
        min=1,
        metavar="N",
        help="Healthy hosts of a class with values of their own; others copy.",
    ),
]
FEWEST, MOST = 6, 9999
"""Hosts that the bench can measure: of each of three classes one to learn from and one for a fault."""
DONOR_OPTIONS = ("donor_host", "donor_start", "donor_end")


def simulate(
    context: typer.Context,
    hosts: Annotated[int, typer.Option("--hosts", min=1, metavar="N", help="How many.")] = 100,
    duration: Seconds = "5m",
    store: options.Store = None,
    classes: Classes = None,
    faulty: Faulty = 0.05,
    history: Annotated[
        str | None,
        typer.Option(
            "--history",
            metavar="TIME",
            help="Telemetry before that, of a few healthy hosts of each class, to learn from.",
            show_default="none",
        ),
    ] = None,
    history_hosts: Annotated[
        int, typer.Option("--history-hosts", min=1, metavar="N", help="Hosts of each class that have it.")
    ] = 3,
    end: Annotated[
        str,
        typer.Option("--end", metavar="TIME", help="When the telemetry ends: ISO 8601, relative, or 'now'."),
    ] = "now",
    donor: Donor = None,
    donor_host: DonorHost = "*",
    donor_start: DonorStart = None,
    donor_end: DonorEnd = None,
    channels: Channels = 700,
    segment: Annotated[str, typer.Option("--segment", metavar="TIME", help="Length of a segment.")] = "60s",
    distinct: Distinct = 24,
    seed: Seed = 0,
    truth: Annotated[
        Path | None,
        typer.Option("--truth", metavar="FILE", help="Write the faults to a file, as --faults takes it."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Write telemetry of many hosts into a store, made from a recording of one; some have a known fault."""
    from flows.settings import load_settings
    from reveal_core.lab.fleet import FleetPlan
    from reveal_core.lab.fleet_classes import DEFAULT_CLASSES, parse_classes
    from tasks.simulating import Recording, simulate_fleet

    if donor is None:
        options.refuse(context, DONOR_OPTIONS, "there is no recording without --donor")
    if history is None:
        options.refuse(context, ("history_hosts",), "there is no history without --history")
    seconds = parse_duration(duration)
    last = parse_time(end)
    plan = FleetPlan(
        hosts=hosts,
        start=(last - timedelta(seconds=seconds)).replace(microsecond=0),
        seconds=seconds,
        classes=parse_classes(classes or DEFAULT_CLASSES),
        faulty=faulty,
        seed=seed,
        channels=channels,
        segment_s=parse_duration(segment),
        history_s=parse_duration(history) if history else 0.0,
        history_hosts=history_hosts,
        distinct=distinct,
    )
    recording = Recording(donor, donor_host, donor_start, donor_end) if donor is not None else None
    with progress("Simulating") as say:
        found = simulate_fleet(
            store or load_settings().store, plan, recording=recording, truth=truth, say=say
        )
    emit(found, as_json=json, text=lambda console: _show_fleet(console, found))


def _show_fleet(console: Console, found: dict[str, Any]) -> None:
    console.print(
        f"{found['hosts']} hosts from {found['start']} to {found['end']} in {found['store']}: "
        f"{found['segments']} segments, {human_bytes(found['bytes'])}, in {found['seconds']:.0f} s",
        markup=False,
    )
    for one in found["classes"]:
        console.print(f"  {one['hosts']:>5} of {one['class']}, {one['channels']} channels", markup=False)
    if found["history_start"]:
        console.print(f"to learn from: {found['history_start']} to {found['start']}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("fault", "host", "from", "to"):
        table.add_column(column)
    for fault in found["faults"]:
        table.add_row(fault["name"], fault["host"], fault["start"], fault["end"])
    if found["faults"]:
        console.print(table)
    for note in found["notes"]:
        console.print(note, markup=False)


def parse_sizes(text: str) -> list[int]:
    """Return the numbers of hosts that a list such as ``100,300,1000`` names, ascending.

    Raises
    ------
    UsageError
        If one is no number of `FEWEST` to `MOST` hosts, or comes twice.
    """
    parts = [part.strip() for part in text.split(",")]
    bad = [part for part in parts if not part.isdecimal() or not FEWEST <= int(part) <= MOST]
    if bad:
        raise UsageError(f"--hosts {text!r}: {bad[0]!r} is no number of hosts: {FEWEST} to {MOST}")
    sizes = sorted(int(part) for part in parts)
    if len(set(sizes)) < len(sizes):
        raise UsageError(f"--hosts {text!r}: a number comes twice")
    return sizes


def bench(
    context: typer.Context,
    hosts: Annotated[
        str, typer.Option("--hosts", metavar="LIST", help="Sizes of the fleet, one after another.")
    ] = "100,300,1000",
    duration: Seconds = "5m",
    channels: Channels = 700,
    faulty: Faulty = 0.05,
    day: Annotated[
        bool, typer.Option("--day/--no-day", help="Have a day of hours before in the store, almost empty.")
    ] = True,
    prefect: Annotated[
        bool, typer.Option("--prefect/--no-prefect", help="Score as a Prefect flow too, for Prefect's share.")
    ] = True,
    s3: Annotated[
        bool, typer.Option("--s3", help="On an S3 server on loopback (moto), not in a folder.")
    ] = False,
    donor: Donor = None,
    donor_host: DonorHost = "*",
    donor_start: DonorStart = None,
    donor_end: DonorEnd = None,
    distinct: Distinct = 24,
    seed: Seed = 0,
    json: options.Json = False,
) -> None:
    """Measure what a scheduled run over a simulated fleet takes, from its store to the report."""
    from flows.fleet_bench import BenchPlan, bench_fleet
    from tasks.simulating import Recording

    if donor is None:
        options.refuse(context, DONOR_OPTIONS, "there is no recording without --donor")
    plan = BenchPlan(
        sizes=tuple(parse_sizes(hosts)),
        seconds=parse_duration(duration),
        channels=channels,
        faulty=faulty,
        distinct=distinct,
        seed=seed,
        day=day,
        prefect=prefect,
        s3=s3,
        recording=Recording(donor, donor_host, donor_start, donor_end) if donor is not None else None,
    )
    with progress("Measuring a fleet") as say:
        found = bench_fleet(plan, folder=tempfile.gettempdir(), say=say)
    emit(found, as_json=json, text=lambda console: _show_bench(console, found))


def _show_bench(console: Console, found: dict[str, Any]) -> None:
    console.print(
        f"{found['duration_seconds']:g} s of hosts with {found['channels']} channels, "
        f"{found['cores']} cores, store {found['store']}"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    columns = {
        "hosts": "{hosts}",
        "s": "{seconds:.1f}",
        "hosts/s": "{hosts_per_second:.2f}",
        "MiB": "{peak_mib:.0f}",
        "Prefect, %": "{prefect_share_percent}",
        "incidents": "{incidents}",
        "found, %": "{found_percent}",
        "question, s": "{question_seconds:.2f}",
        "MiB read": "{question_mib_read:.2f}",
    }
    for column in columns:
        table.add_column(column, justify="right")
    for size in found["sizes"]:
        known = {key: "-" if value is None else value for key, value in size.items()}
        table.add_row(*(cell.format(**known) for cell in columns.values()))
    console.print(table)
    for size in found["sizes"]:
        shares = ", ".join(f"{name} {share:.0f} %" for name, share in size["stage_percent"].items())
        console.print(f"{size['hosts']} hosts: {shares}")
    if found["slope"] is not None:
        console.print(f"Time grows with hosts to the power of {found['slope']:.2f}")
    for note in found["notes"]:
        console.print(note, markup=False)
