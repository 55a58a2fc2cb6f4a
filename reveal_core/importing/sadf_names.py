"""Names of ``sadf -j``, as sar(1) explains them, and what they are in the catalogue: levels and rates."""

from __future__ import annotations

from reveal_core.importing.names import Target

KIB = 1024.0
LABELS = ("cpu", "iface", "disk-device", "intr", "number", "device", "filesystem", "bus_number", "fchost")
"""Keys that say whose numbers an entry of a list holds."""

_CPU = {
    "user": "cpu.user",
    "usr": "cpu.user",
    "nice": "cpu.nice",
    "system": "cpu.system",
    "sys": "cpu.system",
    "iowait": "cpu.iowait",
    "steal": "cpu.steal",
    "irq": "cpu.irq",
    "soft": "cpu.softirq",
    "guest": "cpu.guest",
    "gnice": "cpu.guest_nice",
    "idle": "cpu.idle",
}
_MEMORY = {
    "memfree": "meminfo.MemFree",
    "avail": "meminfo.MemAvailable",
    "buffers": "meminfo.Buffers",
    "cached": "meminfo.Cached",
    "commit": "meminfo.Committed_AS",
    "active": "meminfo.Active",
    "inactive": "meminfo.Inactive",
    "dirty": "meminfo.Dirty",
    "anonpg": "meminfo.AnonPages",
    "slab": "meminfo.Slab",
    "kstack": "meminfo.KernelStack",
    "pgtbl": "meminfo.PageTables",
    "vmused": "meminfo.VmallocUsed",
    "swpfree": "meminfo.SwapFree",
    "swpcad": "meminfo.SwapCached",
}
_NET = {
    "rxpck": ("net.rx_packets", 1.0),
    "txpck": ("net.tx_packets", 1.0),
    "rxkB": ("net.rx_bytes", KIB),
    "txkB": ("net.tx_bytes", KIB),
    "rxcmp": ("net.rx_compressed", 1.0),
    "txcmp": ("net.tx_compressed", 1.0),
    "rxmcst": ("net.multicast", 1.0),
    "rxerr": ("net.rx_errors", 1.0),
    "txerr": ("net.tx_errors", 1.0),
    "coll": ("net.collisions", 1.0),
    "rxdrop": ("net.rx_dropped", 1.0),
    "txdrop": ("net.tx_dropped", 1.0),
    "txcarr": ("net.tx_carrier_errors", 1.0),
    "rxfram": ("net.rx_frame_errors", 1.0),
    "rxfifo": ("net.rx_fifo_errors", 1.0),
    "txfifo": ("net.tx_fifo_errors", 1.0),
}
_DISK = {
    "rkB": ("disk.read_sectors", KIB),
    "wkB": ("disk.write_sectors", KIB),
    "dkB": ("disk.discard_sectors", KIB),
    "rd_sec": ("disk.read_sectors", 512.0),
    "wr_sec": ("disk.write_sectors", 512.0),
    "await": ("disk.await", 1.0),
    "util-percent": ("disk.utilisation", 1.0),
}
_HOST_WIDE: dict[str, dict[str, tuple[str, float]]] = {
    "process-and-context-switch": {"proc": ("stat.processes", 1.0), "cswch": ("stat.ctxt", 1.0)},
    "swap-pages": {"pswpin": ("vmstat.pswpin", 1.0), "pswpout": ("vmstat.pswpout", 1.0)},
    "paging": {
        "pgpgin": ("vmstat.pgpgin", KIB),
        "pgpgout": ("vmstat.pgpgout", KIB),
        "fault": ("vmstat.pgfault", 1.0),
        "majflt": ("vmstat.pgmajfault", 1.0),
        "pgfree": ("vmstat.pgfree", 1.0),
        "pgscank": ("vmstat.pgscan_kswapd", 1.0),
        "pgscand": ("vmstat.pgscan_direct", 1.0),
    },
    "memory": {key: (metric, KIB) for key, metric in _MEMORY.items()},
    "queue": {"runq-sz": ("stat.procs_running", 1.0), "blocked": ("stat.procs_blocked", 1.0)},
    "psi-cpu": {"some_avg": ("psi.cpu_some", 1.0)},
    "psi-io": {"some_avg": ("psi.io_some", 1.0), "full_avg": ("psi.io_full", 1.0)},
    "psi-mem": {"some_avg": ("psi.memory_some", 1.0), "full_avg": ("psi.memory_full", 1.0)},
}
_OF_NAMESPACE: dict[str, dict[str, str]] = {
    "net-tcp": {
        "active": "tcp.ActiveOpens",
        "passive": "tcp.PassiveOpens",
        "iseg": "tcp.InSegs",
        "oseg": "tcp.OutSegs",
    },
    "net-etcp": {
        "atmptf": "tcp.AttemptFails",
        "estres": "tcp.EstabResets",
        "retrans": "tcp.RetransSegs",
        "isegerr": "tcp.InErrs",
        "orsts": "tcp.OutRsts",
    },
    "net-udp": {
        "idgm": "udp.InDatagrams",
        "odgm": "udp.OutDatagrams",
        "noport": "udp.NoPorts",
        "idgmerr": "udp.InErrors",
    },
    "net-ip": {
        "irec": "ip.InReceives",
        "fwddgm": "ip.ForwDatagrams",
        "idel": "ip.InDelivers",
        "orq": "ip.OutRequests",
        "asmrq": "ip.ReasmReqds",
        "asmok": "ip.ReasmOKs",
        "fragok": "ip.FragOKs",
        "fragcrt": "ip.FragCreates",
    },
    "net-sock": {
        "totsck": "sockstat.sockets_used",
        "tcpsck": "sockstat.TCP_inuse",
        "udpsck": "sockstat.UDP_inuse",
        "rawsck": "sockstat.RAW_inuse",
        "ip-frag": "sockstat.FRAG_inuse",
        "tcp-tw": "sockstat.TCP_tw",
    },
}
_SOFTNET = {
    "total": "softnet.processed",
    "dropd": "softnet.dropped",
    "squeezd": "softnet.time_squeeze",
    "rx_rps": "softnet.received_rps",
    "flw_lim": "softnet.flow_limit",
}
_BY_CPU = ("cpu-load", "cpu-load-all", "softnet", "cpu-frequency")
HOST = "host"
"""Instance of the host's own network namespace, as the collector names it."""


def instance_of(section: str, label: str) -> str:
    """Return the instance that an entry's label means.

    >>> instance_of("cpu-load", "3"), instance_of("net-dev", "eth0")
    ('cpu3', 'eth0')
    """
    return f"cpu{label}" if section in _BY_CPU and label.isdigit() else label


def sadf_target(section: str, key: str, instance: str) -> tuple[Target | None, str]:
    """Return what a number is in the catalogue, None for one that it lacks, and the channel's instance."""
    found: tuple[str, float] | None = None
    if section in ("cpu-load", "cpu-load-all") and key in _CPU:
        found = _CPU[key], 1.0
    elif section in ("net-dev", "net-edev"):
        found = _NET.get(key)
    elif section == "disk":
        found = _DISK.get(key)
    elif section in _HOST_WIDE:
        found = _HOST_WIDE[section].get(key)
    elif section in _OF_NAMESPACE and key in _OF_NAMESPACE[section]:
        return Target(_OF_NAMESPACE[section][key]), HOST
    elif section == "softnet" and key in _SOFTNET:
        found = _SOFTNET[key], 1.0
    elif section == "interrupts" and instance == "sum":
        return Target("stat.intr"), ""
    elif section == "cpu-frequency" and key == "frequency":
        found = "cpu.frequency", 1.0
    elif section == "temperature" and key == "degC":
        found = "thermal.temperature", 1.0
    elif section == "fan-speed" and key == "rpm":
        found = "hwmon.fan", 1.0
    return (Target(found[0], "level", found[1]) if found else None), instance
