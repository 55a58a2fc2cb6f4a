"""``reveal site``: a whole site on this machine, as it would be spread over many: servers, a worker, agents.

Every process is started as the compose file and the manifests start it, without containers, and everything
binds to loopback.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

from flows.demo_parts import answers
from flows.deploying import deploy
from flows.signals import Asked
from flows.site_service import Say, Service
from reveal_core.errors import UnavailableError, UsageError
from reveal_core.lab.processes import free_port

POOL = "reveal"
BUCKET = "reveal"
PORTS = {"prefect": 4200, "mlflow": 5000, "objects": 9000}
"""Where the servers listen if nobody else does: their usual ports."""
ADDRESSES = "site.json"
"""The file in the site's folder that says where everything is, once it is up."""
LEASES = "prefect.server.concurrency.lease_storage.filesystem"
LEAST_LEARN_S = 90.0
"""Agents store once a minute."""
PATIENCE_S = 180.0
"""How long a server may take to answer, and a run that is waited for to end."""
_STEP_S = 0.5
_ACCESS = {
    "AWS_ACCESS_KEY_ID": "reveal",
    "AWS_SECRET_ACCESS_KEY": "reveal",
    "AWS_DEFAULT_REGION": "us-east-1",
}
"""Of the object store on loopback, which asks nobody who he is."""


class _OverError(Exception):
    """Somebody has asked for the end, or the time is over."""


@dataclass
class Site:
    """A site that is being brought up.

    Attributes
    ----------
    folder
        Where logs, databases and, without an object store, telemetry lie.
    agents
        How many agents sample this machine, each as a host of its own.
    objects
        Whether there is an object store; else the store is a folder.
    learn_s
        How long telemetry is collected before the first model learns from it, s.
    until
        When it ends by itself, in s of the monotonic clock.
    say, asked
        Told what happens; asks for an end.
    """

    folder: Path
    agents: int
    objects: bool
    learn_s: float
    until: float
    say: Say
    asked: Asked
    environment: dict[str, str] = field(default_factory=dict)
    services: list[Service] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)

    def run(self) -> dict[str, Any]:
        """Bring it up, keep it up until somebody asks or the time is over, and end it in order.

        Raises
        ------
        UnavailableError
            If something does not start, or ends again and again.
        """
        with ExitStack() as stack, contextlib.suppress(_OverError):
            self._servers(stack)
            self._agents(stack)
            self.say(f"{self.agents} agents collect; a model learns from the first {self.learn_s:.0f} s")
            # Runs are scheduled when there is a model to score with; until then each would fail.
            self._wait(self.learn_s)
            fit = self._reveal("fit", "--host", "*", "--start", f"-{self.learn_s:g}s", "--promote")
            self._once(fit, "fit")
            self._schedule(stack)
            self.say("a report every five minutes from now on; Ctrl-C ends it all")
            self._wait(inf)
        return self.told()

    def told(self) -> dict[str, Any]:
        """Return where everything is."""
        return {**self.addresses, "folder": str(self.folder), "agents": self.agents}

    def _servers(self, stack: ExitStack) -> None:
        """Start the servers, wait until each answers, and note where they are."""
        ports = {name: _port(wanted) for name, wanted in PORTS.items()}
        prefect, mlflow = (f"http://127.0.0.1:{ports[name]}" for name in ("prefect", "mlflow"))
        self.addresses = {"prefect": prefect, "mlflow": mlflow}
        self.environment = {
            "DO_NOT_TRACK": "1",
            "PREFECT_API_URL": f"{prefect}/api",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            # A server that forgot who holds the slot of a schedule would never start its runs again.
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": LEASES,
            "PREFECT_HOME": str(self.folder / "prefect"),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_TRACKING_URI": mlflow,
            "REVEAL_MLFLOW__URI": mlflow,
        }
        artifacts = self._objects(stack, ports["objects"]) if self.objects else self._files()
        command = self._python("prefect", "server", "start", "--host", "127.0.0.1")
        self._start(stack, [*command, "--port", str(ports["prefect"])], "prefect")
        command = self._python("mlflow", "server", "--workers", "1", "--host", "127.0.0.1")
        command += ["--port", str(ports["mlflow"]), "--artifacts-destination", artifacts]
        command += ["--backend-store-uri", f"sqlite:///{self.folder / 'mlflow.db'}"]
        self._start(stack, command, "mlflow")
        self._answers("Prefect", f"{prefect}/api/health")
        self._answers("MLflow", f"{mlflow}/health")
        self.environment["REVEAL_STORE"] = self.addresses["store"]
        told = json.dumps(self.told(), indent=1)
        (self.folder / ADDRESSES).write_text(told + "\n", encoding="utf-8")
        for name, address in sorted(self.addresses.items()):
            self.say(f"{name}: {address}")

    def _objects(self, stack: ExitStack, port: int) -> str:
        """Start the object store and make its bucket; return where MLflow keeps artifacts."""
        from s3fs import S3FileSystem

        # What an earlier site's MLflow knows of was in an object store that forgot it in the end.
        (self.folder / "mlflow.db").unlink(missing_ok=True)
        address = f"http://127.0.0.1:{port}"
        self.environment |= {**_ACCESS, "AWS_ENDPOINT_URL": address, "MLFLOW_S3_ENDPOINT_URL": address}
        command = self._python("moto.server", "-H", "127.0.0.1", "-p", str(port))
        self._start(stack, command, "objects", again=False)
        self._answers("the object store", f"{address}/moto-api/")
        access = {"key": _ACCESS["AWS_ACCESS_KEY_ID"], "secret": _ACCESS["AWS_SECRET_ACCESS_KEY"]}
        files = S3FileSystem(endpoint_url=address, **access, skip_instance_cache=True)
        files.mkdir(BUCKET)
        # Reports are pages: whoever has the address may read them, as the compose file has it, too.
        pages = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject"}
        pages["Resource"] = f"arn:aws:s3:::{BUCKET}/site/reports/*"
        policy = json.dumps({"Version": "2012-10-17", "Statement": [pages]})
        files.call_s3("put_bucket_policy", Bucket=BUCKET, Policy=policy)
        self.addresses |= {
            "objects": address,
            "store": f"s3://{BUCKET}/site",
            "reports": f"{address}/{BUCKET}/site/reports/index.html",
        }
        return f"s3://{BUCKET}/mlflow"

    def _files(self) -> str:
        """Make the folder that is the store; return where MLflow keeps artifacts."""
        store = self.folder / "store"
        store.mkdir(exist_ok=True)
        self.addresses |= {"store": str(store), "reports": (store / "reports" / "index.html").as_uri()}
        return str(self.folder / "artifacts")

    def _agents(self, stack: ExitStack) -> None:
        for number in range(1, self.agents + 1):
            host = f"{socket.gethostname()}-{number}"
            command = self._reveal("collect", "--host", host, "--no-flow")
            spool = {"REVEAL_COLLECT__SPOOL": str(self.folder / f"spool-{number}")}
            self._start(stack, command, f"agent-{number}", spool)

    def _schedule(self, stack: ExitStack) -> None:
        """Deploy the flows, have a worker run them, and score what there is already."""
        deploy({**os.environ, **self.environment}, folder=self.folder, pool=POOL)
        self._start(stack, self._python("prefect", "worker", "start", "--pool", POOL), "worker")
        self._once(self._python("prefect", "deployment", "run", "score-fleet/fleet"), "first-run")

    def _python(self, module: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", module, *arguments]

    def _reveal(self, *arguments: str) -> list[str]:
        return self._python("flows.cli", *arguments)

    def _start(
        self,
        stack: ExitStack,
        command: list[str],
        name: str,
        more: Mapping[str, str] | None = None,
        *,
        again: bool = True,
    ) -> None:
        environment = {**self.environment, **(more or {})}
        service = Service(command, self.folder / f"{name}.log", environment, again=again)
        stack.callback(service.stop)
        self.services.append(service)

    def _once(self, command: list[str], name: str) -> None:
        """Run a command to its end.

        Raises
        ------
        UnavailableError
            If it fails; the line is its last.
        """
        log = self.folder / f"{name}.log"
        with ExitStack() as stack:
            service = Service(command, log, self.environment, again=False)
            stack.callback(service.stop)
            until = time.monotonic() + PATIENCE_S
            while service.companion.process.poll() is None:
                if time.monotonic() > until:
                    raise UnavailableError(f"{name} did not end within {PATIENCE_S:.0f} s: see {log}")
                self._wait(_STEP_S)
            if service.companion.process.returncode:
                service.companion.check()

    def _answers(self, what: str, address: str) -> None:
        """Wait until a server answers."""
        until = time.monotonic() + PATIENCE_S
        while not answers(address):
            if time.monotonic() > until:
                raise UnavailableError(f"{what} did not answer at {address} within {PATIENCE_S:.0f} s")
            self._wait(_STEP_S)

    def _wait(self, seconds: float) -> None:
        """Wait, and keep everything up meanwhile.

        Raises
        ------
        _OverError
            If the site is to end.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for service in self.services:
                service.look(self.say)
            if self.asked.stop.wait(_STEP_S) or time.monotonic() >= self.until:
                raise _OverError


def bring_up(
    folder: Path,
    *,
    agents: int,
    objects: bool | None,
    learn_s: float,
    duration_s: float | None,
    say: Say,
    asked: Asked,
) -> dict[str, Any]:
    """Bring a site up on this machine and keep it up.

    Parameters
    ----------
    folder
        Where everything is kept; made if it is not there.
    agents
        How many agents sample this machine.
    objects
        Whether telemetry goes to an object store on loopback; None: if one is installed.
    learn_s, duration_s
        Seconds before the first fit, and until it ends by itself; None to be told.
    say, asked
        Told what happens; asks for an end.

    Returns
    -------
    dict
        ``prefect``, ``mlflow``, ``store``, ``reports``, ``folder``, ``agents``; ``objects`` where there is an
        object store.

    Raises
    ------
    UsageError
        If there is too little time to learn from.
    UnavailableError
        If something that is needed is not installed, does not start, or ends again and again.
    """
    if learn_s < LEAST_LEARN_S:
        raise UsageError(f"--learn {learn_s:g} s is too short: at least {LEAST_LEARN_S:g} s")
    installed = find_spec("moto") is not None and find_spec("s3fs") is not None
    if objects and not installed:
        raise UnavailableError("an object store on loopback needs the packages moto[server] and s3fs")
    try:
        (folder / "prefect").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableError(f"{folder} cannot be made: {error.strerror}") from error
    use = installed if objects is None else objects
    until = time.monotonic() + (inf if duration_s is None else duration_s)
    return Site(folder.resolve(), agents, use, learn_s, until, say, asked).run()


def _port(wanted: int) -> int:
    """Return a port, or another one where somebody listens on it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return free_port()
    return wanted
