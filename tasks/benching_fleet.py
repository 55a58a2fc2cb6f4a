"""What a run over a fleet takes: the time of each stage, of a host's parts, and of a question."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil

from reveal_core.timespec import parse_time
from tasks.runner import Runner, Stage

SAMPLED_HOSTS = 12
"""Hosts whose parts are timed one after another, to tell what the stage of scoring does all the time."""
PARTS = ("read", "features", "detectors", "attribution", "ledger")
STAGES = {
    "plan_hosts": "plan",
    "classify_hosts": "classify",
    "choose_model": "models",
    "score_hosts": "score",
    "publish_report": "report",
}
"""Names of the stages of a run, by function."""


class StageClock:
    """A runner that notes how long each stage takes, and has another runner run it."""

    def __init__(self, inner: Runner) -> None:
        self._inner = inner
        self.seconds: dict[str, float] = {}

    @property
    def run_id(self) -> str | None:
        """Id of the run, of the other runner."""
        return self._inner.run_id

    def call(self, stage: Stage, /, **arguments: Any) -> Any:
        """Run one stage."""
        with self._noted(stage):
            return self._inner.call(stage, **arguments)

    def map(self, stage: Stage, calls: Sequence[Mapping[str, Any]], *, heavy: bool = False) -> list[Any]:
        """Run a stage once per set of arguments."""
        with self._noted(stage):
            return self._inner.map(stage, calls, heavy=heavy)

    @contextmanager
    def _noted(self, stage: Stage) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            name = STAGES.get(stage.__name__, stage.__name__)
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun


def host_parts(store: str, tracking_uri: str, plans: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Time what the stage of scoring does on single hosts, one after another in this process.

    Parameters
    ----------
    store, tracking_uri
        Where telemetry and models are.
    plans
        Host, range and hardware class of each host.

    Returns
    -------
    dict
        ``parts_ms``: mean milliseconds a host by name of `PARTS`, and ``model_load_ms``: what loading a model
        takes. The first host is not counted: it pays for imports.
    """
    from reveal_core.attribute.build import build_incidents
    from reveal_core.method import Analysis, build_series, build_windows
    from reveal_core.profiles import profile_from
    from storage.store import Store
    from tasks.following import follower_of
    from tasks.models import load_model
    from tasks.planning import read_host
    from tasks.scoring import choose_model, enter_ledger, save_analysis
    from tasks.tracking import ModelRef, Tracking

    target = Store(store)
    chosen = choose_model(tracking_uri, model=None, hardware_classes=[p["hardware_class"] for p in plans])
    references = {name: ModelRef(**reference) for name, reference in chosen.items()}
    begun = time.perf_counter()
    models = {name: load_model(Tracking(tracking_uri), one) for name, one in references.items()}
    loading = (time.perf_counter() - begun) / len(models)
    spent = dict.fromkeys(PARTS, 0.0)
    chosen_hosts = _spread(plans, SAMPLED_HOSTS)
    for number, plan in enumerate([chosen_hosts[0], *chosen_hosts]):
        model, reference = models[plan["hardware_class"]], references[plan["hardware_class"]]
        start, end = parse_time(plan["start"]), parse_time(plan["end"])
        times = [time.perf_counter()]
        read = read_host(target, plan, warm_up=True)
        times.append(time.perf_counter())
        profile = profile_from(model.profile)
        series = build_series(read.telemetry)
        windows = build_windows(series, profile, start, end)
        times.append(time.perf_counter())
        follower = follower_of(target, model, reference, plan["host"], start, end)
        scores = model.score_windows(windows, follower)
        times.append(time.perf_counter())
        incidents = ()
        if scores.frame["anomalous"].any():  # as `reveal_core.method.analyse_windows` does
            incidents = build_incidents(scores, model.excursions(windows), series, profile)
        times.append(time.perf_counter())
        analysis = Analysis(series.host, series, windows, scores, incidents, ())
        save_analysis(target, reference.label, analysis, read)
        enter_ledger(target, analysis)
        times.append(time.perf_counter())
        if number:
            for name, seconds in zip(PARTS, np.diff(times).tolist(), strict=True):
                spent[name] += seconds
    count = len(chosen_hosts)
    return {
        "parts_ms": {name: round(1000 * seconds / count, 2) for name, seconds in spent.items()},
        "model_load_ms": round(1000 * loading, 1),
    }


def _spread(plans: Sequence[Mapping[str, str]], most: int) -> list[Mapping[str, str]]:
    """Return some plans, evenly spread."""
    count = min(most, len(plans))
    return [plans[len(plans) * n // count] for n in range(count)]


def stage_percent(seconds: Mapping[str, float], parts_ms: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each stage in a run's time, the stage of scoring by its parts, %.

    The parts' proportions are those of `host_parts`: within the stage itself nothing is measured, and what it
    does beside them (loading models, waiting) is spread over them.

    Examples
    --------
    >>> stage_percent({"plan": 1.0, "score": 3.0}, {"read": 10.0, "features": 20.0})
    {'plan': 25.0, 'read': 25.0, 'features': 50.0}
    """
    total = sum(seconds.values())
    whole = sum(parts_ms.values())
    shares: dict[str, float] = {}
    for name, spent in seconds.items():
        if name == "score":
            shares |= {part: spent * ms / whole for part, ms in parts_ms.items()}
        else:
            shares[name] = spent
    return {name: round(100 * spent / total, 1) for name, spent in shares.items()}


def slope(sizes: Sequence[int], seconds: Sequence[float]) -> float | None:
    """Return the power of the number of hosts that time grows with; None for less than two sizes.

    >>> slope([100, 1000], [2.0, 20.0])
    1.0
    """
    if len(sizes) < 2:
        return None
    return round(float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]), 3)


def question(store: str, host: str, other: str, start: str, end: str) -> dict[str, Any]:
    """Read one host's range as a command does, and tell what it takes.

    Parameters
    ----------
    store
        Root of the store.
    host, start, end
        What is asked.
    other
        Another host, asked first, so that imports do not count.

    Returns
    -------
    dict
        ``question_seconds``, ``question_mib_read`` (what came out of files or, from an object store, out of
        objects), ``question_listings`` and ``question_rows``.
    """
    from storage.store import Store
    from tasks.planning import plan_hosts, read_host

    def ask(name: str) -> int:
        plan = plan_hosts(store, host=name, start=start, end=end)[0]
        return read_host(Store(store), plan, warm_up=False).telemetry.frame.height

    ask(other)
    backend = Store(store).backend
    counted = {"bytes": 0, "listings": 0}

    def note_read(data: bytes) -> None:
        counted["bytes"] += len(data)

    def note_listing(_: Any) -> None:
        counted["listings"] += 1

    with _counted(backend.fs, "cat_file", note_read), _counted(backend.fs, "ls", note_listing):
        of_files, begun = psutil.Process().io_counters().read_chars, time.perf_counter()
        rows = ask(host)
        seconds = time.perf_counter() - begun
        read = psutil.Process().io_counters().read_chars - of_files if backend.local else counted["bytes"]
    return {
        "question_seconds": round(seconds, 3),
        "question_mib_read": round(read / 2**20, 3),
        "question_listings": counted["listings"],
        "question_rows": rows,
    }


@contextmanager
def _counted(owner: Any, name: str, note: Callable[[Any], None]) -> Iterator[None]:
    """Have the result of every call of an object's method noted, for a while."""
    method, own = getattr(owner, name), vars(owner).get(name)

    def counting(*arguments: Any, **options: Any) -> Any:
        result = method(*arguments, **options)
        note(result)
        return result

    setattr(owner, name, counting)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def judged(store: str, faults: Sequence[Mapping[str, Any]], start: str, end: str) -> dict[str, Any]:
    """Return what a run made of planted faults.

    Returns
    -------
    dict
        ``incidents``, ``planted``, ``found_percent`` (None where nothing was planted), ``struck_hosts`` and
        ``false_hosts``: hosts with an incident that have a fault, and that have none.
    """
    from reveal_core.evaluate.matching import match_faults
    from storage.store import Store
    from tasks.faultfiles import injected_faults

    incidents = Store(store).read_incidents(parse_time(start), parse_time(end))
    matches = match_faults(injected_faults(faults), incidents)
    alarmed, struck = {i.host for i in incidents}, {fault["host"] for fault in faults}
    found = sum(match.found for match in matches)
    return {
        "incidents": len(incidents),
        "planted": len(matches),
        "found_percent": round(100 * found / len(matches), 1) if matches else None,
        "struck_hosts": len(alarmed & struck),
        "false_hosts": len(alarmed - struck),
    }
