"""Clock frequency per core."""

from __future__ import annotations

from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import SingleValuePart
from reveal_core.collect.source import Source

FOLDER = "sys/devices/system/cpu"


class CpufreqSource(Source):
    """``cpufreq/scaling_cur_freq`` of each core, in kHz.

    Reading it may interrupt the core, so it is read slowly.
    """

    name = "cpufreq"
    period_ms = 1000

    def _files(self) -> list[tuple[str, str]]:
        found = self.path(FOLDER).glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
        cores = sorted((int(path.parts[-3][3:]), path) for path in found if path.parts[-3][3:].isdigit())
        return [(f"cpu{core}", str(path.relative_to(self.root))) for core, path in cores]

    def probe(self) -> str | None:
        """See `Source.probe`."""
        files = self._files()
        if not files:
            return f"{self.path(FOLDER)}/cpu*/cpufreq is not there: usual in virtual machines"
        return self.missing(*(file for _, file in files))

    def open(self) -> None:
        """See `Source.open`."""
        for core, file in self._files():
            self.parts.append(
                SingleValuePart(
                    HostFile(self.path(file), whole=True), self.columns, ("cpu.frequency", 1e-3), core
                )
            )
