"""Clock frequency per core."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

from reveal_core.collect.found import CPU_FOLDER, CpuSource, ValuesPart, one, value_files
from reveal_core.collect.hotplug import MakeParts

FILE = "cpufreq/scaling_cur_freq"


class CpufreqSource(CpuSource):
    """``cpufreq/scaling_cur_freq`` of each core, in kHz.

    Reading it may interrupt the core, so it is read slowly.
    """

    name = "cpufreq"
    period_ms = 1000

    def probe(self) -> str | None:
        """See `Source.probe`."""
        files = self.folders(FILE)
        if not files:
            return f"{self.path(CPU_FOLDER)}/cpu*/cpufreq is not there: usual in virtual machines"
        return self.missing(*(str(file.relative_to(self.root)) for file in files.values()))

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        files = self.folders(FILE)
        return {cpu: one(self._part, cpu, file, len(files)) for cpu, file in files.items()}

    def _part(self, cpu: str, file: Path, total: int) -> ValuesPart:
        target = ("cpu.frequency", cpu, 1e-3)
        return ValuesPart(value_files(file.parent, [file.name], total), self.columns, [target])
