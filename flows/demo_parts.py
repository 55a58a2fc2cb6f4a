"""The processes that demo and campaigns start beside themselves: server, workload, injector and collector."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reveal_core.errors import UnavailableError
from reveal_core.lab.processes import free_port
from reveal_core.lab.variants import DEFAULT_VARIANT
from tasks.tethered import tethered

NICENESS = 19
"""The server yields to everything that is measured."""
PATIENCE_S = 20.0
IDLE_SERVICES = (
    "SCHEDULER",
    "LATE_RUNS",
    "CANCELLATION_CLEANUP",
    "PAUSE_EXPIRATIONS",
    "FOREMAN",
    "TRIGGERS",
    "REPOSSESSOR",
)
"""Services of a Prefect server that only deployments and workers need; each wakes up every few seconds."""


class Companion:
    """A process beside this one; it is stopped on exit and, if this one is killed, by the kernel.

    Parameters
    ----------
    command, log
        What to run, and the file that takes what it says.
    environment
        Variables to set beside the inherited ones.
    niceness
        How far it yields to others.
    talks
        Whether its standard input and output are pipes to this one; else all that it says goes to the log.
    last_signal
        What it gets from the kernel if this process is killed outright.
    """

    def __init__(
        self,
        command: list[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        niceness: int = 0,
        talks: bool = False,
        last_signal: int = signal.SIGTERM,
    ) -> None:
        self.name = log.stem
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                tethered(command, niceness, last_signal),
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                # Ctrl-C is for this process, which then stops its companions in order.
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise UnavailableError if the process has ended; the line holds what it said last."""
        code = self.process.poll()
        if code is not None:
            lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise UnavailableError(
                f"the {self.name} ended with code {code}: {lines[-1] if lines else self.log}"
            )

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ask the process to end and wait for it; kill it if that takes too long."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


def start_prefect(folder: Path) -> tuple[Companion, str]:
    """Start a Prefect server that keeps its database in a folder; return it and its API's address.

    It is the server that Prefect itself starts for a flow without one, but niced, and with the folder's
    database, so that its pages can be opened on it later.
    """
    import importlib.util

    specification = importlib.util.find_spec("prefect")
    if specification is None or specification.origin is None:
        raise UnavailableError("Prefect is not installed")
    home = folder / "prefect"
    home.mkdir()
    port = free_port()
    os.environ["PREFECT_HOME"] = str(home)
    environment = {
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT__SERVER_FINAL": "1",
        "PREFECT_UI_ENABLED": "0",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
        **{f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in IDLE_SERVICES},
    }
    command = [sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "error", "--lifespan", "on"]
    server = Companion(
        command, folder / "prefect-server.log", environment, niceness=NICENESS, last_signal=signal.SIGKILL
    )
    return server, f"http://127.0.0.1:{port}/api"


def answers(address: str) -> bool:
    """Tell whether a server answers with what is asked for."""
    try:
        urllib.request.urlopen(address, timeout=2.0).close()
    except OSError:
        return False
    return True


def start_collector(
    folder: Path, store: Path, *, host: str, segment_s: float, flow: bool = True
) -> Companion:
    """Start ``reveal collect`` on a store, as a flow or by itself."""
    command = [sys.executable, "-m", "flows.cli", "collect", "--store", str(store), "--host", host, "--json"]
    command += ["--segment", f"{segment_s:g}s", "--flow" if flow else "--no-flow"]
    # A flow whose server is gone takes minutes to end; the collector proper is its child and ends in order.
    last = signal.SIGKILL if flow else signal.SIGTERM
    return Companion(command, folder / "collector.log", last_signal=last)


def start_workload(folder: Path, seed: int, variant: str = DEFAULT_VARIANT) -> Companion:
    """Start ``reveal lab workload`` with its files in a folder."""
    command = [
        sys.executable,
        "-m",
        "flows.cli",
        "lab",
        "workload",
        "--dir",
        str(folder),
        "--seed",
        str(seed),
        "--variant",
        variant,
    ]
    return Companion(command, folder / "workload.log")


class Injector(Companion):
    """The process that injects faults, `flows.injector`; it is told what to do and asked how far it is."""

    def __init__(self, folder: Path) -> None:
        super().__init__([sys.executable, "-m", "flows.injector"], folder / "injector.log", talks=True)

    def begin(self, fault: str, seconds: float, intensity: float = 1.0) -> None:
        """Tell it to inject a fault."""
        assert self.process.stdin is not None
        request = {"fault": fault, "seconds": seconds, "intensity": intensity}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def result(self, patience_s: float) -> dict[str, Any] | None:
        """Return what became of the fault, or None if it is still on after ``patience_s`` seconds.

        Raises
        ------
        UnavailableError
            If the fault could not be injected, or the process has ended.
        """
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], patience_s)[0]:
            return None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(PATIENCE_S)
            self.check()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise UnavailableError(answer["error"])
        return answer
