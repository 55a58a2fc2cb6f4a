"""Stand-in GPUs: a C stub of NVIDIA's library that the real ``nvidia-ml-py`` loads, and scripts for it.

``with stub_nvml(tmp_path, gpus=8) as stub:`` gives eight busy H100s in this process; ``stub.set(3, "lost")``
changes what GPU 3 says from the next call on. ``stub.env()`` is the environment in which another process
finds them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml_stub.c")
MIB = 2**20
LOST = "error 15"

Key = tuple[str, str]
"""Which GPU (``0``, ``0.2`` for the slice at place 2 of it, ``*``) and what is asked."""


def h100() -> dict[str, str]:
    """Return what a busy H100 answers, as captured with driver 590."""
    answers = {
        "Name": "NVIDIA H100 80GB HBM3",
        "UtilizationRates": "100 11",
        "ClockInfo.0": "1980",
        "ClockInfo.1": "1980",
        "ClockInfo.2": "2619",
        "ClockInfo.3": "1545",
        "CurrentClocksEventReasons": "0",
        "CurrentClocksThrottleReasons": "0",
        # total, reserved, free, used
        "MemoryInfo": f"{81559 * MIB} {479 * MIB} {61263 * MIB} {19818 * MIB}",
        "PowerUsage": "629450",
        "EncoderUtilization": "0 1000",
        "DecoderUtilization": "0 1000",
        "JpgUtilization": "0 1000",
        "OfaUtilization": "0 1000",
        "BAR1MemoryInfo": f"{131072 * MIB} {111253 * MIB} {19819 * MIB}",
        "Temperature.0": "59",
        "MarginTemperature": "26",
        "PerformanceState": "0",
        "EnforcedPowerLimit": "700000",
        "CurrPcieLinkGeneration": "5",
        "CurrPcieLinkWidth": "16",
        "ComputeRunningProcesses": "3",
        "GraphicsRunningProcesses": "0",
        "PcieReplayCounter": "9",
        "PcieThroughput.0": "3092",
        "PcieThroughput.1": "6346",
        "TotalEnergyConsumption": "123456789",
        "SupportedEventTypes": "8",
        "MaxClockInfo.0": "1980",
        "MaxClockInfo.1": "1980",
        "MaxClockInfo.2": "2619",
        "MaxClockInfo.3": "1545",
        "MaxPcieLinkGeneration": "5",
        "MaxPcieLinkWidth": "16",
        "PersistenceMode": "1",
        "ComputeMode": "0",
        "MigMode": "0 0",
    }
    for kind in (0, 1):
        for counter in (0, 1):
            answers[f"MemoryErrorCounter.{kind}.{counter}.7"] = "0"
    fields = {
        186: "ui:588390",
        82: "ui:55",
        83: "ull:123456789",
        94: "ui:9",
        197: "ull:7000000000",
        198: "ull:9000000000",
        91: "ui:18",
        1: "ui:1",
        **dict.fromkeys((3, 4, 5, 6, 11, 12, 22, 23), "ull:0"),
        **dict.fromkeys((74, 75, 76, 78, 79, 80, 81), "ull:0"),
        **dict.fromkeys((38, 45, 52, 59, 160), "ull:0"),
        **dict.fromkeys((142, 143, 144, 145), "ui:0"),
        189: "ui:700000",
        193: "si:-8",
        194: "si:-2",
        195: "si:0",
        196: "si:0",
    }
    answers |= {f"Field.{number}": value for number, value in fields.items()}
    for number, value in ((138, 5000), (139, 6000), (140, 5500), (141, 6500)):
        answers[f"Field.{number}.{2**32 - 1}"] = f"ull:{18 * value}"
    for link in range(18):
        answers[f"NvLinkState.{link}"] = "1"
        scope = f".{link}" if link else ""
        for number in (138, 139):
            answers[f"Field.{number}{scope}"] = "ull:5000"
        for number in (161, 162, 163):
            answers[f"Field.{number}{scope}"] = "ull:0"
    return answers


def mig_slice(gpu_instance: int, gib: int, used: int) -> dict[str, str]:
    """Return what a MIG slice answers."""
    return {
        "GpuInstanceId": str(gpu_instance),
        "ComputeInstanceId": "0",
        "MemoryInfo": f"{gib * 1024 * MIB} 0 {gib * 1024 * MIB - used} {used}",
        "BAR1MemoryInfo": f"{6184 * MIB} {6184 * MIB} 0",
        "ComputeRunningProcesses": "1",
        "MemoryErrorCounter.1.0.7": "0",
    }


def uuid(gpu: int) -> str:
    """Return a stand-in's UUID."""
    return f"GPU-{0x1A2B3C40 + gpu:08x}-5566-7788-99aa-{gpu:012x}"


def name(gpu: int) -> str:
    """Return the instance of a stand-in's channels."""
    return uuid(gpu)[:12]


class NvmlStub:
    """A script for the stub, written at each change.

    Parameters
    ----------
    folder
        Where library and script lie.
    gpus
        How many GPUs there are.
    """

    def __init__(self, folder: Path, gpus: int) -> None:
        self.folder = folder
        self.script = folder / "nvml_script.txt"
        self.count = gpus
        self.epoch = 1
        self.init_error = 0
        self.answers: dict[Key, str] = {("*", key): value for key, value in h100().items()}
        self.later: list[str] = []
        for gpu in range(16):
            self.answers[(str(gpu), "UUID")] = uuid(gpu)
            self.answers[(str(gpu), "PciInfo")] = f"00000000:{gpu + 1:02X}:00.0"
        self.write()

    def set(self, gpu: int | str, key: str, *values: object, after: float | None = None) -> None:
        """Set what a GPU answers: ``"lost"``, ``"hang"``, or a key with numbers, ``"unsupported"``,
        ``"lost"``, ``"hang"`` or ``"error 999"``; with ``after`` only from so many seconds from now on.
        """
        if key in ("lost", "hang"):
            key, values = "all", (key,)
        text = " ".join(str(value) for value in values)
        text = {"lost": LOST, "unsupported": "error 3"}.get(text, text)
        if after is None:
            self.answers[(str(gpu), key)] = text
        else:
            self.later.append(f"@{time.time() + after:.3f} {gpu} {key} {text}")
        self.write()

    def clear(self, gpu: int | str, key: str = "all") -> None:
        """Take back what was set."""
        self.answers.pop((str(gpu), key), None)
        self.write()

    def reload_driver(self) -> None:
        """Make every call fail until the library is initialised anew."""
        self.epoch += 1
        self.write()

    def slice_up(self, gpu: int, slices: list[dict[str, str]]) -> None:
        """Cut a GPU into MIG slices; it gives no utilisation of its own then."""
        self.answers[(str(gpu), "MigMode")] = "1 1" if slices else "0 0"
        self.answers[(str(gpu), "MaxMigDeviceCount")] = "7"
        for key in [key for key in self.answers if key[0].startswith(f"{gpu}.")]:
            del self.answers[key]
        for place, answers in enumerate(slices):
            self.answers |= {(f"{gpu}.{place}", key): value for key, value in answers.items()}
        for key in ("UtilizationRates", "EncoderUtilization", "DecoderUtilization", "JpgUtilization"):
            self.answers.pop((str(gpu), key), None)
            if slices:
                self.answers[(str(gpu), key)] = "error 3"
        self.write()

    def write(self) -> None:
        """Write the script in one step."""
        lines = [f"count {self.count}", f"epoch {self.epoch}", f"init {self.init_error}"]
        lines += [f"{gpu} {key} {value}" for (gpu, key), value in self.answers.items()]
        new = self.script.with_suffix(".new")
        new.write_text("\n".join([*lines, *self.later]) + "\n", encoding="utf-8")
        new.replace(self.script)

    def env(self) -> dict[str, str]:
        """Return the environment in which another process finds these GPUs."""
        paths = [str(self.folder), os.environ.get("LD_LIBRARY_PATH", "")]
        return {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(path for path in paths if path),
            "NVML_STUB_SCRIPT": str(self.script),
        }


def build_stub(folder: Path, *, old: bool = False) -> Path:
    """Compile the stub into a folder, or skip the test where no compiler is.

    ``old`` leaves out what libraries of a few years ago lack.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build the NVML stub with")
    library = folder / "libnvidia-ml.so.1"
    if not library.exists():
        command = [compiler, "-O1", "-shared", "-fPIC", "-pthread", "-Wall", "-Werror"]
        command += ["-DNVML_STUB_OLD"] if old else []
        command += ["-Wl,-soname,libnvidia-ml.so.1", "-o", str(library), str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True, text=True)
    return library


@contextmanager
def stub_nvml(folder: Path, gpus: int = 1, *, load: bool = True, old: bool = False) -> Iterator[NvmlStub]:
    """Give stand-in GPUs: in this process, or only for others (``load=False``, with `NvmlStub.env`).

    A process keeps the first library that it loaded, so a second call in it gives that one a new script.
    """
    stub = NvmlStub(folder, gpus)
    if not load:
        build_stub(folder, old=old)
        yield stub
        return
    try:
        loaded = ctypes.CDLL("libnvidia-ml.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        # Loaded by its path under the name that nvidia-ml-py asks for, so that one gets this library.
        loaded = ctypes.CDLL(str(build_stub(folder)), mode=ctypes.RTLD_GLOBAL)
    if not hasattr(loaded, "nvml_stub_use"):
        pytest.skip("NVIDIA's own library is loaded in this process")
    use = loaded.nvml_stub_use
    before = set(threading.enumerate())
    use(str(stub.script).encode())
    try:
        yield stub
    finally:
        use(b"")
        # Calls that hung are let go now; they must be over before the library serves the next test.
        until = time.monotonic() + 5
        for thread in set(threading.enumerate()) - before:
            thread.join(max(0.0, until - time.monotonic()))
