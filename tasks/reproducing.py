"""The publication's claims beside what is measured here, each by a command of its own or by this one."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from reveal_core.errors import UsageError

if TYPE_CHECKING:
    from reveal_core.telemetry import Telemetry
    from storage.store import Store

Say = Callable[[str], None]

GROUPS = {
    "collector": ("cpu-100ms", "cpu-600ms"),
    "recording": (
        "channels",
        "metrics",
        "bytes-before",
        "bytes-after",
        "kept",
        "stable",
        "overlap",
        "hit-rate",
    ),
    "speed": ("features", "end-to-end"),
    "cases": ("cases",),
}
"""What is measured together, and the claims that it answers."""
SETTLE_S = 20.0
"""What a workload needs to come to rest before its run counts."""
LEAST_RUN_S = 40.0
"""A model needs thirty windows, of 5 s too."""
HOUR_S, CHANNELS = 3600.0, 700
COLLECTED_S = 60.0


def reproduce(
    folder: Path,
    *,
    runs: int,
    run_s: float,
    only: Collection[str] = (),
    store: str | None = None,
    seed: int = 0,
    say: Say = lambda _: None,
) -> list[dict[str, str]]:
    """Measure what the publication claims.

    Parameters
    ----------
    folder
        For the recording; a store is made in it.
    runs, run_s
        How often each workload is recorded, and for how long, s.
    only
        Names of `GROUPS`; all if none is given.
    store
        A recording that was made before, in place of a new one.
    seed
        Of workloads and fits.
    say
        Told what is going on.

    Returns
    -------
    list of dict
        ``claim``, ``paper``, ``here`` (``not measured`` where it was not asked for) and ``how``, in the order
        of the claims.

    Raises
    ------
    UsageError
        If a group is not known, runs are too few or too short, or the recording holds too little.
    UnavailableError
        If something cannot be run on this machine.
    """
    from reveal_core.evaluate.claims import CLAIMS

    unknown = sorted(set(only) - set(GROUPS))
    if unknown:
        raise UsageError(f"--only {unknown[0]}: choose from {', '.join(GROUPS)}")
    if runs < 2:
        raise UsageError("--runs must be 2 at least: runs are compared with each other")
    chosen = [name for name in GROUPS if not only or name in only]
    if "recording" in chosen and store is None and run_s < LEAST_RUN_S:
        raise UsageError(f"--run {run_s:g} s is too short: at least {LEAST_RUN_S:g} s, to learn from a run")
    here: dict[str, str] = {}
    if "recording" in chosen:
        here |= _recording(folder, runs, run_s, store, seed, say)
    if "cases" in chosen:
        here |= _cases(seed, say)
    if "speed" in chosen:
        here |= _speed(folder, say)
    if "collector" in chosen:
        here |= _collector(folder, say)
    measured = {claim for name in GROUPS for claim in GROUPS[name]}
    return [
        {
            "claim": claim.claim,
            "paper": claim.paper,
            "here": here.get(claim.id, "not measured" if claim.id in measured else "-"),
            "how": claim.how,
        }
        for claim in CLAIMS
    ]


def record_runs(store: str, folder: Path, *, runs: int, run_s: float, seed: int, say: Say) -> None:
    """Record each workload of the lab several times, as hosts named after workload and run."""
    from reveal_core.lab.variants import VARIANTS
    from reveal_core.lab.workload import Workload
    from tasks.collecting import collect_apart

    for variant in VARIANTS:
        for number in range(1, runs + 1):
            say(f"recording {variant.name}, run {number} of {runs}")
            files = folder / "files" / f"{variant.name}-{number}"
            files.mkdir(parents=True, exist_ok=True)
            with Workload(files, seed=seed + number, variant=variant.name):
                time.sleep(SETTLE_S)
                collect_apart(
                    store,
                    host=f"{variant.name}-{number}",
                    interval="100ms",
                    duration=f"{run_s:g}s",
                    segment=f"{run_s + 1:g}s",
                )


def _recording(
    folder: Path, runs: int, run_s: float, store: str | None, seed: int, say: Say
) -> dict[str, str]:
    from dataclasses import replace

    from reveal_core.evaluate.claims import GRIDS, agreement, alike_pairs, kept_channels
    from reveal_core.method import build_series, build_windows
    from reveal_core.profiles import DEFAULT, PAPER
    from storage.store import Store

    place = store or str(folder / "store")
    if store is None:
        record_runs(place, folder, runs=runs, run_s=run_s, seed=seed, say=say)
    source = Store(place)
    recorded = _by_workload(source)
    say("comparing runs")
    first = next(iter(recorded.values()))[0]
    levels = replace(PAPER, statistics=("level",))
    kept = kept_channels(first, levels)
    alike, pairs = alike_pairs(
        {
            name: [
                build_windows(build_series(one), replace(DEFAULT, statistics=("level",))) for one in several
            ]
            for name, several in recorded.items()
        }
    )
    say("comparing windows of different lengths")
    pairs_of_runs = {
        f"{name}-{number}": pair
        for name, several in recorded.items()
        for number, pair in enumerate(pairwise(several))
    }
    grids = [replace(PAPER, window_s=window, stride_s=stride) for window, stride, _ in GRIDS]
    every = [number for _, _, number in GRIDS]
    fine, coarse = (one.words() for one in agreement(pairs_of_runs, grids, seed, every))
    before, after = _bytes_a_second(source, first, kept.kept)
    sampled = [channel for channel in first.channels.values() if channel.period_ms > 0]
    return {
        "channels": f"{len(sampled)}",
        "metrics": f"{len({channel.metric for channel in sampled})}",
        "bytes-before": f"{before / 1e3:.1f} KB/s",
        "bytes-after": f"{after / 1e3:.1f} KB/s",
        "kept": f"{100 * kept.share:.0f} % of {kept.moving} channels that move, {len(kept.kept)} channels",
        "stable": f"{100 * alike / pairs:.2f} % of {pairs} pairs, {runs_of(recorded)} runs each"
        if pairs
        else "-",
        "overlap": f"{fine[0]}; windows of 5 s: {coarse[0]}",
        "hit-rate": f"{fine[1]}; windows of 5 s: {coarse[1]}",
    }


def runs_of(recorded: dict[str, list[Telemetry]]) -> str:
    """Return how many runs each workload has, in words."""
    counts = sorted({len(several) for several in recorded.values()})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _by_workload(source: Store) -> dict[str, list[Telemetry]]:
    """Return the telemetry of each run, by workload: what a host is called before its last dash."""
    found: dict[str, list[Telemetry]] = {}
    for host in source.hosts():
        extent = source.extent(host)
        if extent is not None:
            workload = host.rpartition("-")[0] or host
            found.setdefault(workload, []).append(source.read_telemetry(host, *extent).telemetry)
    few = sorted(name for name, several in found.items() if len(several) < 2)
    if few or not found:
        what = f"{few[0]} has one run" if few else "it holds no telemetry"
        raise UsageError(
            f"store {source.url} is no recording of workloads: {what}, two at least are compared"
        )
    return found


def _bytes_a_second(source: Store, telemetry: Telemetry, kept: Sequence[str]) -> tuple[float, float]:
    """Return the size at rest of a second of a host's telemetry, of all channels and of those kept."""
    import io

    import pyarrow.parquet as pq

    from reveal_core.collect.segments import encode_table

    extent = source.extent(telemetry.host)
    if extent is None:
        raise UsageError(f"store {source.url} has lost the telemetry of {telemetry.host}")
    read = source.read_telemetry(telemetry.host, *extent)
    whole = part = 0
    for key in read.segments:
        data = source.backend.read(key) or b""
        table = pq.read_table(io.BytesIO(data))
        names = [name for name in table.column_names if name in {"ts", "mono", *kept}]
        whole += len(encode_table(table.column_names, list(table.columns), {}))
        part += len(encode_table(names, [table.column(name) for name in names], {}))
    seconds = (extent[1] - extent[0]).total_seconds()
    return whole / seconds, part / seconds


def _cases(seed: int, say: Say) -> dict[str, str]:
    from reveal_core.evaluate.published import judge_cases
    from reveal_core.profiles import DEFAULT

    say("judging the five case studies")
    judged = judge_cases(DEFAULT, seed)
    named = sum(case.cause_rank == 1 for case in judged)
    missed = [case.case.title for case in judged if case.cause_rank != 1]
    return {"cases": f"{named} of {len(judged)}" + (f"; not first: {', '.join(missed)}" if missed else "")}


def _speed(folder: Path, say: Say) -> dict[str, str]:
    from tasks.benching_method import bench_features, bench_scoring

    features = bench_features(HOUR_S, CHANNELS, peers=False, say=say)
    scoring = bench_scoring(HOUR_S, CHANNELS, folder=str(folder), say=say)
    return {
        "features": f"{features['seconds']:.2f} s",
        "end-to-end": f"{scoring['newest_seconds']:.2f} s",
    }


def _collector(folder: Path, say: Say) -> dict[str, str]:
    from tasks.benching import bench_collector

    found = bench_collector(COLLECTED_S, workload=True, peers=False, folder=str(folder), say=say)
    return {
        f"cpu-{pace}": f"{found['collector'][pace]['cpu_percent_of_a_core']:.2f} % of a core"
        for pace in ("100ms", "600ms")
    }
