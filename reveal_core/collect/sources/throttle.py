"""Clock held down: by heat, and by limits that somebody or the firmware set."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from reveal_core.collect.cpulist import sockets
from reveal_core.collect.files import HostFile
from reveal_core.collect.found import (
    CPU_FOLDER,
    WIDE,
    BriefFiles,
    CpuSource,
    LowestPart,
    SumPart,
    ValuesPart,
    one,
    value_files,
)
from reveal_core.collect.hotplug import MakeParts
from reveal_core.collect.parts import SingleValuePart

CORE = ("core_throttle_count", "core_throttle_total_time_ms")
PACKAGE = ("package_throttle_count", "package_throttle_total_time_ms")
LIMITS = ("scaling_max_freq", "bios_limit", "cpuinfo_max_freq")
SWITCHES = {
    "cpu.no_turbo": "intel_pstate/no_turbo",
    "cpu.max_perf_pct": "intel_pstate/max_perf_pct",
    "cpu.boost": "cpufreq/boost",
}
"""Settings of the whole host, by metric; the kernel has those of its frequency driver."""


class ThrottleSource(CpuSource):
    """``thermal_throttle`` of each core and package: how often and for how long heat held the clock down.

    The count of a package is the same on all its CPUs and is read once. With more than
    `reveal_core.collect.found.WIDE` CPUs the cores are put together.
    """

    name = "throttle"
    period_ms = 1000

    def probe(self) -> str | None:
        """See `Source.probe`."""
        if not self.folders("thermal_throttle"):
            return (
                f"{self.path(CPU_FOLDER)}/cpu*/thermal_throttle is not there: "
                "only Intel processors have it, and virtual machines seldom"
            )
        return None

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        folders = self.folders("thermal_throttle")
        found: dict[Hashable, MakeParts] = {}
        if len(folders) > WIDE:
            present = [
                (f"{cpu}/thermal_throttle/{name}", f"throttle.{name}")
                for cpu, folder in folders.items()
                for name in CORE
                if (folder / name).exists()
            ]
            file = value_files(self.path(CPU_FOLDER), [name for name, _ in present], len(present))
            found[" ".join(folders)] = one(SumPart, file, self.columns, [metric for _, metric in present])
        else:
            for cpu, folder in folders.items():
                found[cpu] = one(self._part, folder, CORE, cpu, len(folders))
        socket_of = sockets(self.path(CPU_FOLDER), [int(cpu[3:]) for cpu in folders])
        done = set()
        for cpu, folder in folders.items():
            socket = socket_of[int(cpu[3:])]
            if socket not in done:
                done.add(socket)
                found[f"socket{socket} by {cpu}"] = one(self._part, folder, PACKAGE, f"socket{socket}", 1)
        return found

    def _part(self, folder: Path, names: tuple[str, ...], instance: str, folders: int) -> ValuesPart:
        present = [name for name in names if (folder / name).exists()]
        targets = [(f"throttle.{name}", instance, 1.0) for name in present]
        return ValuesPart(value_files(folder, present, folders * len(present)), self.columns, targets)


class LimitsSource(CpuSource):
    """Limits of the clock: the highest that each core may go to, by policy and by the firmware, and whether
    turbo is allowed.

    With more than `reveal_core.collect.found.WIDE` CPUs the lowest limit of all is given.
    """

    name = "cpulimits"
    period_ms = 5000

    def probe(self) -> str | None:
        """See `Source.probe`."""
        if not self.find():
            return f"{self.path(CPU_FOLDER)}/cpu*/cpufreq is not there: usual in virtual machines"
        return None

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        found: dict[Hashable, MakeParts] = {}
        folders = self.folders("cpufreq")
        cores = {
            cpu: [name for name in LIMITS if (folder / name).exists()] for cpu, folder in folders.items()
        }
        cores = {cpu: names for cpu, names in cores.items() if names}
        if len(cores) > WIDE:
            cells = [(folders[cpu] / name, (f"cpu.{name}", 1e-3)) for cpu in cores for name in cores[cpu]]
            file = BriefFiles(self.path(CPU_FOLDER) / "cpu*/cpufreq", [path for path, _ in cells])
            targets = [target for _, target in cells]
            found[" ".join(cores)] = one(LowestPart, file, self.columns, targets)
        else:
            for cpu, names in cores.items():
                own = [(f"cpu.{name}", cpu, 1e-3) for name in names]
                files = BriefFiles(folders[cpu], [folders[cpu] / name for name in names])
                found[cpu] = one(ValuesPart, files, self.columns, own)
        for metric, name in SWITCHES.items():
            path = self.path(f"{CPU_FOLDER}/{name}")
            if path.exists():
                file_ = HostFile(path, whole=True)
                found[metric] = one(SingleValuePart, file_, self.columns, (metric, 1.0))
        return found
