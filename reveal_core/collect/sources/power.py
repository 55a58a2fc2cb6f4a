"""Energy used by the processors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from functools import partial
from pathlib import Path

from reveal_core.collect.columns import Columns
from reveal_core.collect.files import HostFile, read_text
from reveal_core.collect.hotplug import HotplugSource, MakeParts
from reveal_core.collect.parts import Part

FOLDER = "sys/class/powercap"


class EnergyPart(Part):
    """``energy_uj`` of a RAPL domain. It wraps at a range of its own, so the wrap is unrolled here."""

    def __init__(self, file: HostFile, columns: Columns, domain: str, wraps_at: int) -> None:
        super().__init__(file, columns)
        self.slot = self.add("power.energy", domain)
        self.wraps_at = wraps_at
        self.last = 0
        self.offset = 0

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        value = int(data)
        if value < self.last:
            self.offset += self.wraps_at
        self.last = value
        if self.slot is not None:
            self.columns.row[self.slot] = value + self.offset


class PowerSource(HotplugSource):
    """RAPL domains, of Intel's processors and, since Linux 5.8, of AMD's.

    A driver that is loaded late is found while the collector runs. AMD's older driver, amd_energy, is one of
    hwmon's sensors.
    """

    name = "power"
    period_ms = 1000

    def _domains(self) -> list[tuple[str, Path]]:
        """Return name and file of each domain; a name that is not unique gets the folder's."""
        found = []
        for folder in sorted(self.path(FOLDER).glob("*-rapl:*")):
            parent = folder.name.rsplit(":", 1)[0]
            name = read_text(folder / "name") or folder.name
            if parent.count(":"):  # a part of a package: say of which
                name = f"{read_text(folder.parent / parent / 'name') or parent}:{name}"
            found.append((name, folder.name, folder / "energy_uj"))
        shared = Counter(name for name, _, _ in found)
        return [(name if shared[name] == 1 else f"{name}@{folder}", file) for name, folder, file in found]

    def probe(self) -> str | None:
        """See `Source.probe`."""
        domains = self._domains()
        if not domains:
            return (
                f"{self.path(FOLDER)} holds no RAPL domain: usual in virtual machines, "
                "else modprobe intel_rapl_msr"
            )
        return self.missing(
            *(str(file.relative_to(self.root)) for _, file in domains), hint="energy_uj needs root"
        )

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        return {(domain, file): partial(self._parts, domain, file) for domain, file in self._domains()}

    def _parts(self, domain: str, file: Path) -> Iterator[Part]:
        range_ = read_text(file.parent / "max_energy_range_uj") or ""
        wraps_at = int(range_) if range_.isdigit() else 0
        yield EnergyPart(HostFile(file, whole=True), self.columns, domain, wraps_at)
