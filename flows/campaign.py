"""``reveal lab campaign``: faults injected for hours, piece by piece, and what Reveal makes of them.

While a piece records, this process only sleeps: on a small machine any work of half a second is a fault by
itself. Work is done between pieces.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from flows.demo_parts import Companion, Injector, start_collector, start_workload
from reveal_core.errors import UnavailableError
from reveal_core.incidents import iso
from reveal_core.lab.campaign_plan import SETTLE_S, CampaignPlan, PiecePlan, PlannedFault, plan_piece
from reveal_core.lab.faults import list_faults
from reveal_core.lab.journal import clean_up
from reveal_core.lab.processes import termination_unwinds
from reveal_core.lab.progress import pace
from reveal_core.lab.state import find_workload
from tasks.campaign_files import CampaignFolder, PieceFolder

SEGMENT_S = 60.0
BEFORE_S = 20.0
"""The workload's pace before a fault is taken over so long, less than the shortest gap."""
PATIENCE_S = 120.0
"""How long anything that is started may take, and a fault to be undone."""
STEP_S = 1.0
"""Between two looks whether everything still runs; each costs microseconds."""

Tell = Callable[[str], None]
T = TypeVar("T")


def tell(line: str) -> None:
    """Say what happens, in one line on standard error: a moving display would cost work."""
    sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S}  {line}\n")
    sys.stderr.flush()


def injected(pieces: list[PieceFolder]) -> int:
    """Return how many faults the pieces hold."""
    return sum(len(piece.facts()["faults"]) for piece in pieces)


def record_campaign(
    folder: CampaignFolder,
    plan: CampaignPlan,
    runs: int,
    *,
    host: str,
    say: Tell,
    after: Callable[[PieceFolder], None],
) -> None:
    """Record pieces until so many faults have been injected in all.

    Parameters
    ----------
    folder, plan
        The campaign; pieces that it holds already count.
    runs
        How many faults it is to hold.
    host
        Label of this host.
    say
        Told what happens.
    after
        Called with each new piece, when nothing is recorded.

    Raises
    ------
    UnavailableError
        If the lab or the collector does not start or ends by itself, or none of a piece's faults could be
        injected.
    """
    pieces = folder.pieces()
    while (left := runs - injected(pieces)) > 0:
        number = pieces[-1].number + 1 if pieces else 0
        piece = plan_piece(plan, number, most=left)
        target = folder.new_piece(number)
        say(
            f"piece {number} ({piece.variant}): {len(piece.faults)} faults in about "
            f"{piece.seconds / 60:.0f} minutes; {runs - left} of {runs} injected so far"
        )
        recorded = record_piece(piece, target, host=host, say=say)
        if not recorded:
            raise UnavailableError(f"no fault of piece {number} could be injected: see {target.path}")
        pieces.append(target)
        after(target)


def record_piece(piece: PiecePlan, folder: PieceFolder, *, host: str, say: Tell) -> int:
    """Record a piece and return how many faults it holds; whatever ends it, everything is undone.

    Raises
    ------
    UnavailableError
        If the lab or the collector does not start or ends by itself.
    """
    with termination_unwinds(), ExitStack() as stack:
        return Recording(piece, folder, host, say, stack).run()


class Recording:
    """A piece that is being recorded; its processes are registered in ``stack``, which stops them."""

    def __init__(self, piece: PiecePlan, folder: PieceFolder, host: str, say: Tell, stack: ExitStack) -> None:
        self.piece = piece
        self.folder = folder
        self.host = host
        self.say = say
        self.stack = stack
        self.companions: list[Companion] = []
        self.known = {info.name: info for info in list_faults()}

    def run(self) -> int:
        """Record, keep what was injected, and return how many faults that are."""
        for line in clean_up():
            self.say(f"left over from before: {line}")
        piece, path = self.piece, self.folder.path
        workload = self.start(start_workload(path, piece.seed, piece.variant))
        self.injector = Injector(path)
        self.start(self.injector)
        collector = self.start(
            start_collector(path, self.folder.store, host=self.host, segment_s=SEGMENT_S, flow=False)
        )
        self.state = self.wait_for(find_workload, "the workload", workload)
        self.wait(SETTLE_S)
        healthy_start = datetime.now(UTC)
        self.wait(piece.healthy_s)
        healthy_end = datetime.now(UTC)
        if not any((self.folder.store / "telemetry").rglob("*.parquet")):
            raise UnavailableError(f"the collector has stored nothing: see {collector.log}")
        self.say(f"{piece.healthy_s:.0f} s of healthy telemetry; faults begin")
        faults, skipped = self.inject_faults()
        end = datetime.now(UTC)
        self.end(collector, signal.SIGINT)  # it stores what it has
        for companion in (self.injector, workload):
            self.end(companion)
        self.folder.finish(
            {
                "number": piece.number,
                "variant": piece.variant,
                "seed": piece.seed,
                "host": self.host,
                "transport": self.state.transport,
                "healthy_start": iso(healthy_start),
                "healthy_end": iso(healthy_end),
                # Rounded up to the millisecond, so that the last fault's end lies within.
                "end": iso(end + timedelta(milliseconds=1)),
                "skipped": skipped,
            },
            faults,
        )
        return len(faults)

    def inject_faults(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Inject the piece's faults; return those that took effect, and the others with the reason."""
        faults, skipped = [], []
        for number, fault in enumerate(self.piece.faults, 1):
            try:
                faults.append(self.inject_one(fault))
                words = faults[-1]["how"]
            except UnavailableError as error:
                self.check()
                skipped.append({"fault": fault.name, "reason": str(error)})
                words = f"not injected: {error}"
            self.say(f"{number} of {len(self.piece.faults)}: {fault.name}: {words}")
            if fault.control_s:
                self.wait(fault.control_s)
        return faults, skipped

    def inject_one(self, fault: PlannedFault) -> dict[str, Any]:
        """Wait for the healthy gap before a fault, inject it, and return the truth."""
        self.wait(fault.gap_s - BEFORE_S)
        began, before = time.monotonic(), self.state.progress()
        self.wait(BEFORE_S)
        usual = pace(before, self.state.progress(), time.monotonic() - began)
        begun = datetime.now(UTC)
        self.injector.begin(fault.name, fault.seconds, fault.intensity)
        until = time.monotonic() + fault.seconds + PATIENCE_S
        while (run := self.injector.result(STEP_S)) is None:
            self.check()
            if time.monotonic() > until:
                raise UnavailableError(f"it is not undone after {PATIENCE_S:.0f} s: see {self.injector.log}")
        info = self.known[fault.name]
        return {
            **run,
            "begun": iso(begun),
            "subsystem": info.subsystem,
            "causes": list(info.causes),
            "host": self.host,
            "intensity": fault.intensity,
            "seconds": fault.seconds,
            "pace_before": usual,
        }

    def start(self, companion: Companion) -> Companion:
        """Watch a process from now on, and stop it at the end."""
        self.stack.callback(companion.stop)
        self.companions.append(companion)
        return companion

    def end(self, companion: Companion, number: int = signal.SIGTERM) -> None:
        """Stop a process that has done its work."""
        self.companions.remove(companion)
        companion.stop(number)

    def check(self) -> None:
        """Raise if something that must run does not."""
        for companion in self.companions:
            companion.check()

    def wait(self, seconds: float) -> None:
        """Sleep, and look now and then whether everything runs."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, STEP_S))
            self.check()

    def wait_for(self, look: Callable[[], T | None], what: str, companion: Companion) -> T:
        """Return what ``look`` finds as soon as it finds something."""
        until = time.monotonic() + PATIENCE_S
        while (found := look()) is None:
            if time.monotonic() > until:
                raise UnavailableError(f"{what} did not come within {PATIENCE_S:.0f} s: see {companion.log}")
            self.wait(STEP_S)
        return found


def free_lab() -> None:
    """Raise UnavailableError if a lab workload runs on this machine already."""
    if find_workload() is not None:
        raise UnavailableError(
            "a lab workload is running on this machine already: end it first, there can be one"
        )
