"""What features and scoring cost on this machine, beside what others need for the same in the same run.

Each measurement has a process of its own: what it takes of memory is then its own peak.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.memory import peak_memory_bytes

if TYPE_CHECKING:
    from reveal_core.model import RevealModel
    from storage.store import Store

START = datetime(2026, 1, 5, tzinfo=UTC)
TRAINING_S = 600.0
FAULTS = ((300.0, 320.0), (1200.0, 1220.0), (2400.0, 2430.0))
NEWEST_S = 60.0
TSFRESH_COLUMNS, TSFRESH_S = 50, 60.0
"""Its time is taken on so many columns and so many seconds, and scaled: an hour would take it hours."""
REPEATS = 3


def apart(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Return what a function returns, called in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _peak_mib() -> float:
    return round(peak_memory_bytes() / 2**20, 1)


def _best(action: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the shortest time of some tries, s: what others do on the machine only ever adds."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        action()
        times.append(time.perf_counter() - begun)
    return min(times)


def _drawn(seconds: float, channels: int) -> np.ndarray:
    """Return samples, shape (10 · seconds, channels), in the column order of a frame."""
    rng = np.random.default_rng(0)
    return np.asfortranarray(rng.normal(100.0, 10.0, (round(10 * seconds), channels)))


def bench_features(
    seconds: float, channels: int, *, peers: bool, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Measure the window statistics of an hour or so, and what pandas and tsfresh need for the same.

    Parameters
    ----------
    seconds, channels
        Size of the input, at 10 Hz.
    peers
        Whether the others are measured too; one that is not installed is named in ``notes``.

    Returns
    -------
    dict
        ``rows``, ``channels``, ``windows``, ``seconds`` (shortest of three), ``cpu_seconds``,
        ``input_mib`` and ``peak_mib`` of the whole process, ``pandas_seconds``, ``pandas_ratio``,
        ``tsfresh_seconds`` (scaled) and ``tsfresh_ratio``.
    """
    say("Computing window statistics")
    found = {"cores": len(os.sched_getaffinity(0)), **apart(_features, seconds, channels), "notes": []}
    for name, measure in (("pandas", _pandas), ("tsfresh", _tsfresh)) if peers else ():
        say(f"Running {name}")
        try:
            found |= apart(measure, seconds, channels)
        except ImportError as error:
            found["notes"].append(f"{name} was not measured, it is not installed (pip install {error.name})")
            continue
        found[f"{name}_ratio"] = round(found[f"{name}_seconds"] / found["seconds"], 1)
    return found


def _features(seconds: float, channels: int) -> dict[str, Any]:
    import polars as pl

    from reveal_core.channels import Channel
    from reveal_core.features.windowing import STATISTICS, channel_windows
    from reveal_core.telemetry import Series

    values = _drawn(seconds, channels)
    names = [f"metric{i // 10}/{i % 10}" for i in range(channels)]
    table = {n: Channel(n, *n.split("/"), "cpu", "gauge", "", "bench", 100) for n in names}
    ns = round(START.timestamp()) * 10**9 + np.arange(len(values)) * 10**8
    time_column = pl.Series("ts", ns).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    columns = [pl.Series(name, values[:, index]) for index, name in enumerate(names)]
    series = Series("bench", pl.DataFrame([time_column, *columns]), table)
    input_mib = round(values.nbytes / 2**20, 1)
    del values, columns
    begun = time.process_time()
    windows = channel_windows(series, statistics=STATISTICS)
    cpu = time.process_time() - begun
    return {
        "rows": series.frame.height,
        "channels": channels,
        "windows": len(windows.start_ns),
        "seconds": round(_best(lambda: channel_windows(series, statistics=STATISTICS)), 3),
        "cpu_seconds": round(cpu, 3),
        "input_mib": input_mib,
        "peak_mib": _peak_mib(),
    }


def _pandas(seconds: float, channels: int) -> dict[str, Any]:
    """Time the same statistics by pandas, one value per second of a rolling window of 3 s.

    The slope from rolling means: (mean(tx) - mean(t) mean(x)) / var(t).
    """
    import pandas as pd

    frame = pd.DataFrame(_drawn(seconds, channels))
    t = pd.Series(np.arange(len(frame)) / 10.0)

    def rolling(values: Any) -> Any:
        return values.rolling(30, step=10)

    def compute() -> None:
        mean = rolling(frame).mean()
        rolling(frame).std(ddof=0)
        rolling(frame).min()
        rolling(frame).max()
        rolling(frame.diff().abs()).mean()
        with_time = rolling(frame.mul(t, axis=0)).mean()
        (with_time - mean.mul(rolling(t).mean(), axis=0)).div(rolling(t).var(ddof=0), axis=0)

    return {"pandas_seconds": round(_best(compute, 1), 3)}


def _tsfresh(seconds: float, channels: int) -> dict[str, Any]:
    """Time tsfresh's minimal set on some columns and windows, scaled to all of them."""
    import pandas as pd
    from tsfresh import extract_features
    from tsfresh.feature_extraction import MinimalFCParameters

    columns = min(TSFRESH_COLUMNS, channels)
    values = _drawn(min(TSFRESH_S, seconds), columns)
    count = len(values) // 10 - 2
    windows = [
        pd.DataFrame(values[10 * i : 10 * i + 30]).assign(window=i, sample=range(30)) for i in range(count)
    ]
    table = pd.concat(windows, ignore_index=True)

    def compute() -> None:
        extract_features(
            table,
            column_id="window",
            column_sort="sample",
            default_fc_parameters=MinimalFCParameters(),
            disable_progressbar=True,
            n_jobs=0,
        )

    scale = (channels / columns) * ((seconds - 2) / count)
    return {"tsfresh_seconds": round(_best(compute, 1) * scale, 1)}


def bench_scoring(
    seconds: float, channels: int, *, folder: str, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Measure scoring from the store, on one core.

    Parameters
    ----------
    seconds, channels
        Length of the stretch that is scored, and the host's channels, at 10 Hz.
    folder
        For the store; emptied after.

    Returns
    -------
    dict
        Size of the input; ``score_seconds`` from the store to attributed incidents, with its parts
        ``read_seconds`` and ``analyse_seconds``, and ``peak_mib`` of the process; ``newest_seconds``: what
        it takes from the newest minute in the store to incidents and scores in it, and
        ``publish_seconds``: the report of them.
    """
    from reveal_core.lab.sample_host import SampleHost
    from storage.store import Store

    with tempfile.TemporaryDirectory(prefix="bench-", dir=folder) as scratch:
        say("Writing telemetry")
        store = Store(str(Path(scratch) / "store"))
        host = SampleHost(
            "bench", START, channels, faults=[(a + TRAINING_S, b + TRAINING_S) for a, b in FAULTS]
        )
        for segment in host.segments(TRAINING_S + seconds):
            store.put_segment(segment)
        say("Learning")
        apart(_fit, store.url, str(Path(scratch) / "model"))
        say("Scoring on one core")
        return apart(_score, store.url, str(Path(scratch) / "model"), seconds, channels)


def _plan(begin_s: float, end_s: float) -> dict[str, str]:
    from reveal_core.incidents import iso

    times = [iso(START + timedelta(seconds=s)) for s in (begin_s, end_s)]
    return {"host": "bench", "start": times[0], "end": times[1]}


def _fit(store: str, path: str) -> dict[str, Any]:
    import skops.io

    from reveal_core.method import fit_model
    from reveal_core.profiles import load_profile
    from storage.store import Store
    from tasks.planning import read_host

    telemetry = read_host(Store(store), _plan(0.0, TRAINING_S), warm_up=False).telemetry
    skops.io.dump(fit_model([telemetry], load_profile("default")), path)
    return {}


def _score(store: str, path: str, seconds: float, channels: int) -> dict[str, Any]:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ["POLARS_MAX_THREADS"] = "1"  # before it is imported
    import skops.io

    from storage.store import Store
    from tasks.models import trusted_types

    target = Store(store)
    model = skops.io.load(path, trusted=trusted_types())
    struck = TRAINING_S + FAULTS[0][0] - 30.0
    _timed(target, model, struck - NEWEST_S, struck)  # imports what is needed
    found = {"channels": channels, "features": len(model.kept_), "resting_mib": _peak_mib()}
    found |= _newest(target, model, struck)
    read, analysis, reading, analysing = _timed(target, model, TRAINING_S, TRAINING_S + seconds)
    return {
        **found,
        "rows": read.telemetry.frame.height,
        "windows": analysis.windows.frame.height,
        "incidents": len(analysis.incidents),
        "score_seconds": round(reading + analysing, 3),
        "read_seconds": round(reading, 3),
        "analyse_seconds": round(analysing, 3),
        "peak_mib": _peak_mib(),
    }


def _timed(target: Store, model: RevealModel, begin_s: float, end_s: float) -> tuple[Any, Any, float, float]:
    """Return what was read, what came of it, and the seconds that each took."""
    from reveal_core.method import analyse
    from reveal_core.timespec import parse_time
    from tasks.planning import read_host

    plan = _plan(begin_s, end_s)
    begun = time.perf_counter()
    read = read_host(target, plan, warm_up=True)
    between = time.perf_counter()
    analysis = analyse(model, read.telemetry, start=parse_time(plan["start"]), end=parse_time(plan["end"]))
    return read, analysis, between - begun, time.perf_counter() - between


def _newest(target: Store, model: RevealModel, begin_s: float) -> dict[str, float]:
    """Measure what it takes from a minute in the store to its incident, and to a report."""
    from reveal_core.timespec import parse_time
    from tasks.publishing import analysed_input, model_info, put_report
    from tasks.scoring import save_analysis

    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        read, analysis, _, _ = _timed(target, model, begin_s, begin_s + NEWEST_S)
        save_analysis(target, "bench@1", analysis, read)
        times.append(time.perf_counter() - begun)
    if not analysis.incidents:
        raise RuntimeError("the bench's own fault was not found: its figures would be of nothing")
    plan = _plan(begin_s, begin_s + NEWEST_S)
    begun = time.perf_counter()
    host = analysed_input(analysis, read, start=parse_time(plan["start"]), end=parse_time(plan["end"]))
    put_report(
        target,
        report_id="bench",
        title="Bench",
        hosts=[host],
        model=model_info(model, name="bench", version="1", alias=""),
        injected=[],
        notes=[],
        quarantined=[],
        command="reveal bench scoring",
    )
    return {"newest_seconds": round(min(times), 3), "publish_seconds": round(time.perf_counter() - begun, 3)}
