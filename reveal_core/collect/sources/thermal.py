"""Temperatures of thermal zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from pathlib import Path

from reveal_core.collect.files import HostFile, read_text
from reveal_core.collect.found import WatchedSource, one
from reveal_core.collect.hotplug import MakeParts
from reveal_core.collect.parts import SingleValuePart

ZONES = "sys/class/thermal"


class ThermalSource(WatchedSource):
    """Thermal zones, in thousandths of a degree.

    Some are asked of the firmware, so they are read slowly.
    """

    name = "thermal"
    period_ms = 2000

    def _zones(self) -> dict[str, Path]:
        """Return the file of each zone by label: its type, with the zone's name where the type is shared."""
        zones = sorted(self.path(ZONES).glob("thermal_zone*"))
        types = {zone: read_text(zone / "type") or zone.name for zone in zones}
        shared = Counter(types.values())
        return {
            (label if shared[label] == 1 else f"{label}@{zone.name}"): zone / "temp"
            for zone, label in types.items()
            if (zone / "temp").exists()
        }

    def probe(self) -> str | None:
        """See `Source.probe`."""
        zones = self._zones()
        if not zones:
            return f"{self.path(ZONES)} holds no thermal zone: usual in virtual machines"
        return self.missing(*(str(file.relative_to(self.root)) for file in zones.values()))

    def signature(self) -> object:
        """See `WatchedSource.signature`."""
        return self.listing(ZONES)

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        return {
            f"{label} {file}": one(
                SingleValuePart,
                HostFile(file, whole=True),
                self.columns,
                ("thermal.temperature", 1e-3),
                label,
            )
            for label, file in self._zones().items()
        }
