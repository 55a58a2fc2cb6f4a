"""Other collectors, run beside ours for comparison: what they cost for what they give.

They come from Debian packages (``prometheus-node-exporter``, ``netdata-core``) and are run as they are meant
to run, on loopback, with folders of their own.
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from reveal_core.errors import UnavailableError
from reveal_core.lab.processes import free_port

START_S = 30.0
SETTLE_S = 5.0
"""After its start a collector looks for what there is, which is not what it costs later."""


@dataclass(frozen=True)
class PeerCost:
    """What a collector gave and cost over a stretch of time.

    Attributes
    ----------
    metrics
        Values that it gives each time.
    samples
        Values that it gave in all.
    cpu_s, seconds
        CPU time of its processes, and how long it was watched.
    resident_bytes
        Memory of its processes.
    """

    metrics: int
    samples: int
    cpu_s: float
    seconds: float
    resident_bytes: int


def tree_cost(process: psutil.Process) -> tuple[float, int]:
    """Return the CPU seconds and resident bytes of a process and all that descend from it."""
    cpu, resident = 0.0, 0
    for member in [process, *process.children(recursive=True)]:
        try:
            with member.oneshot():
                times = member.cpu_times()
                # Of children that have ended, what their parent has waited for is in its own figures.
                cpu += times.user + times.system + times.children_user + times.children_system
                resident += member.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return cpu, resident


def _get(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    return connection.getresponse().read()


def _run(
    command: Sequence[str],
    port: int,
    path: str,
    watch: Callable[[http.client.HTTPConnection], tuple[int, int]],
) -> PeerCost:
    """Start a peer, wait until it answers and has settled, watch it, and end it."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    tree = psutil.Process(process.pid)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        until = time.monotonic() + START_S
        while True:
            try:
                _get(connection, path)
                break
            except OSError as error:
                connection.close()
                if process.poll() is not None or time.monotonic() > until:
                    raise UnavailableError(f"{command[0]} does not answer on port {port}") from error
                time.sleep(0.2)
        time.sleep(SETTLE_S)
        before, started = tree_cost(tree)[0], time.monotonic()
        metrics, samples = watch(connection)
        after, resident = tree_cost(tree)
        return PeerCost(metrics, samples, after - before, time.monotonic() - started, resident)
    finally:
        descendants = tree.children(recursive=True) if process.poll() is None else []
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for child in psutil.wait_procs(descendants, timeout=5)[1]:
            child.kill()


def node_exporter_cost(seconds: float, interval_s: float) -> PeerCost:
    """Return what node_exporter costs when it is scraped at an interval.

    Raises
    ------
    UnavailableError
        If it is not installed or does not start.
    """
    program = _program("prometheus-node-exporter", "prometheus-node-exporter")
    port = free_port()

    def watch(connection: http.client.HTTPConnection) -> tuple[int, int]:
        metrics = scrapes = 0
        start = time.monotonic()
        while (due := start + scrapes * interval_s) < start + seconds:
            time.sleep(max(0.0, due - time.monotonic()))
            text = _get(connection, "/metrics")
            scrapes += 1
            if scrapes == 1:
                metrics = sum(1 for line in text.splitlines() if line and not line.startswith(b"#"))
        return metrics, metrics * scrapes

    return _run([program, f"--web.listen-address=127.0.0.1:{port}"], port, "/metrics", watch)


def netdata_cost(seconds: float, folder: Path) -> PeerCost:
    """Return what Netdata costs at its own interval of a second; its files go into a folder.

    Raises
    ------
    UnavailableError
        If it is not installed or does not start.
    """
    program = _program("netdata", "netdata-core")
    port = free_port()
    for name in ("cache", "lib", "log"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    sections = {
        "directories": {name: str(folder / name) for name in ("cache", "lib", "log")},
        "db": {"mode": "ram", "update every": "1"},
        "web": {"bind to": f"127.0.0.1:{port}"},
        "ml": {"enabled": "no"},  # detection is not what is compared here
        "global": {"run as user": psutil.Process().username()},
    }
    text = "".join(
        f"[{section}]\n" + "".join(f"    {key} = {value}\n" for key, value in entries.items())
        for section, entries in sections.items()
    )
    config = folder / "netdata.conf"
    config.write_text(text, encoding="utf-8")
    path = "/api/v1/allmetrics?format=json"

    def watch(connection: http.client.HTTPConnection) -> tuple[int, int]:
        time.sleep(seconds)
        charts = json.loads(_get(connection, path))
        metrics = sum(len(chart["dimensions"]) for chart in charts.values())
        return metrics, round(metrics * seconds)

    return _run([program, "-D", "-c", str(config)], port, path, watch)


def _program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise UnavailableError(f"{name} is not installed: apt-get install {package}")
    return found
