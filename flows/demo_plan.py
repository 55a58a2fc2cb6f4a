"""What a demo will do, decided and checked before anything is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.lab.faults import demo_faults, list_faults
from reveal_core.lab.faults.base import FaultInfo
from reveal_core.lab.workload import find_workload

START_S = 30.0
FINISH_S = 25.0
HEALTHY_S, FULL_HEALTHY_S = 105.0, 300.0
LEAD_S = 4.0
"""Scored before the first fault: then the window with its onset is whole and its delay the detector's own."""
FAULT_S = 8.5
GAP_S = 20.5


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
        return START_S + self.healthy_s + LEAD_S + len(self.faults) * (self.fault_s + self.gap_s) + FINISH_S


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
        raise UnavailableError(
            "a lab workload is running on this machine already: end it first, there can be one"
        )
    known = {info.name: info for info in list_faults()}
    if faults is not None:
        names = list(faults)
        if not names or len(set(names)) < len(names):
            raise UsageError(f"--faults needs different names out of {', '.join(known)}")
    else:
        names = demo_faults(len(known)) if full else demo_faults(3)
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
    return DemoPlan(
        folder,
        tuple(known[name] for name in names),
        FULL_HEALTHY_S if full else HEALTHY_S,
        FAULT_S,
        GAP_S,
        seed,
    )
