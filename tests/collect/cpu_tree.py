"""A synthetic host of any number of CPUs, of which any may be off line."""

from __future__ import annotations

import shutil
from pathlib import Path

from collect_parts import write

CPU = "sys/devices/system/cpu"
STATES = ("POLL", "C1-SKX", "C1E-SKX", "C6-SKX")


def add_cpu(root: Path, cpu: int, sockets: int = 1, per_socket: int = 1 << 30) -> None:
    """Write the files of a CPU."""
    folder = f"{CPU}/cpu{cpu}"
    for number, state in enumerate(STATES):
        write(root, f"{folder}/cpuidle/state{number}/name", f"{state}\n")
        write(root, f"{folder}/cpuidle/state{number}/time", f"{1000 * (number + 1)}\n")
        write(root, f"{folder}/cpuidle/state{number}/usage", f"{10 * (number + 1)}\n")
    write(root, f"{folder}/topology/physical_package_id", f"{min(cpu // per_socket, sockets - 1)}\n")
    for name, value in (("core_throttle_count", 5), ("core_throttle_total_time_ms", 50)):
        write(root, f"{folder}/thermal_throttle/{name}", f"{value + cpu}\n")
    for name, value in (("package_throttle_count", 7), ("package_throttle_total_time_ms", 70)):
        write(root, f"{folder}/thermal_throttle/{name}", f"{value}\n")
    write(root, f"{folder}/cpufreq/scaling_cur_freq", "2500000\n")
    write(root, f"{folder}/cpufreq/scaling_max_freq", "3500000\n")
    write(root, f"{folder}/cpufreq/cpuinfo_max_freq", "3500000\n")


def cpu_tree(root: Path, cpus: int, sockets: int = 1) -> Path:
    """Return a host of some CPUs, shared evenly by some sockets."""
    for cpu in range(cpus):
        add_cpu(root, cpu, sockets, max(1, cpus // sockets))
    write(root, f"{CPU}/online", f"0-{cpus - 1}\n")
    return root


def take_off_line(root: Path, cpu: int, online: str) -> None:
    """Remove what a CPU that is off line has not; ``online`` is the kernel's new list."""
    for name in ("cpuidle", "thermal_throttle", "cpufreq"):
        shutil.rmtree(root / CPU / f"cpu{cpu}" / name)
    write(root, f"{CPU}/online", f"{online}\n")
