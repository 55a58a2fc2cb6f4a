"""A ``perf`` for tests: a program on PATH that prints what a script tells it, as perf 6 does."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reveal_core.collect.sources.perf import PerfSource
from reveal_core.collect.sources.perf_events import Event, Processor

FAKE = """#!/usr/bin/env python3
import json, os, sys, time
here = os.path.dirname(os.path.abspath(__file__))
plan = json.load(open(os.path.join(here, "plan.json")))
with open(os.path.join(here, "calls"), "a") as calls:
    calls.write(json.dumps({"argv": sys.argv[1:], "pid": os.getpid(), "lc": os.environ.get("LC_ALL"),
                            "nice": os.getpriority(os.PRIO_PROCESS, 0)}) + chr(10))
running = "--" not in sys.argv
part = plan["run" if running else "trial"]
if "-e" in sys.argv:
    events = sys.argv[sys.argv.index("-e") + 1]
    for word, (code, text) in part.get("refuse", {}).items():
        if word in events:
            sys.stderr.write(text + chr(10))
            sys.exit(code)
fd = int(sys.argv[sys.argv.index("--log-fd") + 1]) if "--log-fd" in sys.argv else 2
for text in part["write"]:
    data = text.encode()
    while data:
        data = data[os.write(fd, data):]
    time.sleep(part.get("pause", 0))
if part.get("hang"):
    time.sleep(60)
sys.exit(part.get("code", 0))
"""


def line(interval: float, event: str, value: Any, **more: Any) -> str:
    """Return a line as perf 6.1 prints it; ``cpu``, ``share`` and ``runtime`` (ns) can be given."""
    text = value if isinstance(value, str) else f"{value:f}"
    entry: dict[str, Any] = {"interval": interval}
    if "cpu" in more:
        entry["cpu"] = str(more["cpu"])
    if "socket" in more:
        entry |= {"socket": f"S{more['socket']}", "aggregate-number": 2}
    entry |= {"counter-value": text, "unit": "", "event": event}
    entry |= {"event-runtime": more.get("runtime", 0), "pcnt-running": more.get("share", 100.0)}
    entry |= {"metric-value": 0.0, "metric-unit": ""}
    return json.dumps(entry, separators=(", ", " : ")) + "\n"


class FakePerf:
    """The program in a folder of its own, first on PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        program = folder / "perf"
        program.write_text(FAKE, encoding="utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        self.trial: dict[str, Any] = {"write": []}
        self.run: dict[str, Any] = {"write": []}

    def ready(self) -> None:
        """Write down what it is to do."""
        plan = {"trial": self.trial, "run": self.run}
        (self.folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")

    @property
    def calls(self) -> list[dict[str, Any]]:
        """How it was called, every time."""
        path = self.folder / "calls"
        return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


class SoftwarePerf(PerfSource):
    """Counts software events, which every machine has, under names of the catalogue."""

    events: Sequence[Event] = (
        Event("perf.instructions", "task-clock", group="work"),
        Event("perf.cycles", "context-switches", group="work"),
        Event("perf.branches", "cpu-migrations"),
        Event("perf.branch_misses", "page-faults"),
    )

    def candidates(self, processor: Processor) -> Sequence[Event]:
        return self.events
