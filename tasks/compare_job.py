"""Parts of a comparison in processes of their own, so that time and memory of each can be measured.

``python -m tasks.compare_job`` takes a job as JSON on standard input and gives its result on standard output.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reveal_core.errors import RevealError, UnavailableError, UsageError
from tasks.memory import peak_memory_bytes
from tasks.tethered import tethered

MIB = 1024 * 1024


def run_job(kind: str, **arguments: Any) -> dict[str, Any]:
    """Run a job in a process of its own and return its result.

    Returns
    -------
    dict
        What the job returns, with ``peak_memory_mib``: the most memory that its process has held, libraries
        included.

    Raises
    ------
    UsageError, UnavailableError
        As the job raised it.
    RevealError
        If the process ended otherwise.
    """
    process = subprocess.run(
        tethered([sys.executable, "-m", "tasks.compare_job"]),
        input=json.dumps({"kind": kind, **arguments}),
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(process.stdout)
    except ValueError as error:
        said = (process.stderr.strip().splitlines() or [f"code {process.returncode}"])[-1]
        raise RevealError(f"a part of the comparison ended early: {said}") from error
    if "error" in answer:
        raise {"usage": UsageError, "unavailable": UnavailableError}[answer["error"]](answer["message"])
    return answer


def prepare_telemetry(
    *, folder: str, store: str, number: int, plan: Mapping[str, str], count: int, seed: int, faults: list[Any]
) -> dict[str, Any]:
    """Read one host's telemetry, inject into what is judged, and put series of all into the folder."""
    from reveal_core.evaluate.injected import InjectionPlan, injected_copies
    from reveal_core.method import build_series
    from reveal_core.timespec import parse_time
    from storage.store import Store
    from tasks.compare_files import LEARNED, CompareFiles, judged_part
    from tasks.planning import read_host

    files = CompareFiles(Path(folder), number, plan["host"])
    source = Store(store)
    learned = {"host": plan["host"], "start": plan["learned_start"], "end": plan["learned_end"]}
    files.put_series(LEARNED, build_series(read_host(source, learned, warm_up=False).telemetry))
    judged = {"host": plan["host"], "start": plan["judged_start"], "end": plan["judged_end"]}
    telemetry = read_host(source, judged, warm_up=True).telemetry
    clean = build_series(telemetry)
    files.put_series(judged_part(0), clean)
    told: list[Sequence[Any]] = [()]
    note = ""
    try:
        copies = injected_copies(
            telemetry,
            clean,
            InjectionPlan(count=count, seed=seed),
            start=parse_time(judged["start"]),
            end=parse_time(judged["end"]),
            avoid=[(parse_time(fault["start"]), parse_time(fault["end"])) for fault in faults],
        )
    except UsageError as error:
        copies, note = [], f"{plan['host']}: nothing was injected: {error}"
    for copy, (changed, perturbations) in enumerate(copies, 1):
        files.put_series(judged_part(copy), build_series(changed))
        told.append(perturbations)
    files.put_copies(told)
    return {"copies": len(told), "injected": sum(map(len, told)), "note": note}


def prepare_windows(*, folder: str, hosts: list[dict[str, str]], profile: dict[str, Any]) -> dict[str, Any]:
    """Compute the windows of all hosts and copies with one combination of settings."""
    from reveal_core.method import build_windows
    from reveal_core.profiles import profile_from
    from reveal_core.timespec import parse_time
    from tasks.compare_files import LEARNED, CompareFiles, combination, judged_part

    settings = profile_from(profile)
    name = combination(settings)
    seconds = 0.0
    for number, plan in enumerate(hosts):
        files = CompareFiles(Path(folder), number, plan["host"])
        parts = [(LEARNED, None, None)]
        start, end = parse_time(plan["judged_start"]), parse_time(plan["judged_end"])
        parts += [(judged_part(copy), start, end) for copy in range(len(files.copies()))]  # type: ignore[misc]
        for part, since, until in parts:
            series = files.series(part)
            began = time.perf_counter()
            windows = build_windows(series, settings, since, until)
            if part in (LEARNED, judged_part(0)):
                seconds += time.perf_counter() - began
            files.put_windows(part, name, windows)
    return {"combination": name, "feature_seconds": round(seconds, 3)}


def judge_one(
    *,
    folder: str,
    hosts: list[dict[str, str]],
    profile: dict[str, Any],
    seeds: list[int],
    faults: list[dict[str, Any]],
) -> dict[str, Any]:
    """Fit one setting and judge it."""
    from reveal_core.evaluate.compared import HostPart, judge_setting
    from reveal_core.profiles import profile_from
    from tasks.compare_files import LEARNED, CompareFiles, JudgedFiles, combination
    from tasks.faultfiles import injected_faults

    settings = profile_from(profile)
    name = combination(settings)
    files = [CompareFiles(Path(folder), number, plan["host"]) for number, plan in enumerate(hosts)]
    result = judge_setting(
        settings,
        [one.windows(LEARNED, name) for one in files],
        [HostPart(one.host, JudgedFiles(one, name)) for one in files],
        seeds=seeds,
        faults=injected_faults(faults),
    )
    return {
        "metrics": result.metrics,
        "flags": {key: sorted(seconds) for key, seconds in result.flags.items()},
        "incidents": [[one.name, one.first, one.last] for one in result.incidents],
        "facts": result.facts,
    }


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    "telemetry": prepare_telemetry,
    "windows": prepare_windows,
    "setting": judge_one,
}


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job and return what is told of it."""
    kind = job.pop("kind")
    try:
        found = JOBS[kind](**job)
    except UsageError as error:
        return {"error": "usage", "message": str(error)}
    except UnavailableError as error:
        return {"error": "unavailable", "message": str(error)}
    return {**found, "peak_memory_mib": round(peak_memory_bytes() / MIB, 1)}


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout, allow_nan=False)
