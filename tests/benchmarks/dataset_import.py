"""Import a gigabyte of the publication's text on one core, learn from its first hour, and score the rest.

    .venv/bin/python tests/benchmarks/dataset_import.py --megabytes 1024

One run of one GPU host at full width, as the tests write it: the values of some minutes come again and again,
at times that go on. What is imported is therefore the size that matters here, and no workload.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "importing"))
from dataset_files import GPU_FILE, START, dataset_text, dataset_values, gpu_columns

from tasks.memory import peak_memory_bytes

DISTINCT = 3000
"""Rows with values of their own."""
STEP = timedelta(milliseconds=100)
MB = 1e6
LEARNED = timedelta(hours=1)


def write(folder: Path, size: float) -> tuple[Path, int, int]:
    """Write a file of the data set's form of about so many bytes; return its folder, rows and bytes."""
    columns = gpu_columns()
    head, *lines = dataset_text(columns, dataset_values(columns, DISTINCT)).splitlines(keepends=True)
    cells = [line[line.index("\t") :] for line in lines]
    inner = folder / "Reveal_GPU" / "train_seperated"
    inner.mkdir(parents=True)
    rows = 0
    with (inner / GPU_FILE).open("w", encoding="utf-8") as file:
        written = file.write(head)
        while written < size:
            moment = (START + rows * STEP).isoformat(sep=" ", timespec="milliseconds")
            written += file.write(moment + cells[rows % DISTINCT])
            rows += 1
    return inner.parent, rows, written


def imported(source: str, store: str) -> dict[str, Any]:
    """Import on one core; return what the stage says, its seconds, and the most memory of the process."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ["POLARS_MAX_THREADS"] = "1"
    from tasks.importing import import_telemetry

    begun = time.perf_counter()
    told = import_telemetry(store, kind="reveal-dataset", source=source, timezone="UTC")
    return {"told": told, "seconds": time.perf_counter() - begun, "peak": peak_memory_bytes()}


def command(store: str, *arguments: str) -> tuple[dict[str, Any], float]:
    """Run a command on the store; return its document and its seconds, start included."""
    begun = time.perf_counter()
    words = [sys.executable, "-m", "flows.cli", *arguments, "--store", store, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), time.perf_counter() - begun


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=1024.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dataset-") as scratch:
        source, rows, size = write(Path(scratch), arguments.megabytes * MB)
        store = str(Path(scratch) / "store")
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found = pool.submit(imported, str(source), store).result()
        learned = (START + LEARNED).isoformat() + "Z"
        _, fit_s = command(store, "fit", "--start", START.isoformat() + "Z", "--end", learned)
        scored, score_s = command(store, "score", "--start", learned)
        told = found["told"]
        print(
            json.dumps(
                {
                    "cores": os.cpu_count(),
                    "kernel": platform.release(),
                    "megabytes": round(size / MB),
                    "rows": rows,
                    "samples": told["samples"],
                    "skipped": len(told["skipped"]),
                    "store_megabytes": round(told["bytes"] / MB),
                    "import_seconds": round(found["seconds"], 1),
                    "megabytes_per_second": round(size / MB / found["seconds"], 1),
                    "import_peak_mib": round(found["peak"] / 2**20),
                    "fit_seconds": round(fit_s, 1),
                    "score_and_report_seconds": round(score_s, 1),
                    "windows": sum(host["windows"] for host in scored["host_details"]),
                    "incidents": len(scored["incidents"]),
                }
            )
        )


if __name__ == "__main__":
    main()
