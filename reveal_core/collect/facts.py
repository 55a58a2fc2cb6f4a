"""What a host is: the facts that every segment carries."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

from reveal_core.collect.files import read_text


def safe_label(name: str) -> str:
    """Return a name in the letters that a path of any store takes.

    >>> safe_label("node 17/rack:3")
    'node-17-rack-3'
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "host"


def default_host() -> str:
    """Return this host's label:

    its name, made safe for a path. The machine id, which never changes, is in the facts.
    """
    return safe_label(socket.gethostname())


def boot_id(root: Path) -> str:
    """Return the identity of the host's present boot, ``unknown`` where it gives none."""
    return read_text(root / "proc/sys/kernel/random/boot_id") or "unknown"


def host_facts(root: Path) -> dict[str, Any]:
    """Return the facts of the host under a root; what it does not tell is None or left out.

    Parameters
    ----------
    root
        Where the host's files begin.

    Returns
    -------
    dict
        Ready for JSON: ``machine_id``, ``hostname``, ``kernel``, ``os``, ``boot_id``, ``virtual``, ``cpu``
        (model, sockets, cores, logical), ``memory_bytes``, ``numa_nodes`` (name, cpus, memory_bytes),
        ``nics`` (name, address, speed_mbps), ``disks`` (name, bytes, rotational, model), ``gpus``.
    """
    return {
        "machine_id": read_text(root / "etc/machine-id") or None,
        "hostname": read_text(root / "proc/sys/kernel/hostname") or None,
        "kernel": read_text(root / "proc/sys/kernel/osrelease") or None,
        "os": _os_name(root),
        "boot_id": boot_id(root),
        **_cpu(root),
        "memory_bytes": _kilobytes(root / "proc/meminfo", "MemTotal"),
        "numa_nodes": [
            {
                "name": node.name,
                "cpus": read_text(node / "cpulist"),
                "memory_bytes": _kilobytes(node / "meminfo", "MemTotal"),
            }
            for node in sorted((root / "sys/devices/system/node").glob("node[0-9]*"))
        ],
        "nics": [
            {
                "name": nic.name,
                "address": read_text(nic / "address") or None,
                "speed_mbps": _positive(read_text(nic / "speed")),
            }
            for nic in sorted((root / "sys/class/net").glob("*"))
            if (nic / "address").exists()
        ],
        "disks": [
            {
                "name": disk.name,
                "bytes": (_positive(read_text(disk / "size")) or 0) * 512,
                "rotational": read_text(disk / "queue/rotational") == "1",
                "model": read_text(disk / "device/model") or None,
            }
            for disk in sorted((root / "sys/block").glob("*"))
            if not re.fullmatch(r"(loop|ram|fd|sr)\d+", disk.name)
        ],
        "gpus": [],
    }


def _positive(text: str | None) -> int | None:
    """Return a whole number above zero; drivers write -1 for a speed that they do not know."""
    return int(text) if text is not None and text.isdigit() and int(text) > 0 else None


def _kilobytes(path: Path, field: str) -> int | None:
    found = re.search(rf"\b{field}:\s+(\d+) kB", read_text(path) or "")
    return int(found[1]) * 1024 if found else None


def _os_name(root: Path) -> str | None:
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)"?$', read_text(root / "etc/os-release") or "", re.MULTILINE)
    return found[1] if found else None


def _cpu(root: Path) -> dict[str, Any]:
    text = read_text(root / "proc/cpuinfo") or ""
    model = re.search(r"^(?:model name|Model|cpu model|cpu)\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*:\s*(.+)$", text, re.MULTILINE)
    packages, cores = set(), set()
    for topology in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/topology"):
        package = read_text(topology / "physical_package_id")
        packages.add(package)
        cores.add((package, read_text(topology / "core_id")))
    return {
        "virtual": "hypervisor" in flags[1].split() if flags else None,
        "cpu": {
            "model": model[1].strip() if model else None,
            "sockets": len(packages) or None,
            "cores": len(cores) or None,
            "logical": len(re.findall(r"^processor\s*:", text, re.MULTILINE)) or None,
        },
    }
