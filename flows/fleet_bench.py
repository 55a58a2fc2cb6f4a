"""The bench of a fleet: simulate it, learn from a part, and measure one scheduled run over all of it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flows.environment import prepare_environment
from flows.settings import load_settings
from reveal_core.lab.fleet import FleetPlan
from reveal_core.lab.fleet_classes import DEFAULT_CLASSES, HostClass, parse_classes
from tasks.benching_apart import environment, forget_results, remove_store, s3_store, watched
from tasks.benching_fleet import (
    StageClock,
    host_parts,
    judged,
    question,
    slope,
    stage_percent,
)
from tasks.planning import classify_hosts, plan_hosts
from tasks.pool import cores
from tasks.runner import DirectRunner
from tasks.simulating import Recording, simulate_fleet

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
HISTORY_S, HISTORY_HOSTS = 600.0, 3
"""Healthy telemetry that a model is learned from, before what is scored, of so many hosts of each class."""
QUESTION = ("2026-01-05T11:54:00Z", "2026-01-05T12:04:00Z")
"""Ten minutes about which one of these hosts is asked, its history and what came after."""
HOURS_BEFORE = 23
"""With the hour of the history, a day."""
SERVER_S = 120.0
"""Longest time that a Prefect server may take to answer."""


@dataclass(frozen=True)
class BenchPlan:
    """What is measured.

    Attributes
    ----------
    sizes
        Numbers of hosts, ascending.
    seconds, classes, channels, faulty, distinct, seed
        As in `reveal_core.lab.fleet.FleetPlan`.
    day
        Whether the store has the hours of a day before, with little in each: lists of files are then as long
        as in a store of a day.
    prefect
        Whether the run is done as a Prefect flow too, on a server on loopback.
    s3
        Whether the store is on an S3 server on loopback.
    recording
        What hosts are made from; a made-up host if None.
    """

    sizes: tuple[int, ...]
    seconds: float = 300.0
    classes: tuple[HostClass, ...] = parse_classes(DEFAULT_CLASSES)
    channels: int = 700
    faulty: float = 0.05
    distinct: int = 24
    seed: int = 0
    day: bool = True
    prefect: bool = True
    s3: bool = False
    recording: Recording | None = None

    def fleet(self, hosts: int) -> FleetPlan:
        """Return the fleet of a size."""
        return FleetPlan(
            hosts=hosts,
            start=START,
            seconds=self.seconds,
            classes=self.classes,
            faulty=self.faulty,
            seed=self.seed,
            channels=self.channels,
            history_s=HISTORY_S,
            history_hosts=min(HISTORY_HOSTS, max(1, hosts // len(self.classes) // 2)),
            distinct=self.distinct,
        )


def bench_fleet(
    plan: BenchPlan, *, folder: str, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Measure a run of ``score-fleet`` over fleets of several sizes.

    Parameters
    ----------
    plan
        What is measured.
    folder
        For stores and what belongs to them; emptied after.
    say
        Told what is going on.

    Returns
    -------
    dict
        ``cores``, ``duration_seconds``, ``channels``, ``store`` (``folder`` or ``s3``), ``day``, ``donor``
        (host, None for a made-up one), ``slope`` (power of the number of hosts that time grows with, None for
        one size), ``notes``, and ``sizes``, for each:

        ``hosts``; ``seconds`` of the run by the direct runner, in a process of its own that has imported the
        pipeline but not what its stages import; ``hosts_per_second``; ``peak_mib``, the resident memory of
        that process and all below it; ``stage_seconds`` and ``stage_percent``; ``parts_ms`` and
        ``model_load_ms``, measured after it on single hosts; ``flow_seconds`` and ``prefect_share_percent``,
        what the run takes more as a flow, in percent of that (None without Prefect); ``incidents``,
        ``planted``, ``found_percent``, ``struck_hosts`` and ``false_hosts``; ``question_seconds``,
        ``question_mib_read``, ``question_listings`` and ``question_rows``: ten minutes of one host;
        ``simulated_mib`` and ``simulate_seconds``.
    """
    sizes: list[dict[str, Any]] = []
    notes: dict[str, None] = {}
    donor = None
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=folder)))
        place = stack.enter_context(s3_store()) if plan.s3 else str(scratch / "store")
        for hosts in plan.sizes:
            made, size = _measure(plan, hosts, place, scratch, say)
            sizes.append(size)
            notes |= dict.fromkeys(made["notes"])
            donor = made["donor"]["host"] if made["donor"]["store"] else None
            remove_store(place)
    return {
        "cores": cores(),
        "duration_seconds": plan.seconds,
        "channels": plan.channels,
        "store": "s3" if plan.s3 else "folder",
        "day": plan.day,
        "donor": donor,
        "sizes": sizes,
        "slope": slope([size["hosts"] for size in sizes], [size["seconds"] for size in sizes]),
        "notes": list(notes),
    }


def _measure(
    plan: BenchPlan, hosts: int, place: str, scratch: Path, say: Callable[[str], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what was simulated, and what was measured on it."""
    fleet = plan.fleet(hosts)
    work = Path(tempfile.mkdtemp(prefix=f"{hosts}-", dir=scratch))
    tracking = tracking_in(work)
    say(f"Simulating {hosts} hosts")
    made, _ = watched(_simulated, place, fleet, plan.recording, HOURS_BEFORE if plan.day else 0)
    say(f"{hosts} hosts: learning")
    learned = f"*-000[0-{fleet.history_hosts - 1}]"
    watched(_learned, place, tracking, learned, made["history_start"], made["start"])
    say(f"{hosts} hosts: scoring")
    run, peak = watched(_scored, place, tracking, made["start"], made["end"])
    figures = judged(place, made["faults"], made["start"], made["end"])
    say(f"{hosts} hosts: timing single hosts")
    parts, _ = watched(_parts, place, tracking, made["start"], made["end"])
    flow_seconds = share = None
    if plan.prefect:
        say(f"{hosts} hosts: scoring as a flow")
        forget_results(place)
        with prefect_server(work):
            flow_seconds, _ = watched(_scored_as_flow, place, tracking, made["start"], made["end"])
        share = round(100 * (flow_seconds - run["seconds"]) / flow_seconds, 1)
    say(f"{hosts} hosts: asking about one")
    name = fleet.classes[0].name
    asked, _ = watched(question, place, f"{name}-0000", f"{name}-0001", *QUESTION)
    shutil.rmtree(work)
    return made, {
        "hosts": hosts,
        "seconds": round(run["seconds"], 2),
        "hosts_per_second": round(hosts / run["seconds"], 2),
        "peak_mib": peak,
        "stage_seconds": {name: round(seconds, 2) for name, seconds in run["stages"].items()},
        "stage_percent": stage_percent(run["stages"], parts["parts_ms"]),
        **parts,
        "flow_seconds": round(flow_seconds, 2) if flow_seconds is not None else None,
        "prefect_share_percent": share,
        **figures,
        **asked,
        "simulated_mib": round(made["bytes"] / 2**20, 1),
        "simulate_seconds": made["seconds"],
    }


def tracking_in(folder: Path) -> str:
    """Return the address of an MLflow database of the bench's own."""
    return f"sqlite:///{folder / 'mlflow.db'}"


def _simulated(
    place: str, fleet: FleetPlan, recording: Recording | None, hours_before: int
) -> dict[str, Any]:
    return simulate_fleet(place, fleet, recording=recording, hours_before=hours_before)


def _learned(place: str, tracking: str, hosts: str, start: str, end: str) -> int:
    """Fit a model of each class; return how many."""
    prepare_environment()
    from flows.pipelines import fit_detectors

    settings = load_settings()
    models = fit_detectors(
        DirectRunner(),
        store=place,
        tracking_uri=tracking,
        host=hosts,
        start=start,
        end=end,
        profile=settings.method.profile,
        overrides=settings.method.overrides,
        seed=settings.method.seed,
        promote=False,
    )
    return len(models)


def _scored(place: str, tracking: str, start: str, end: str) -> dict[str, Any]:
    """Score the fleet by the direct runner; return the seconds of the run and of its stages."""
    prepare_environment()
    from flows.pipelines import score_fleet

    clock = StageClock(DirectRunner(workers=load_settings().fleet.workers or cores()))
    begun = time.perf_counter()
    score_fleet(clock, **_arguments(place, tracking, start, end))
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "stages": {**clock.seconds, "other": seconds - sum(clock.seconds.values())}}


def _scored_as_flow(place: str, tracking: str, start: str, end: str) -> float:
    """Score the fleet as a flow on the server of this process's settings; return the seconds of the run."""
    prepare_environment()
    from flows import prefect_flows

    begun = time.perf_counter()
    prefect_flows.score_fleet(**_arguments(place, tracking, start, end))
    seconds = time.perf_counter() - begun
    prefect_flows.drain()
    return seconds


def _arguments(place: str, tracking: str, start: str, end: str) -> dict[str, Any]:
    return {
        "store": place,
        "tracking_uri": tracking,
        "host": "*",
        "start": start,
        "end": end,
        "model": None,
        "hosts_per_task": load_settings().fleet.hosts_per_task,
    }


def _parts(place: str, tracking: str, start: str, end: str) -> dict[str, Any]:
    """Time the parts of scoring on some of the hosts."""
    prepare_environment()
    plans = plan_hosts(place, host="*", start=start, end=end)
    return host_parts(place, tracking, classify_hosts(place, plans=plans))


@contextmanager
def prefect_server(folder: Path) -> Iterator[None]:
    """Run a Prefect server on loopback that this process and its children use meanwhile.

    Raises
    ------
    UnavailableError
        If it ends, or does not answer in time.
    """
    from flows.demo_parts import answers, start_prefect
    from reveal_core.errors import UnavailableError

    # The server's start sets where Prefect keeps its files: that is undone with the rest.
    with environment({"PREFECT_HOME": str(folder / "prefect"), "PREFECT_API_URL": None}):
        server, api = start_prefect(folder)
        try:
            until = time.monotonic() + SERVER_S
            while not answers(f"{api}/health"):
                server.check()
                if time.monotonic() > until:
                    raise UnavailableError(f"the Prefect server at {api} does not answer")
                time.sleep(0.2)
            with environment({"PREFECT_API_URL": api}):
                yield
        finally:
            server.stop()
