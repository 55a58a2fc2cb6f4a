"""NVIDIA GPUs through NVML, by the ``nvidia-ml-py`` library: what moves, what moves slowly, and their health.

Every call to the driver may hang, and a GPU may fall off its bus while it is watched. So each GPU is a part
of its own and is found, named and asked in its own reads; the list of GPUs only counts them.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from reveal_core.collect.columns import Columns, Slots
from reveal_core.collect.parts import Part
from reveal_core.collect.source import Source
from reveal_core.collect.sources.live import BOOT_ID, not_live
from reveal_core.collect.sources.nvml_gpu import Gpu, Reading
from reveal_core.collect.sources.nvml_queries import DETAIL, FAST, HEALTH, Table
from reveal_core.collect.sources.nvml_session import NvmlError, Session

FIRST_S = 2.0
"""How long a GPU has to answer when all are read at once, outside the sampling loop: at the first look."""
COUNT_S = 5.0
"""How often the GPUs are counted."""
LIBRARY = "libnvidia-ml.so.1"
DEVICES = "proc/driver/nvidia/gpus"
_REMEDIES = {
    4: "/dev/nvidiactl may not be opened: run as root or in the group that owns it",
    9: "the NVIDIA driver is not loaded: modprobe nvidia",
    12: "libnvidia-ml.so.1 is not there: no NVIDIA driver, or its libnvidia-ml package is not installed",
    18: "the NVIDIA driver was updated under the running one: reload the nvidia module, or reboot",
}


class Gpus:
    """How many GPUs there are, counted now and then; brings NVML back if it was lost.

    NVML knows the GPUs that were there when it was initialised, so a folder of the driver's is looked at for
    others, and NVML is begun anew for their sake.
    """

    def __init__(self, session: Session, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.session = session
        self.folder = folder
        self.path = "NVML"
        self._clock = clock
        self._due = 0.0
        self._found = (0, 0)
        self._addresses = self._list()

    def read(self) -> tuple[int, int]:
        """Return which initialisation of NVML this is, and how many GPUs it gives; the last if it is gone."""
        self.session.heal()
        if self._found[0] != self.session.generation:
            self._due, self._addresses = 0.0, self._list()
        if self._clock() >= self._due and self.session.is_up():
            self._due = self._clock() + COUNT_S
            self.session.enter()
            try:
                count = self.session.nvml.nvmlDeviceGetCount()
            except self.session.nvml.NVMLError as error:
                failure = self.session.error(error)
                if self.session.is_up():
                    raise failure from error
                return self._found  # NVML is gone, which the GPUs say themselves
            finally:
                self.session.leave()
            self._found = (self.session.generation, count)
            self._look_for_new()
        return self._found

    def _look_for_new(self) -> None:
        present = self._list()
        if present - self._addresses:
            self.session.begin_anew()
        self._addresses &= present

    def _list(self) -> set[str]:
        try:
            return set(os.listdir(self.folder))
        except OSError:
            return set()  # a container may not show it: then only a new start of the agent finds new GPUs

    def close(self) -> None:
        """Nothing to close."""


class GpusPart(Part):
    """The list of GPUs, which makes the parts of a source."""

    def __init__(self, gpus: Gpus, columns: Columns, found: Callable[[int, int], None]) -> None:
        super().__init__(gpus, columns)
        self.found = found

    def parse(self, data: Any) -> None:
        """See `Part.parse`."""
        self.found(*data)


class GpuPart(Part):
    """One GPU, with its slices and links."""

    def __init__(self, gpu: Gpu, columns: Columns) -> None:
        super().__init__(gpu, columns)
        self.outputs: object = None
        self.slots = Slots()
        self.lost = False

    def parse(self, data: Any) -> None:
        """See `Part.parse`."""
        reading: Reading = data
        if reading.outputs is not self.outputs:
            self.slots = Slots(self.add(*output) for output in reading.outputs)
            self.keep(self.slots)
            self.outputs = reading.outputs
        self.columns.put(self.slots, reading.numbers)
        if reading.lost and not self.lost:
            self.columns.failed(f"{self.file.path}: {reading.lost}")
        self.lost = reading.lost is not None


class NvmlSource(Source):
    """What moves with the work: utilisation, clocks and what holds them down, power, memory."""

    name = "gpu"
    detached = True
    table: ClassVar[Table] = FAST
    says_lost: ClassVar[bool] = True

    def __init__(self, root: Path, columns: Columns) -> None:
        super().__init__(root, columns)
        self.session: Session | None = None
        self.generation = 0
        self.gpus: list[dict[str, Any]] = []

    def probe(self) -> str | None:
        """See `Source.probe`."""
        elsewhere = not_live(self.root)
        if elsewhere is not None and self.path(BOOT_ID).exists():
            return elsewhere  # a tree that does not say whose it is may be mounted beside its own drivers
        try:
            ctypes.CDLL(LIBRARY)  # first, for most hosts have none, and pynvml weighs megabytes
        except OSError:
            return _REMEDIES[12]
        session = Session()
        try:
            session.start()
        except NvmlError as error:
            return _REMEDIES.get(error.code, str(error.strerror))
        try:
            count = session.nvml.nvmlDeviceGetCount()
        except session.nvml.NVMLError as error:
            session.close()
            return str(session.error(error).strerror)
        if not count:
            session.close()
            return "the NVIDIA driver has no GPU"
        self.session = session
        return None

    def open(self) -> None:
        """See `Source.open`."""
        assert self.session is not None
        self.parts.append(GpusPart(Gpus(self.session, self.path(DEVICES)), self.columns, self.found))
        if self.says_lost:
            # A GPU that hangs keeps the facts of all waiting, but never their samples.
            learning = threading.Thread(target=self._learn, daemon=True)
            learning.start()
            learning.join(FIRST_S)

    def _learn(self) -> None:
        self.gpus = gpu_facts()

    @property
    def facts(self) -> dict[str, Any]:
        """See `Source.facts`."""
        return {"gpus": self.gpus} if self.gpus else {}

    def read(self) -> list[int]:
        """Fill the row at once, all GPUs side by side; one that does not answer has no samples."""
        self.parts[0].update()
        answers: dict[Part, tuple[Any, Exception | None]] = {}

        def ask(part: Part) -> None:
            try:
                answers[part] = (part.file.read(), None)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is that GPU's and is told there
                answers[part] = (None, error)

        gpus = self.parts[1:]
        threads = [threading.Thread(target=ask, args=(part,), daemon=True) for part in gpus]
        for thread in threads:
            thread.start()
        until = time.monotonic() + FIRST_S
        for part, thread in zip(gpus, threads, strict=True):
            thread.join(max(0.0, until - time.monotonic()))
            data, failure = answers.get(part, (None, TimeoutError("does not answer")))
            part.accept(data, failure)
        return self.columns.row

    def found(self, generation: int, count: int) -> None:
        """Take up the GPUs of an initialisation of NVML."""
        assert self.session is not None
        if generation != self.generation:
            count_now = 0
            self.generation = generation
        else:
            count_now = min(count, len(self.parts) - 1)
        for part in self.parts[1 + count_now :]:
            part.close()
        # In place: whoever goes through the parts now comes to the new ones too.
        self.parts[1 + count_now :] = [
            GpuPart(Gpu(self.session, index, self.table, self.says_lost), self.columns)
            for index in range(count_now, count)
        ]

    def close(self) -> None:
        """See `Source.close`."""
        super().close()
        if self.session is not None:
            self.session.close()


class NvmlDetailSource(NvmlSource):
    """What moves slowly or only counts: temperatures, limits, PCIe, NVLink, Xid errors, processes."""

    name = "gpu_detail"
    period_ms = 1000
    table = DETAIL
    says_lost = False


class NvmlHealthSource(NvmlSource):
    """Tallies of what is broken (ECC, retired pages, remapped rows), modes, and what each GPU could do."""

    name = "gpu_health"
    period_ms = 5000
    table = HEALTH
    says_lost = False


def gpu_facts() -> list[dict[str, Any]]:
    """Return what identifies each NVIDIA GPU of this host, for the host's facts. It may hang with the driver.

    Returns
    -------
    list of dict
        ``index``, ``name`` (the instance of its channels), ``uuid``, ``pci_address``, ``product``,
        ``memory_bytes``, ``driver_version``; a fact that the GPU does not tell is None. Empty without NVML.
    """
    try:
        ctypes.CDLL(LIBRARY)
        session = Session()
        session.start()
    except OSError:
        return []
    nvml = session.nvml

    def told(ask: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return ask(*arguments)
        except nvml.NVMLError:
            return None

    facts = []
    driver = told(nvml.nvmlSystemGetDriverVersion)
    for index in range(told(nvml.nvmlDeviceGetCount) or 0):
        handle = told(nvml.nvmlDeviceGetHandleByIndex, index)
        if handle is None:
            continue  # lost before it could be named
        uuid = told(nvml.nvmlDeviceGetUUID, handle)
        facts.append(
            {
                "index": index,
                "name": session.name(uuid) if uuid else None,
                "uuid": uuid,
                "pci_address": getattr(told(nvml.nvmlDeviceGetPciInfo, handle), "busId", None),
                "product": told(nvml.nvmlDeviceGetName, handle),
                "memory_bytes": getattr(told(nvml.nvmlDeviceGetMemoryInfo, handle), "total", None),
                "driver_version": driver,
            }
        )
    session.close()
    return facts
