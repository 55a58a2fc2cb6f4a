"""AMD GPUs through AMD's own tools, ``amd-smi`` or else ``rocm-smi``, whose JSON they print."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from reveal_core.collect.columns import Columns
from reveal_core.collect.parts import Part
from reveal_core.collect.source import Source
from reveal_core.collect.sources.amdgpu_json import SCALES, Samples, amd_smi, amd_smi_names, rocm_smi
from reveal_core.collect.sources.live import not_live

FOLDERS = ("/opt/rocm/bin", "/usr/local/bin")
"""Where the tools are besides the search path."""
MODULE = "sys/module/amdgpu"
TOOL_S = 20.0
"""How long a tool may take; it takes about a second where all is well."""
ROCM_SMI = (
    *("--showuniqueid", "--showserial", "--showbus", "--showtemp", "--showuse", "--showmemuse"),
    *("--showmeminfo", "all", "--showpower", "--showmaxpower", "--showclocks", "--showfan"),
    *("--showreplaycount", "--showvoltage", "--json"),
)
AMD_SMI = ("metric", "--json")


class Tool:
    """One of the tools, run anew at each read.

    Parameters
    ----------
    path
        The program.
    timeout_s
        When it is killed.
    """

    def __init__(self, path: str, timeout_s: float = TOOL_S) -> None:
        self.path = path
        self.timeout_s = timeout_s
        self._names: dict[int, str] | None = None

    def read(self) -> Samples:
        """Return what the tool says of each GPU.

        Raises
        ------
        OSError, ValueError
            If it does not run, takes too long, or prints no JSON.
        """
        if Path(self.path).name == "rocm-smi":
            return rocm_smi(self._run(*ROCM_SMI))
        if self._names is None:
            self._names = amd_smi_names(self._run("list", "--json"))
        return amd_smi(self._run(*AMD_SMI), self._names)

    def close(self) -> None:
        """Ask for the names again next time."""
        self._names = None

    def _run(self, *arguments: str) -> Any:
        try:
            done = subprocess.run(
                [self.path, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self.timeout_s,
                env={**os.environ, "LC_ALL": "C"},
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"no answer within {self.timeout_s:g} s") from error
        try:
            return document(done.stdout.decode("utf-8", "replace"))
        except ValueError as error:
            said = (done.stderr or done.stdout).decode("utf-8", "replace").split("\n")[0]
            raise ValueError(f"{' '.join(arguments)}: {error}: {said[:200]}") from error


def document(text: str) -> Any:
    """Return the JSON document in what a tool printed; some print warnings before it.

    Raises
    ------
    ValueError
        If there is none.
    """
    starts = [place for place in (text.find("{"), text.find("[")) if place >= 0]
    if not starts:
        raise ValueError("prints no JSON")
    return json.loads(text[min(starts) :])


class ToolPart(Part):
    """All that a tool says: it tells of every GPU at once, or of none."""

    def __init__(self, file: Tool, columns: Columns) -> None:
        super().__init__(file, columns)
        self.slots: dict[tuple[str, str], int] = {}

    def parse(self, data: Any) -> None:
        """See `Part.parse`."""
        samples: Samples = data
        self.columns.blank(self.owned)
        slots: dict[tuple[str, str], int] = {}
        for key, number in samples.items():
            slot = self.slots.get(key)
            if slot is None:
                slot = self.add(*key, SCALES.get(key[0], 1.0))
            if slot is not None:
                slots[key] = slot
                self.columns.row[slot] = number
        gone = {instance for _, instance in self.slots} - {instance for _, instance in samples}
        # What a GPU that is still there does not tell this time is missing, not gone.
        slots |= {key: slot for key, slot in self.slots.items() if key not in slots and key[1] not in gone}
        self.keep(slots.values())
        self.slots = slots


class AmdGpuSource(Source):
    """AMD GPUs: utilisation, memory, clocks, power, temperatures, PCIe, ECC, as far as the tool tells."""

    name = "amd_gpu"
    period_ms = 5000
    detached = True

    def _tool(self) -> str | None:
        path = os.pathsep.join((os.environ.get("PATH", ""), *FOLDERS))
        return shutil.which("amd-smi", path=path) or shutil.which("rocm-smi", path=path)

    def probe(self) -> str | None:
        """See `Source.probe`."""
        elsewhere = not_live(self.root)
        if elsewhere is not None:
            return elsewhere
        if not self.path(MODULE).exists():
            return f"{self.path(MODULE)} is not there: no AMD GPU, or modprobe amdgpu"
        if self._tool() is None:
            return "neither amd-smi nor rocm-smi is installed: install the package amd-smi-lib of ROCm"
        return None

    def open(self) -> None:
        """See `Source.open`."""
        tool = self._tool()
        if tool is not None:
            self.parts.append(ToolPart(Tool(tool), self.columns))
