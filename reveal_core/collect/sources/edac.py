"""Memory errors that the memory controllers corrected or could not correct."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from pathlib import Path

from reveal_core.collect.files import HostFile, read_text
from reveal_core.collect.hotplug import HotplugSource, MakeParts, devices
from reveal_core.collect.parts import Part, SingleValuePart

FOLDER = "sys/devices/system/edac/mc"
CONTROLLER_FILES = ("ce_count", "ue_count", "ce_noinfo_count", "ue_noinfo_count")
MODULE_FILES = {"dimm_ce_count": "edac.dimm_ce_count", "dimm_ue_count": "edac.dimm_ue_count"}
ROW_FILES = {"ce_count": "edac.csrow_ce_count", "ue_count": "edac.csrow_ue_count"}


def module_name(controller: str, dimm: Path) -> str:
    """Return what a memory module is called: the label that firmware or administrator gave its slot."""
    label = (read_text(dimm / "dimm_label") or "").replace(" ", "_")
    return f"{controller}:{label or dimm.name}"


class EdacSource(HotplugSource):
    """Corrected and uncorrected errors per memory controller and module.

    Kernels before 3.6 and drivers of their age know rows of chips (``csrow``) instead of modules; where
    there are modules, the rows say the same once more and are not read. A driver that is loaded anew begins
    at zero: a counter that goes back is a reset.
    """

    name = "edac"
    period_ms = 2000
    rescan_ms = 30_000

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        found: dict[Hashable, MakeParts] = {}
        for controller in devices(self.path(FOLDER), "mc"):
            found[controller.name] = partial(self._controller_parts, controller)
            modules = [*devices(controller, "dimm"), *devices(controller, "rank")]
            labels: set[str] = set()
            for module in modules:
                label = module_name(controller.name, module)
                if label in labels:  # some boards give every slot the same label
                    label = f"{label}@{module.name}"
                labels.add(label)
                found[controller.name, module.name, label] = partial(
                    self._count_parts, module, MODULE_FILES, label
                )
            for row in [] if modules else devices(controller, "csrow"):
                name = f"{controller.name}:{row.name}"
                found[name] = partial(self._count_parts, row, ROW_FILES, name)
        return found

    def _controller_parts(self, controller: Path) -> Iterator[Part]:
        metrics = {file: f"edac.{file}" for file in CONTROLLER_FILES}
        return self._count_parts(controller, metrics, controller.name)

    def _count_parts(self, folder: Path, metrics: dict[str, str], instance: str) -> Iterator[Part]:
        for file, metric in metrics.items():
            if (folder / file).exists():
                yield SingleValuePart(
                    HostFile(folder / file, whole=True), self.columns, (metric, 1.0), instance
                )

    def probe(self) -> str | None:
        """See `Source.probe`."""
        if not devices(self.path(FOLDER), "mc"):
            return (
                f"{self.path(FOLDER)}/mc* is not there: no EDAC driver has found a memory controller; "
                "modprobe skx_edac, i10nm_edac, sb_edac or amd64_edac; usual in virtual machines"
            )
        return None
