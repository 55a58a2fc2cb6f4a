"""``reveal demo``: a job, real faults, and what Reveal makes of them, on this very machine, in minutes."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from flows.demo_parts import Companion, Injector, answers, start_collector, start_prefect, start_workload
from flows.demo_plan import LEAD_S, DemoPlan
from flows.demo_view import STEP_S, DemoView
from flows.dispatch import call_pipeline, check_prefect
from flows.environment import prefect_api_url
from flows.settings import load_settings, mlflow_uri
from reveal_core.collect.agent import default_host
from reveal_core.errors import UnavailableError
from reveal_core.incidents import iso
from reveal_core.lab.faults.base import FaultInfo
from reveal_core.lab.journal import clean_up
from reveal_core.lab.processes import termination_unwinds
from reveal_core.lab.workload import find_workload
from storage.store import Store
from tasks.tracking import Tracking, without_secrets

SETTLE_S = 3.0
"""After its start the job reads everything for the first time: that is not what it is like later."""
SEGMENT_S = 10.0
PATIENCE_S = 120.0
"""How long anything that is started may take; a machine that is busy with other things is slow."""

T = TypeVar("T")

HEAVY_MODULES = (
    "flows.prefect_flows",
    "mlflow.sklearn",
    "skops.io",
    "matplotlib.figure",
    "reveal_core.method",
    "reveal_core.report.render_html",
)
"""Imported before anything is measured: seconds of work on a full core that would look like a fault."""


def run_demo(plan: DemoPlan) -> dict[str, Any]:
    """Run a demo and return its document.

    Whatever ends it, faults are undone and every process is stopped.

    Returns
    -------
    dict
        ``report``, ``incidents``, ``faults`` (each with what found it), ``false_incidents``, ``seconds``,
        ``notes``, ``truth`` (a file of the faults, as ``reveal compare --faults`` takes it), and ``prefect``
        and ``mlflow``: the commands that open their pages on it.

    Raises
    ------
    UnavailableError
        If the workload or the collector does not start or ends by itself, or a server that is configured does
        not answer.
    """
    with (
        redirect_stdout(sys.stderr),
        DemoView(plan.seconds) as view,
        termination_unwinds(),
        ExitStack() as stack,
    ):
        return Demo(plan, view, stack).run()


class Demo:
    """A demo that runs: its processes are registered in ``stack``, which stops them in reverse order."""

    def __init__(self, plan: DemoPlan, view: DemoView, stack: ExitStack) -> None:
        self.plan = plan
        self.view = view
        self.stack = stack
        self.store = plan.folder / "store"
        self.settings = load_settings()
        self.tracking_uri = mlflow_uri(self.settings, str(plan.folder))
        self.host = self.settings.collect.host or default_host()
        self.notes: list[str] = []
        self.companions: list[Companion] = []

    def run(self) -> dict[str, Any]:
        """Run the stages one after another."""
        for line in clean_up():
            self.view.tell(f"left over from before: {line}")
        names = ", ".join(fault.name for fault in self.plan.faults)
        self.view.tell(f"{self.host}: about {self.plan.seconds / 60:.1f} minutes; faults to come: {names}")
        self.start_servers()
        healthy_from = self.start_measuring()
        left = self.plan.healthy_s - (datetime.now(UTC) - healthy_from).total_seconds()
        self.view.wait(left, f"Recording {self.plan.healthy_s:.0f} s of healthy telemetry", self.check)
        healthy_to = datetime.now(UTC)
        self.view.wait(LEAD_S, "Learned from until here; watching", self.check)
        injected = self.inject_faults()
        # What `reveal compare --faults` holds settings against.
        truth = self.plan.folder / "faults.json"
        truth.write_text(json.dumps(injected, indent=1), encoding="utf-8")
        end = datetime.now(UTC)
        self.end(self.collector, signal.SIGINT)  # it stores what it has, and its flow completes
        for companion in self.lab:
            self.end(companion)
        self.view.tell("Collector and workload have ended; now learning")
        document = self.learn(iso(healthy_from), iso(healthy_to), iso(end), injected)
        self.view.now("Stopping Prefect")
        return {
            "report": document["report"],
            "incidents": document["incidents"],
            "faults": document["injected"],
            "false_incidents": document["false_incidents"],
            "seconds": round(self.view.elapsed_s, 1),
            "healthy": {"start": iso(healthy_from), "end": iso(healthy_to)},
            "store": str(self.store),
            "truth": str(truth),
            "notes": self.notes,
            "prefect": self.prefect_command(),
            "mlflow": self.mlflow_command(),
        }

    def learn(
        self, healthy_from: str, healthy_to: str, end: str, injected: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Fit on the healthy stretch, score the rest and publish the report; return its document."""
        common = {"store": str(self.store), "tracking_uri": self.tracking_uri, "host": self.host}
        learned = self.call(
            "fit_detectors",
            f"Learning from {self.plan.healthy_s:.0f} healthy seconds",
            **common,
            start=healthy_from,
            end=healthy_to,
            profile=self.settings.method.profile,
            overrides=self.settings.method.overrides,
            seed=self.plan.seed,
            promote=True,
        )
        model = learned[0]
        self.view.tell(f"Model {model['model']} version {model['version']}: {model['features']} features")
        document: dict[str, Any] = self.call(
            "score_fleet",
            "Scoring and writing the report",
            **common,
            start=healthy_to,
            end=end,
            model=f"{model['model']}/{model['version']}",
            injected=injected,
            title=f"Demo on {self.host}",
        )
        self.view.tell(str(document["headline"]))
        return document

    def call(self, name: str, title: str, /, **arguments: Any) -> Any:
        """Run a flow."""
        self.view.now(title)
        return call_pipeline(name, title, self.view.now, flow=True, **arguments)

    def check(self) -> None:
        """Raise if something that must run does not."""
        for companion in self.companions:
            companion.check()

    def start_servers(self) -> None:
        """Start Prefect and import what is heavy, before anything is measured."""
        server = None
        if configured := prefect_api_url():
            check_prefect(configured)
            self.view.tell(f"Prefect at {without_secrets(configured)} is used")
        else:
            self.view.now("Starting an embedded Prefect server")
            server, api = start_prefect(self.plan.folder)
            self.start(server)
            os.environ["PREFECT_API_URL"] = api
        with ThreadPoolExecutor(1) as pool:
            # In a thread, so that progress goes on.
            ready = pool.submit(self.import_heavy)
            while not ready.done():
                self.view.wait(STEP_S, "Starting Prefect and MLflow", self.check)
            ready.result()
        if server is not None:
            self.wait_for(lambda: answers(f"{api}/health") or None, "the embedded Prefect server", server)
            self.stack.callback(importlib.import_module("flows.prefect_flows").drain)
        self.view.tell("Prefect and MLflow are up")

    def import_heavy(self) -> None:
        """Import what the last stages need, and make MLflow's database."""
        for module in HEAVY_MODULES:
            importlib.import_module(module)
        _ = Tracking(self.tracking_uri).client

    def start_measuring(self) -> datetime:
        """Start workload, injector and collector; return when the healthy stretch begins."""
        self.view.now("Starting workload and collector")
        folder = self.plan.folder
        workload = self.start(start_workload(folder, self.plan.seed))
        self.injector = Injector(folder)
        self.lab = [self.start(self.injector), workload]
        self.collector = self.start(start_collector(folder, self.store, host=self.host, segment_s=SEGMENT_S))
        state = self.wait_for(find_workload, "the workload", workload)
        ready = datetime.now(UTC) + timedelta(seconds=SETTLE_S)
        why = f" ({state.reason})" if state.reason else ""
        self.view.tell(f"The workload trains, its ranks talk over {state.transport}{why}")
        store = Store(str(self.store))
        extent = self.wait_for(lambda: store.extent(self.host), "the first telemetry", self.collector)
        return max(ready, extent[0] + timedelta(seconds=SETTLE_S))

    def start(self, companion: Companion) -> Companion:
        """Watch a process from now on, and stop it at the end."""
        self.stack.callback(companion.stop)
        self.companions.append(companion)
        return companion

    def end(self, companion: Companion, number: int = signal.SIGTERM) -> None:
        """Stop a process that has done its work."""
        self.companions.remove(companion)
        companion.stop(number)

    def wait_for(self, look: Callable[[], T | None], what: str, companion: Companion) -> T:
        """Return what ``look`` finds as soon as it finds something."""
        until = time.monotonic() + PATIENCE_S
        while (found := look()) is None:
            if time.monotonic() > until:
                raise UnavailableError(f"{what} did not come within {PATIENCE_S:.0f} s: see {companion.log}")
            self.view.wait(1.0, f"Waiting for {what}", self.check)
        return found

    def inject_faults(self) -> list[dict[str, Any]]:
        """Inject the faults one after another, with healthy gaps; return those that took effect."""
        injected = []
        for number, fault in enumerate(self.plan.faults, 1):
            self.view.tell(f"Fault {number} of {len(self.plan.faults)}: {fault.name} ({fault.title})")
            try:
                run = self.inject_one(fault)
            except UnavailableError as error:
                self.check()
                self.notes.append(f"fault {fault.name} could not be injected: {error}")
                self.view.tell(self.notes[-1])
            else:
                injected.append({**run, "subsystem": fault.subsystem, "causes": list(fault.causes)})
            self.view.wait(self.plan.gap_s, f"{fault.name} is undone, a healthy gap", self.check)
        return injected

    def inject_one(self, fault: FaultInfo) -> dict[str, Any]:
        """Inject a fault and return when it was on."""
        self.injector.begin(fault.name, self.plan.fault_s)
        until = time.monotonic() + self.plan.fault_s + PATIENCE_S
        while (run := self.injector.result(STEP_S)) is None:
            self.check()
            if time.monotonic() > until:
                raise UnavailableError(f"it is not undone after {PATIENCE_S:.0f} s: see {self.injector.log}")
            self.view.now(f"Injecting {fault.name}")
        return run

    def prefect_command(self) -> str:
        """Return the command that opens Prefect's pages on this run."""
        if not (self.plan.folder / "prefect").is_dir():
            return f"open {without_secrets(str(prefect_api_url())).removesuffix('/api')}"
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
