"""Record hours of the healthy lab workload and count the incidents that scheduled scoring makes of them.

    .venv/bin/python tests/benchmarks/healthy_hours.py --learn 10m --judge 2h --store ./healthy

Nothing else should run on the machine meanwhile: a test suite beside it is an incident, and a right one. With
a store that holds a recording already, ``--recorded`` judges it again without recording.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from flows.environment import prepare_environment
from flows.pipelines import fit_detectors, score_fleet
from reveal_core.incidents import iso
from reveal_core.lab.workload import Workload
from reveal_core.timespec import parse_duration
from storage.store import Store
from tasks.collecting import collect_apart
from tasks.runner import DirectRunner

SETTLE_S = 30.0
"""What the workload needs to come to rest."""
PIECE = timedelta(minutes=10)
"""Scored at a time, as a schedule would; an incident that goes on across two pieces counts twice."""


def record(store: str, seconds: float, seed: int) -> None:
    """Record the workload for a while."""
    with tempfile.TemporaryDirectory(prefix="healthy-") as folder, Workload(Path(folder), seed=seed):
        collect_apart(store, host=None, interval="100ms", duration=f"{SETTLE_S + seconds:g}s", segment="60s")


def pieces(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Return the stretches to score one after another."""
    while start < end:
        yield start, min(start + PIECE, end)
        start += PIECE


def judge(store: str, learn_s: float, seed: int) -> tuple[list[str], int, float]:
    """Return a row for each incident, how many there are, and the hours that were judged."""
    source = Store(store)
    (host,) = source.hosts()
    first, last = source.extent(host) or (None, None)
    if first is None or last is None:
        raise SystemExit(f"{store} holds no telemetry")
    begin = first + timedelta(seconds=SETTLE_S)
    learned = begin + timedelta(seconds=learn_s)
    uri = f"sqlite:///{Path(store).resolve() / 'mlflow.db'}"
    places: dict[str, Any] = {"store": store, "tracking_uri": uri, "host": host}
    (model,) = fit_detectors(
        DirectRunner(),
        **places,
        start=iso(begin),
        end=iso(learned),
        profile="default",
        overrides={},
        seed=seed,
        promote=False,
    )
    rows, count = [], 0
    for since, until in pieces(learned, last):
        document = score_fleet(
            DirectRunner(),
            **places,
            start=iso(since),
            end=iso(until),
            model=f"{model['model']}/{model['version']}",
        )
        for incident in document["incidents"]:
            count += 1
            cause = incident["causes"][0]["id"] if incident["causes"] else "–"
            metrics = ", ".join(metric["metric"] for metric in incident["metrics"][:3])
            cells = [
                incident["start"],
                incident["end"],
                incident["subsystem"],
                cause,
                f"{incident['score']:.2f}",
            ]
            rows.append(f"| {' | '.join([*cells, metrics])} |")
    return rows, count, (last - learned).total_seconds() / 3600.0


def main() -> None:
    """Record unless asked not to, judge, and write what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--learn", default="10m", help="healthy telemetry to learn from")
    parser.add_argument("--judge", default="2h", help="healthy telemetry to judge")
    parser.add_argument("--store", required=True, help="folder for the recording")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recorded", action="store_true", help="judge what the store holds already")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    prepare_environment()
    learn_s, judge_s = parse_duration(options.learn), parse_duration(options.judge)
    if not options.recorded:
        record(options.store, learn_s + judge_s, options.seed)
    rows, count, hours = judge(options.store, learn_s, options.seed)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    text = "\n".join(
        [
            f"{hours:.2f} hours of the healthy lab workload, learned from {options.learn} before them "
            f"({os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release().split('-')[0]}): "
            f"{count} incidents.",
            "",
            *(
                ["| from | to | subsystem | cause | score | metrics |", "|---|---|---|---|---:|---|", *rows]
                if rows
                else []
            ),
        ]
    )
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
