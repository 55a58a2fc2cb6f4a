"""What is known of a running workload, by a file that whoever wants to inject faults into it reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reveal_core.lab.place import lab_place
from reveal_core.lab.processes import ProcessId
from reveal_core.lab.progress import Progress, read_progress
from reveal_core.lab.variants import DEFAULT_VARIANT

Transport = Literal["namespaces", "loopback"]


@dataclass(frozen=True)
class WorkloadState:
    """A running workload, as its state file describes it to whoever wants to inject faults into it.

    Attributes
    ----------
    owner, ranks
        Processes that run it.
    files
        Scratch directory that it reads and writes.
    run_dir
        Directory of progress files and control sockets.
    transport, reason
        How the ranks talk, and why not through namespaces.
    namespace, links
        Name of rank 1's network namespace and of the veth pair's ends; empty on loopback.
    job, neighbour
        Names of the job's cgroup and of its neighbours'; empty without the right to make any.
    started
        When, ISO 8601 in UTC.
    variant
        Name of what the job is like, one of `reveal_core.lab.variants.VARIANTS`.
    """

    owner: ProcessId
    ranks: tuple[ProcessId, ...]
    files: Path
    run_dir: Path
    transport: Transport
    reason: str
    namespace: str
    links: tuple[str, ...]
    addresses: tuple[str, ...]
    job: str
    neighbour: str
    started: str
    variant: str = DEFAULT_VARIANT

    def steps(self) -> int:
        """Return the steps finished so far by rank 0: training steps and evaluation batches, or requests."""
        return self.progress().steps

    def progress(self) -> Progress:
        """Return the progress of rank 0."""
        return read_progress(self.run_dir / "progress-0")


def find_workload(state_dir: Path | None = None) -> WorkloadState | None:
    """Return the workload that runs on this machine, or None.

    Parameters
    ----------
    state_dir
        The lab's state directory; the default one if not given.
    """
    try:
        data = json.loads(lab_place(state_dir).state_file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    state = WorkloadState(
        **{
            **data,
            "owner": ProcessId(**data["owner"]),
            "ranks": tuple(ProcessId(**rank) for rank in data["ranks"]),
            "files": Path(data["files"]),
            "run_dir": Path(data["run_dir"]),
            "links": tuple(data["links"]),
            "addresses": tuple(data["addresses"]),
        }
    )
    return state if all(rank.alive() for rank in state.ranks) else None
