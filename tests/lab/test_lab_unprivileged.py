"""The lab for a user without rights: three faults of different subsystems, the rest with reasons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from lab_parts import run_unprivileged

SCRIPT = """
import json
from dataclasses import asdict
from pathlib import Path
from reveal_core.errors import UnavailableError
from reveal_core.lab.faults import demo_faults, inject, list_faults
from reveal_core.lab.workload import Workload

folder = Path({folder!r})
faults = [asdict(fault) for fault in list_faults()]
runs, refusals = [], []
with Workload(folder, state_dir=folder / "state") as workload:
    for name in demo_faults(3):
        before = workload.steps()
        run = inject(name, duration_s=0.5, state_dir=folder / "state")
        runs.append([name, run.how])
    for fault in faults:
        if not fault["available"]:
            try:
                inject(fault["name"], duration_s=1, state_dir=folder / "state")
            except UnavailableError as error:
                refusals.append(str(error))
    print(json.dumps([faults, runs, refusals, workload.transport, workload.reason, workload.running]))
"""


@pytest.fixture
def home() -> Iterator[Path]:
    with TemporaryDirectory(prefix="reveal-nobody-") as folder:  # pytest's own folders are closed to others
        yield Path(folder)


def test_three_faults_of_different_subsystems_without_rights(home: Path) -> None:
    done = run_unprivileged(SCRIPT.replace("{folder!r}", repr(str(home))), home)
    assert done.returncode == 0, done.stderr
    faults, runs, refusals, transport, reason, running = json.loads(done.stdout)
    subsystem = {fault["name"]: fault["subsystem"] for fault in faults if fault["available"]}
    assert len(runs) == 3
    assert len({subsystem[name] for name, _ in runs}) == 3
    unavailable = [fault for fault in faults if not fault["available"]]
    assert {"cpu-quota", "huge-pages-reserved"} <= {fault["name"] for fault in unavailable}
    assert len(refusals) == len(unavailable)
    assert all("root" in line or "kernel" in line or "single core" in line for line in refusals)
    assert transport == "loopback"
    assert "needs root" in reason
    assert running
    assert [p.name for p in home.iterdir() if p.name not in ("state", "keep")] == []
