"""``reveal demo``: a job, real faults, and what Reveal makes of them, on this very machine, in minutes."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flows.demo_parts import Companion, answers, start_collector, start_prefect
from flows.demo_view import STEP_S, DemoView
from flows.dispatch import call_pipeline, check_prefect
from flows.environment import prefect_api_url
from flows.settings import load_settings, mlflow_uri
from reveal_core.collect.agent import default_host
from reveal_core.errors import UnavailableError, UsageError
from reveal_core.incidents import iso
from reveal_core.lab.faults import FaultInfo, demo_faults, inject, list_faults
from reveal_core.lab.journal import clean_up
from reveal_core.lab.processes import termination_unwinds
from reveal_core.lab.workload import Workload, find_workload
from storage.store import Store
from tasks.tracking import Tracking, without_secrets

START_S = 30.0
FINISH_S = 20.0
SETTLE_S = 3.0
"""After its start the job reads everything for the first time: that is not what it is like later."""
SEGMENT_S = 10.0
PREFECT_PATIENCE_S = 120.0
COLLECTOR_PATIENCE_S = 90.0

HEAVY_MODULES = (
    "flows.prefect_flows",
    "mlflow.sklearn",
    "skops.io",
    "reveal_core.method",
    "matplotlib.figure",
)
"""Imported before anything is measured: seconds of work on a full core that would look like a fault."""


@dataclass(frozen=True)
class DemoPlan:
    """What a demo will do.

    Attributes
    ----------
    folder
        Takes the store, MLflow's and Prefect's databases and the logs.
    faults
        In the order in which they are injected.
    healthy_s, fault_s, gap_s
        Lengths of the healthy stretch, of a fault, and of the healthy gap after each.
    seed
        Seed of workload and fit.
    """

    folder: Path
    faults: tuple[FaultInfo, ...]
    healthy_s: float
    fault_s: float
    gap_s: float
    seed: int

    @property
    def seconds(self) -> float:
        """How long it will take."""
        return START_S + self.healthy_s + len(self.faults) * (self.fault_s + self.gap_s) + FINISH_S


def plan_demo(directory: Path, *, full: bool, faults: Sequence[str] | None, seed: int) -> DemoPlan:
    """Plan a demo and make its folder.

    Raises
    ------
    UsageError
        If a fault is not known, or named twice.
    UnavailableError
        If a fault cannot be injected here, or the folder cannot be made.
    """
    if find_workload() is not None:
        raise UnavailableError("a lab workload is running on this machine already: end it first, there can be one")
    known = {info.name: info for info in list_faults()}
    if faults is not None:
        names = list(faults)
        if not names or len(set(names)) < len(names):
            raise UsageError(f"--faults needs different names out of {', '.join(known)}")
    else:
        names = [name for name, info in known.items() if info.available] if full else demo_faults(3)
    for name in names:
        if name not in known:
            raise UsageError(f"there is no fault {name!r}; there are {', '.join(known)}")
        if not known[name].available:
            raise UnavailableError(f"fault {name} cannot be injected here: {known[name].reason}")
    folder = directory.resolve() / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UnavailableError(f"the demo's folder {folder} cannot be made: {error.strerror}") from error
    return DemoPlan(folder, tuple(known[name] for name in names), 300.0 if full else 125.0, 9.0, 21.5, seed)


def run_demo(plan: DemoPlan) -> dict[str, Any]:
    """Run a demo and return its document.

    Whatever ends it, faults are undone and every process is stopped.

    Returns
    -------
    dict
        ``report``, ``incidents``, ``faults`` (each with what found it), ``false_incidents``, ``seconds``, ``notes``, and
        ``prefect`` and ``mlflow``: the commands that open their pages on it.

    Raises
    ------
    UnavailableError
        If the workload or the collector does not start or ends by itself, or a server that is configured does not answer.
    """
    with DemoView(plan.seconds) as view, termination_unwinds(), ExitStack() as stack:
        return Demo(plan, view, stack).run()


class Demo:
    """A demo that runs: its processes are registered in ``stack``, which stops them in reverse order."""

    def __init__(self, plan: DemoPlan, view: DemoView, stack: ExitStack) -> None:
        self.plan = plan
        self.view = view
        self.stack = stack
        self.store = plan.folder / "store"
        settings = load_settings()
        own = f"sqlite:///{plan.folder / 'mlflow.db'}"
        named = settings.mlflow.uri or os.environ.get("MLFLOW_TRACKING_URI")
        self.tracking_uri = mlflow_uri(settings, str(self.store)) if named else own
        self.host = settings.collect.host or default_host()
        self.notes: list[str] = []
        self.companions: list[Companion] = []
        self.workload = Workload(plan.folder, seed=plan.seed)

    def run(self) -> dict[str, Any]:
        """Run the stages one after another."""
        for line in clean_up():
            self.view.tell(f"left over from before: {line}")
        names = ", ".join(fault.name for fault in self.plan.faults)
        self.view.tell(f"{self.host}: about {self.plan.seconds / 60:.1f} minutes; faults to come: {names}")
        flow = self.start_servers()
        healthy_from = self.start_measuring(flow)
        left = self.plan.healthy_s - (datetime.now(UTC) - healthy_from).total_seconds()
        self.view.wait(left, f"Recording {self.plan.healthy_s:.0f} s of healthy telemetry", self.check)
        healthy_to = datetime.now(UTC)
        injected = self.inject_faults()
        end = datetime.now(UTC)
        self.companions.pop().stop(2)  # an interrupt: the collector stores what it has, the flow completes
        self.view.tell("Collector and workload have ended; now learning")
        self.workload.stop()
        common = {"store": str(self.store), "tracking_uri": self.tracking_uri, "host": self.host}
        model = self.call(
            "fit_detectors",
            flow,
            f"Learning from {self.plan.healthy_s:.0f} healthy seconds",
            {
                **common,
                "start": iso(healthy_from),
                "end": iso(healthy_to),
                "profile": load_settings().method.profile,
                "overrides": load_settings().method.overrides,
                "seed": self.plan.seed,
                "promote": True,
            },
        )[0]
        self.view.tell(f"Model {model['model']} version {model['version']}: {model['features']} features")
        document = self.call(
            "score_fleet",
            flow,
            "Scoring and writing the report",
            {
                **common,
                "start": iso(healthy_to),
                "end": iso(end),
                "model": f"{model['model']}/{model['version']}",
                "injected": injected,
                "title": f"Demo on {self.host}",
            },
        )
        self.view.tell(str(document["headline"]))
        return {
            "report": document["report"],
            "incidents": document["incidents"],
            "faults": document["injected"],
            "false_incidents": document["false_incidents"],
            "seconds": round(self.view.elapsed_s, 1),
            "healthy": {"start": iso(healthy_from), "end": iso(healthy_to)},
            "store": str(self.store),
            "notes": self.notes,
            "prefect": self.prefect_command(flow),
            "mlflow": self.mlflow_command(),
        }

    def call(self, name: str, flow: bool, title: str, arguments: dict[str, Any]) -> Any:
        """Run a pipeline, as a flow where Prefect is up."""
        self.view.now(title)
        return call_pipeline(name, title, self.view.now, flow=flow, **arguments)

    def check(self) -> None:
        """Raise if something that must run does not."""
        for companion in self.companions:
            companion.check()
        if not self.workload.running:
            raise UnavailableError("the workload ended by itself: one of its processes was killed")

    def start_servers(self) -> bool:
        """Start Prefect and import what is heavy, before anything is measured; return whether stages run as flows."""
        configured = prefect_api_url()
        server = None
        if configured:
            check_prefect(configured)
            self.view.tell(f"Prefect at {without_secrets(configured)} is used")
        else:
            self.view.now("Starting an embedded Prefect server, making MLflow's database")
            server, api = start_prefect(self.plan.folder)
            self.stack.callback(server.stop)
            os.environ["PREFECT_API_URL"] = api
        self.prepare()
        if server is None:
            return True
        until = time.monotonic() + PREFECT_PATIENCE_S
        while not answers(api):
            server.check()
            if time.monotonic() > until:
                raise UnavailableError(
                    f"the demo's Prefect server did not start within {PREFECT_PATIENCE_S:.0f} s"
                )
            self.view.now("Waiting for the embedded Prefect server")
            time.sleep(STEP_S)
        self.companions.append(server)
        self.view.tell("Prefect and MLflow are up")
        return True

    def prepare(self) -> None:
        """Import what the last stages need, and make MLflow's database, in a thread so that progress goes on."""

        def heavy() -> None:
            for module in HEAVY_MODULES:
                importlib.import_module(module)
            _ = Tracking(self.tracking_uri).client

        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(heavy)
            while not future.done():
                self.view.now("Starting Prefect and MLflow")
                time.sleep(STEP_S)
            future.result()

    def start_measuring(self, flow: bool) -> datetime:
        """Start workload and collector; return when the healthy stretch begins."""
        self.view.now("Starting workload and collector")
        collector = start_collector(
            self.plan.folder, self.store, host=self.host, segment_s=SEGMENT_S, flow=flow
        )
        self.stack.callback(collector.stop)
        self.stack.callback(self.workload.stop)
        self.workload.start()
        ready = datetime.now(UTC) + timedelta(seconds=SETTLE_S)
        self.companions.append(collector)
        why = f" ({self.workload.reason})" if self.workload.reason else ""
        self.view.tell(f"The workload trains, its ranks talk over {self.workload.transport}{why}")
        store = Store(str(self.store))
        until = time.monotonic() + COLLECTOR_PATIENCE_S
        while (extent := store.extent(self.host)) is None:
            if time.monotonic() > until:
                raise UnavailableError(
                    f"no telemetry arrived within {COLLECTOR_PATIENCE_S:.0f} s: see {collector.log}"
                )
            self.view.wait(1.0, "Waiting for the first telemetry", self.check)
        first = extent[0] + timedelta(seconds=SETTLE_S)
        return max(ready, first)

    def inject_faults(self) -> list[dict[str, Any]]:
        """Inject the faults one after another, with healthy gaps; return those that took effect."""
        injected = []
        for number, fault in enumerate(self.plan.faults, 1):
            self.view.tell(f"Fault {number} of {len(self.plan.faults)}: {fault.name} ({fault.title})")
            try:
                run = self.inject_one(fault)
            except UnavailableError as error:
                self.notes.append(f"fault {fault.name} could not be injected: {error}")
                self.view.tell(self.notes[-1])
            else:
                injected.append(
                    {
                        "name": run.name,
                        "subsystem": fault.subsystem,
                        "start": iso(run.onset),
                        "end": iso(run.end),
                        "causes": list(fault.causes),
                    }
                )
            self.view.wait(self.plan.gap_s, f"{fault.name} is undone, a healthy gap", self.check)
        return injected

    def inject_one(self, fault: FaultInfo) -> Any:
        """Inject a fault in a thread, so that Ctrl-C reaches us meanwhile; it is undone before this returns or raises."""
        stop = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(
                inject, fault.name, duration_s=self.plan.fault_s, workload=self.workload.state, stop=stop
            )
            try:
                while not future.done():
                    self.check()
                    self.view.now(f"Injecting {fault.name}")
                    time.sleep(STEP_S)
            except BaseException:
                stop.set()
                raise
            return future.result()

    def prefect_command(self, flow: bool) -> str:
        """Return the command that opens Prefect's pages on this run."""
        if "PREFECT_HOME" not in os.environ or not (self.plan.folder / "prefect").is_dir():
            return f"open {without_secrets(os.environ.get('PREFECT_API_URL') or str(prefect_api_url()))}"
        prefect = Path(sys.executable).with_name("prefect")
        home = shlex.quote(str(self.plan.folder / "prefect"))
        return f"PREFECT_HOME={home} {shlex.quote(str(prefect))} server start  (then http://127.0.0.1:4200)"

    def mlflow_command(self) -> str:
        """Return the command that opens MLflow's pages on this run."""
        if not self.tracking_uri.startswith("sqlite:"):
            return f"open {without_secrets(self.tracking_uri)}"
        mlflow = Path(sys.executable).with_name("mlflow")
        uri = shlex.quote(self.tracking_uri)
        return f"{shlex.quote(str(mlflow))} server --workers 1 --backend-store-uri {uri}  (then http://127.0.0.1:5000)"
