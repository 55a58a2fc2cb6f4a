"""What the lab's tests share: waiting for an effect, reading the kernel's counters, and becoming nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reveal_core.lab.faults import inject
from reveal_core.lab.faults.base import FaultRun
from reveal_core.lab.workload import WorkloadState

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 20.0

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def until(happened: Callable[[], bool], what: str) -> None:
    """Wait until something has happened; it is a failure only if it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"never seen: {what}"
        time.sleep(0.05)


def inject_until(
    name: str, workload: WorkloadState | None, state_dir: Path, happened: Callable[[], bool], what: str
) -> FaultRun:
    """Inject a fault until its effect is seen, then end it."""
    stop = threading.Event()
    results: list[FaultRun | BaseException] = []

    def run() -> None:
        try:
            results.append(
                inject(name, duration_s=PATIENCE_S, workload=workload, stop=stop, state_dir=state_dir)
            )
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: bool(results) or happened(), what)
    finally:
        stop.set()
        thread.join()
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


def protocol_counter(pid: int, protocol: str, field: str) -> int:
    """Return a counter of ``/proc/PID/net/snmp`` or ``netstat``: of the process's network namespace."""
    for file in ("snmp", "netstat"):
        lines = Path(f"/proc/{pid}/net/{file}").read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            if names.startswith(f"{protocol}:") and field in names.split():
                return int(values.split()[names.split().index(field)])
    raise KeyError(f"{protocol}.{field}")


def vmstat(field: str) -> int:
    """Return a counter of ``/proc/vmstat``."""
    return int(dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())[field])


def cpu_time(state: WorkloadState, group: str) -> float:
    """Return seconds of CPU that a cgroup of the lab has used."""
    from reveal_core.lab.cgroups import find_cgroup

    found = find_cgroup(group)
    if found.version == 1:
        return int((found.folders["cpuacct"] / "cpuacct.usage").read_text()) / 1e9
    fields = dict(line.split() for line in (found.folders["cpu"] / "cpu.stat").read_text().splitlines())
    return int(fields["usage_usec"]) / 1e6


def run_unprivileged(script: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python script as a user without rights: as oneself, or as nobody when one is root.

    The interpreter may lie in root's private folder; a mount namespace of its own then shows it to nobody.
    ``home`` must be reachable for all.
    """
    command = [sys.executable, "-c", script]
    environment = {k: v for k, v in os.environ.items() if k != "XDG_RUNTIME_DIR"}
    environment |= {"HOME": str(home), "TMPDIR": str(home)}
    if os.geteuid() == 0:
        if not (shutil.which("setpriv") and shutil.which("unshare")):
            pytest.skip("root without setpriv and unshare cannot become somebody else")
        drop = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all"
        base = Path(sys.base_prefix)
        private = next((p for p in [*base.parents[::-1], base] if not p.stat().st_mode & 0o001), None)
        show = "true"
        if private is not None and private != base:
            show = (
                f"mkdir -p {home}/keep && mount --bind {base} {home}/keep && "
                f"mount -t tmpfs -o mode=755 tmpfs {private} && mkdir -p {base} && "
                f"mount --move {home}/keep {base}"
            )
        home.chmod(0o777)
        become = [
            "unshare",
            "-m",
            "--propagation",
            "private",
            "sh",
            "-c",
            f'{show} && exec {drop} "$@"',
            "sh",
        ]
        command = [*become, *command]
        trial = [*command[:-1], "import reveal_core"]
        if subprocess.run(trial, env=environment, cwd=REPOSITORY, check=False).returncode != 0:
            pytest.skip("nobody cannot read the interpreter or the repository here")
    return subprocess.run(
        command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
    )


def competitors(kind: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if b"reveal_core.lab.competitor" in words and kind.encode() in words:
                found.append(int(folder.name))
    return found


def load_processes() -> int:
    """Return how many competing processes are running or ready to run."""
    count = 0
    for pid in competitors("spin"):
        try:
            count += Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
        except (FileNotFoundError, ProcessLookupError):
            continue
    return count


def competitor_seconds(kind: str) -> float:
    total = 0
    for pid in competitors(kind):
        try:
            total += int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total / os.sysconf("SC_CLK_TCK")


INJECTOR = """
import sys
from pathlib import Path
from reveal_core.lab.faults import inject
inject(sys.argv[1], duration_s=60, state_dir=Path(sys.argv[2]))
"""
