"""Inject the demo's faults under a real Prometheus and node_exporter, import, score, and write the table.

    .venv/bin/python tests/benchmarks/prometheus_faults.py --out docs/prometheus-faults.md

The lab's workload runs, the exporter is scraped every second, and no agent of Reveal's runs: what is found
comes from the import alone. Needs Debian's packages prometheus and prometheus-node-exporter, root for most
faults, and a machine with nothing else on it. ``--wide`` lets the exporter give all that it can; without, it
runs as Debian starts it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
from prometheus_servers import MISSING, node_exporter, prometheus, wait_for

from flows.demo_parts import Injector, start_workload
from flows.demo_plan import LEAD_S, DemoPlan, plan_demo
from flows.environment import prepare_environment
from flows.pipelines import fit_detectors, score_fleet
from reveal_core.errors import UnavailableError
from reveal_core.incidents import iso
from reveal_core.lab.processes import termination_unwinds
from reveal_core.lab.workload import find_workload
from tasks.prometheus_importing import import_prometheus
from tasks.runner import DirectRunner

SETTLE_S = 30.0
"""What the workload needs to come to rest."""
PATIENCE_S = 120.0
WIDE = (
    "--collector.interrupts",
    "--collector.softirqs",
    "--collector.qdisc",
    "--collector.netstat.fields=.*",
    "--collector.vmstat.fields=.*",
    "--collector.cgroups",
)
DEMANDED = ("cpu", "memory", "network", "storage")


def known_flags(flags: Sequence[str]) -> list[str]:
    """Return the flags that this version of the exporter has."""
    import subprocess

    from prometheus_servers import NODE_EXPORTER

    said = subprocess.run([str(NODE_EXPORTER), "--help"], capture_output=True, text=True, check=False)
    text = said.stdout + said.stderr
    return [flag for flag in flags if flag.partition("=")[0] in text]


def inject_all(plan: DemoPlan, injector: Injector) -> tuple[list[dict[str, Any]], list[str]]:
    """Inject the faults one after another; return those that took effect, and why others did not."""
    injected, notes = [], []
    for fault in plan.faults:
        injector.begin(fault.name, plan.fault_s)
        until = time.monotonic() + plan.fault_s + PATIENCE_S
        try:
            while (run := injector.result(1.0)) is None:
                if time.monotonic() > until:
                    raise UnavailableError("it is not undone")
        except UnavailableError as error:
            notes.append(f"{fault.name} could not be injected: {error}")
        else:
            injected.append({**run, "subsystem": fault.subsystem, "causes": list(fault.causes)})
        time.sleep(plan.gap_s)
    return injected, notes


def record(
    plan: DemoPlan, url: str, stack: ExitStack
) -> tuple[datetime, datetime, datetime, list[dict[str, Any]], list[str]]:
    """Run workload and faults; return when the healthy stretch began and ended, the end, and the faults."""
    workload = start_workload(plan.folder, plan.seed)
    stack.callback(workload.stop)
    injector = Injector(plan.folder)
    stack.callback(injector.stop)
    until = time.monotonic() + PATIENCE_S
    while find_workload() is None:
        workload.check()
        if time.monotonic() > until:
            raise SystemExit(f"the workload did not start: see {workload.log}")
        time.sleep(0.5)
    time.sleep(SETTLE_S)
    begin = datetime.now(UTC)
    time.sleep(plan.healthy_s)
    learned = datetime.now(UTC)
    time.sleep(LEAD_S)
    injected, notes = inject_all(plan, injector)
    end = datetime.now(UTC)
    wait_for(url, f"max(timestamp(node_intr_total)) >= bool {end.timestamp():.0f}", 1)
    return begin, learned, end, injected, notes


def table(faults: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of the faults."""
    head = ["fault injected", "its subsystem", "delay", "named", "right", "cause named", "right"]
    rows = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    mark = {True: "yes", False: "no", None: "–"}
    for match in faults:
        cells = [
            match["fault"],
            match["subsystem"],
            f"{match['delay_s']:+.1f} s" if match["found"] else "missed",
            match["found_subsystem"] or "–",
            mark[match["subsystem_right"]],
            match["found_cause"] or "–",
            mark[match["cause_right"]],
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def main() -> None:
    """Record, import, score, and write what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--faults", nargs="*", default=None, help="names; those of the full demo if not given"
    )
    parser.add_argument("--wide", action="store_true", help="let the exporter give all that it can")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=None, help="folder that keeps store and logs")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    if MISSING:
        raise SystemExit(f"not installed: {MISSING}")
    prepare_environment()
    with tempfile.TemporaryDirectory(prefix="prometheus-faults-") as name, termination_unwinds():
        plan = plan_demo(options.keep or Path(name), full=True, faults=options.faults, seed=options.seed)
        flags = known_flags(WIDE) if options.wide else []
        with ExitStack() as stack:
            exporter = stack.enter_context(node_exporter(plan.folder, flags))
            url = stack.enter_context(prometheus(plan.folder, [exporter], "1s"))
            begin, learned, end, injected, notes = record(plan, url, stack)
            store = str(plan.folder / "store")
            imported = import_prometheus(store, url=url, start=iso(begin), end=iso(end))
        places: dict[str, Any] = {
            "store": store,
            "tracking_uri": f"sqlite:///{plan.folder / 'mlflow.db'}",
            "host": imported["hosts"][0],
        }
        (model,) = fit_detectors(
            DirectRunner(),
            **places,
            start=iso(begin),
            end=iso(learned),
            profile="default",
            overrides={},
            seed=plan.seed,
            promote=False,
        )
        document = score_fleet(
            DirectRunner(),
            **places,
            start=iso(learned),
            end=iso(end),
            model=f"{model['model']}/{model['version']}",
            injected=injected,
        )
    faults = document["injected"]
    found = {match["subsystem"] for match in faults if match["found"]}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    lines = [
        f"node_exporter {'with ' + ' '.join(flags) if flags else 'as Debian starts it'}, every second "
        f"({os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release().split('-')[0]}): "
        f"{imported['samples']} samples, {model['features']} features, learned from "
        f"{plan.healthy_s:.0f} healthy seconds.",
        "",
        *table(faults),
        "",
        f"- found: {sum(bool(match['found']) for match in faults)} of {len(faults)}; false incidents: "
        f"{len(document['false_incidents'])}",
        f"- subsystems of which a fault was found: {', '.join(sorted(found)) or 'none'}; asked for: "
        f"{', '.join(DEMANDED)}",
        *(f"- {note}" for note in notes),
    ]
    text = "\n".join(lines) + "\n"
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    print(text)
    print(json.dumps({"skipped": imported["skipped"], "notes": imported["notes"]}, indent=1), file=sys.stderr)


if __name__ == "__main__":
    main()
