"""Temperatures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from reveal_core.collect.files import HostFile, read_text
from reveal_core.collect.parts import SingleValuePart
from reveal_core.collect.source import Source

ZONES = "sys/class/thermal"
SENSORS = "sys/class/hwmon"


class ThermalSource(Source):
    """Thermal zones and hwmon sensors, in thousandths of a degree.

    Some drivers ask slow hardware, so it is read slowly.
    """

    name = "thermal"
    period_ms = 2000

    def _files(self) -> list[tuple[str, Path]]:
        """Return label and file of each temperature; a label that is not unique gets the device's name."""
        found = []
        for zone in sorted(self.path(ZONES).glob("thermal_zone*")):
            found.append((read_text(zone / "type") or zone.name, zone.name, zone / "temp"))
        for file in sorted(self.path(SENSORS).glob("hwmon*/temp*_input")):
            sensor = file.name.removesuffix("_input")
            label = read_text(file.parent / f"{sensor}_label") or sensor
            device = read_text(file.parent / "name") or file.parent.name
            found.append((f"{device}:{label}".replace(" ", "_"), file.parent.name, file))
        shared = Counter(label for label, _, _ in found)
        return [
            (label if shared[label] == 1 else f"{label}@{device}", file)
            for label, device, file in found
            if file.exists()
        ]

    def probe(self) -> str | None:
        """See `Source.probe`."""
        files = self._files()
        if not files:
            return (
                f"{self.path(ZONES)} and {self.path(SENSORS)} hold no temperature: usual in virtual machines"
            )
        return self.missing(*(str(file.relative_to(self.root)) for _, file in files))

    def open(self) -> None:
        """See `Source.open`."""
        for label, file in self._files():
            target = ("thermal.temperature", 1e-3)
            self.parts.append(SingleValuePart(HostFile(file, whole=True), self.columns, target, label))
