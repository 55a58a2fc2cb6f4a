"""The features stage: what detectors would see of some hosts, without fitting any."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reveal_core.errors import UnavailableError
from tasks.planning import plan_hosts, read_host

if TYPE_CHECKING:
    import polars as pl

    from reveal_core.windows import Windows


def compute_features(
    store: str,
    *,
    host: str,
    start: str | None,
    end: str | None,
    profile: str,
    overrides: Mapping[str, Any],
    out: str | None,
) -> dict[str, Any]:
    """Computing features.

    Parameters
    ----------
    store, host, start, end
        As `tasks.planning.plan_hosts`.
    profile, overrides
        Method settings.
    out
        Parquet file for ``host``, ``start``, ``end``, ``coverage`` and the kept features of every window;
        None for none.

    Returns
    -------
    dict
        ``hosts``, ``windows``, ``features`` (kept), ``pruned``, ``seconds`` (of computing, without reading).

    Raises
    ------
    UsageError
        If there is no telemetry.
    UnavailableError
        If the store cannot be reached or the file cannot be written.
    """
    import numpy as np

    from reveal_core.features.pruning import prune
    from reveal_core.method import build_series, build_windows
    from reveal_core.profiles import load_profile
    from reveal_core.selection import matrix, may_wake, select
    from reveal_core.timespec import parse_time
    from storage.store import Store

    settings = load_profile(profile, overrides)
    source = Store(store)
    windows: list[Windows] = []
    seconds = 0.0
    plans = plan_hosts(store, host=host, start=start, end=end)
    for plan in plans:
        telemetry = read_host(source, plan, warm_up=True).telemetry
        began = time.perf_counter()
        series = build_series(telemetry)
        windows.append(build_windows(series, settings, parse_time(plan["start"]), parse_time(plan["end"])))
        seconds += time.perf_counter() - began
    began = time.perf_counter()
    by_name = {feature.name: feature for host_windows in windows for feature in host_windows.features}
    features = select(list(by_name.values()), settings.exclude)
    raw = np.vstack([matrix(host_windows.frame, features) for host_windows in windows])
    events = np.array([settings.keep_events and may_wake(feature) for feature in features])
    pruned = prune(raw, features, events, settings.correlation)
    kept = [features[index].name for index in pruned.kept]
    seconds += time.perf_counter() - began
    if out is not None:
        _write(_table(windows, kept), Path(out))
    return {
        "hosts": [plan["host"] for plan in plans],
        "windows": len(raw),
        "features": len(kept),
        "pruned": len(features) - len(kept),
        "seconds": seconds,
    }


def _table(windows: Sequence[Windows], kept: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    frames = []
    for host_windows in windows:
        held = set(host_windows.frame.columns)
        have = [name for name in kept if name in held]
        frames.append(
            host_windows.frame.select(
                pl.lit(host_windows.host).alias("host"), "start", "end", "coverage", *have
            )
        )
    return pl.concat(frames, how="diagonal")


def _write(table: pl.DataFrame, path: Path) -> None:
    """Write a file that is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        table.write_parquet(temporary)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UnavailableError(f"{path} cannot be written: {error.strerror or error}") from error
