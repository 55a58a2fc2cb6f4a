"""A real Prometheus and a real node_exporter on loopback, for tests and benchmarks."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reveal_core.lab.processes import free_port

PROMETHEUS = shutil.which("prometheus")
NODE_EXPORTER = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
MISSING = ", ".join(
    package
    for package, binary in (("prometheus", PROMETHEUS), ("prometheus-node-exporter", NODE_EXPORTER))
    if binary is None
)
"""Packages that are not installed."""
PATIENCE_S = 60.0


@contextmanager
def running(command: Sequence[str], log: Path, ready: str) -> Iterator[None]:
    """Run a server while the block runs, which begins when ``ready`` answers."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        until = time.monotonic() + PATIENCE_S
        while True:
            assert process.poll() is None, log.read_text()
            try:
                urllib.request.urlopen(ready, timeout=5).close()
                break
            except OSError:
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def node_exporter(folder: Path, flags: Sequence[str] = ()) -> Iterator[str]:
    """Run a node_exporter; yields its address without the scheme."""
    address = f"127.0.0.1:{free_port()}"
    command = [str(NODE_EXPORTER), f"--web.listen-address={address}", *flags]
    with running(command, folder / "exporter.log", f"http://{address}/"):
        yield address


@contextmanager
def prometheus(
    folder: Path, targets: Sequence[str], interval: str = "1s", flags: Sequence[str] = ()
) -> Iterator[str]:
    """Run a Prometheus that scrapes ``targets``; yields its URL."""
    job = {"job_name": "node", "static_configs": [{"targets": list(targets)}]}
    config = {"global": {"scrape_interval": interval, "scrape_timeout": interval}, "scrape_configs": [job]}
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    address = f"127.0.0.1:{free_port()}"
    command = [
        str(PROMETHEUS),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
        *flags,
    ]
    with running(command, folder / "prometheus.log", f"http://{address}/-/ready"):
        yield f"http://{address}"


def value(url: str, query: str) -> float:
    """Return the value of an instant query; 0 where there is none."""
    fields = urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(f"{url}/api/v1/query?{fields}", timeout=30) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return float(found[0]["value"][1]) if found else 0.0


def wait_for(url: str, query: str, least: float) -> None:
    """Wait until a query gives so much."""
    until = time.monotonic() + PATIENCE_S
    while value(url, query) < least:
        assert time.monotonic() < until, (query, value(url, query))
        time.sleep(0.05)
