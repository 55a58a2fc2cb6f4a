"""Idle states that the kernel chose, per core."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from reveal_core.collect.files import read_text
from reveal_core.collect.found import (
    CPU_FOLDER,
    WIDE,
    CpuSource,
    SumPart,
    ValuesPart,
    one,
    value_files,
)
from reveal_core.collect.hotplug import MakeParts


def state_name(name: str) -> str:
    """Return what an idle state is called, without the driver's and the processor's own addition.

    >>> state_name("C6-SKX"), state_name("C1_ACPI"), state_name("POLL"), state_name("LPI-2")
    ('C6', 'C1', 'POLL', 'LPI-2')
    """
    name = name.removesuffix("_ACPI").replace(" ", "_")
    stem, _, rest = name.partition("-")
    return name if rest.isdigit() or not stem else stem


class CpuidleSource(CpuSource):
    """``cpuidle/state*/{time,usage}`` of each core: time in a state, and how often it was entered.

    What the kernel chose, which a driver or the hardware may shorten; the hardware's own count of core and
    package states is perf's. With more than `reveal_core.collect.found.WIDE` CPUs the mean time over all of
    them is given, without the number of entries.
    """

    name = "cpuidle"
    period_ms = 1000

    def probe(self) -> str | None:
        """See `Source.probe`."""
        folders = self.folders("cpuidle")
        if not folders:
            return f"{self.path(CPU_FOLDER)}/cpu*/cpuidle is not there: usual in virtual machines"
        return self.missing(*(f"{folder.relative_to(self.root)}/state0/time" for folder in folders.values()))

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        folders = self.folders("cpuidle")
        if len(folders) <= WIDE:
            return {cpu: one(self._part, cpu, folder, len(folders)) for cpu, folder in folders.items()}
        # Cores of a wide host have the same states, so their names are asked of one core only.
        states = self._states(next(iter(folders.values())))
        names = [f"{cpu}/cpuidle/{state}/time" for cpu in folders for state, _ in states]
        file = value_files(self.path(CPU_FOLDER), names, len(names))
        metrics = [f"cstate.{name}" for _ in folders for _, name in states]
        return {" ".join(folders): one(SumPart, file, self.columns, metrics, mean=True)}

    def _states(self, folder: Path) -> list[tuple[str, str]]:
        """Return folder and name of each state of a core."""
        found = []
        for state in sorted(folder.glob("state[0-9]*"), key=lambda path: int(path.name[5:])):
            name = state_name(read_text(state / "name") or "")
            if name and f"cstate.{name}" in self.columns.catalog:
                found.append((state.name, name))
            elif name:
                self.columns.unknown.add(f"cstate.{name}")
        return found

    def _part(self, cpu: str, folder: Path, cpus: int) -> ValuesPart:
        names, targets = [], []
        for state, name in self._states(folder):
            names += [f"{state}/time", f"{state}/usage"]
            targets += [(f"cstate.{name}", cpu, 1.0), (f"cstate.{name}_usage", cpu, 1.0)]
        return ValuesPart(value_files(folder, names, cpus * len(names)), self.columns, targets)
