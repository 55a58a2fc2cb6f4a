"""Sensors of the board and of devices: temperature, power, energy, fans."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Hashable
from pathlib import Path

from reveal_core.collect.columns import MISSING
from reveal_core.collect.files import read_text
from reveal_core.collect.found import ValuesPart, WatchedSource, one
from reveal_core.collect.hotplug import MakeParts
from reveal_core.collect.source import left_out_note
from reveal_core.collect.valuefiles import ValueFiles, Values

SENSORS = "sys/class/hwmon"
MAX_DEVICES = 64
"""Devices with sensors that are read; a network adapter has one for each port."""

_FILE = re.compile(r"(temp|fan|energy)\d+_input|power\d+_(input|average)")
_TARGETS = {
    "temp": ("thermal.temperature", 1e-3),
    "power": ("hwmon.power", 1e-6),
    "energy": ("hwmon.energy", 1.0),
    "fan": ("hwmon.fan", 1.0),
}


def sensor_files(names: list[str]) -> list[str]:
    """Return the files of a device that are read, in order; of a power sensor's two the instant value.

    >>> sensor_files(["temp1_input", "in0_input", "power1_average", "power1_input", "power2_average"])
    ['power1_input', 'power2_average', 'temp1_input']
    """
    found: dict[str, str] = {}
    for name in sorted(names):
        if _FILE.fullmatch(name):
            found[name.partition("_")[0]] = name  # "input" comes after "average"
    return sorted(found.values())


class SensorsPart(ValuesPart):
    """The sensors of one device."""

    def parse(self, data: Values) -> None:
        """See `Part.parse`."""
        super().parse(data)
        row = self.columns.row
        for slot in self.slots:  # what a chip gives for a channel to which nothing is connected
            if slot >= 0 and row[slot] in (-128_000, -127_000, 255_500, 2**31 - 1, -(2**31)):
                row[slot] = MISSING


LEFT_OUT = frozenset(("amd_energy",))
"""Drivers whose every sensor interrupts the core that it belongs to; powercap tells a package's energy."""


class HwmonSource(WatchedSource):
    """``/sys/class/hwmon``: a driver may take a slow bus (I2C), firmware or the device itself (a disk's
    temperature is a command to it) to answer, so each device is read where it can be left waiting.

    An instance is named by the driver and the sensor's label, ``coretemp:Core_0``, and by the device too
    where that is not enough; voltages and currents are left out.
    """

    name = "hwmon"
    period_ms = 2000
    detached = True

    def signature(self) -> object:
        """See `WatchedSource.signature`."""
        return self.listing(SENSORS)

    def probe(self) -> str | None:
        """See `Source.probe`."""
        if not self._devices():
            return (
                f"{self.path(SENSORS)} holds no sensor that is read: usual in virtual machines; "
                "on others modprobe coretemp (k10temp on AMD) or sensors-detect finds the driver"
            )
        return None

    @property
    def notes(self) -> list[str]:
        """See `Source.notes`."""
        more = len(self._devices()) - MAX_DEVICES
        return left_out_note(more, "devices have sensors", MAX_DEVICES)

    def _devices(self) -> dict[Path, list[str]]:
        """Return the files that are read of each device, by its folder."""
        found = {}
        entries = [path for path in self.path(SENSORS).glob("hwmon*") if path.name[5:].isdigit()]
        for entry in sorted(entries, key=lambda path: int(path.name[5:])):
            for folder in (entry, entry / "device"):  # older drivers keep their files with the device
                files = sensor_files(os.listdir(folder)) if folder.is_dir() else []
                if files and self._name(folder) not in LEFT_OUT:
                    found[folder] = files
                    break
        return found

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        devices = dict(list(self._devices().items())[:MAX_DEVICES])
        names = {folder: self._name(folder) for folder in devices}
        labels = {folder: self._labels(folder, files) for folder, files in devices.items()}
        shared = Counter((names[folder], label) for folder in devices for label in set(labels[folder]))
        found: dict[Hashable, MakeParts] = {}
        for folder, files in devices.items():
            targets = []
            for file, label in zip(files, labels[folder], strict=True):
                metric, scale = _TARGETS[file.partition("_")[0].rstrip("0123456789")]
                alone = shared[names[folder], label] == 1
                device = names[folder] if alone else f"{names[folder]}@{self._address(folder)}"
                targets.append((metric, f"{device}:{label}", scale))
            key = f"{folder} {self._address(folder)} {' '.join(files)}"
            found[key] = one(SensorsPart, ValueFiles(folder, files), self.columns, targets)
        return found

    @staticmethod
    def _name(folder: Path) -> str:
        name = read_text(folder / "name") or folder.name
        return name.replace(" ", "_").replace("/", "_")

    @staticmethod
    def _labels(folder: Path, files: list[str]) -> list[str]:
        """Return what each sensor of a device is called; by its own name where labels repeat."""
        sensors = [file.partition("_")[0] for file in files]
        given = [(read_text(folder / f"{sensor}_label") or sensor).replace(" ", "_") for sensor in sensors]
        shared = Counter(given)
        return [
            label if shared[label] == 1 else f"{label}-{sensor}"
            for label, sensor in zip(given, sensors, strict=True)
        ]

    @staticmethod
    def _address(folder: Path) -> str:
        """Return what tells the device from its like: its bus address, which outlives a boot."""
        link = (folder if folder.name == "device" else folder / "device").resolve()
        return link.name if link.exists() else folder.name
