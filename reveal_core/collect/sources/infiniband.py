"""Ports of InfiniBand and RoCE adapters, by ``/sys/class/infiniband``."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.hotplug import HotplugSource, MakeParts
from reveal_core.collect.parts import Part
from reveal_core.collect.valuefiles import ValueFiles, Values, count

FOLDER = "sys/class/infiniband"
COUNTERS = ("counters", "counters_ext", "hw_counters")
"""Folders of a port's counters: of the port as the InfiniBand specification has them, their older 64-bit
form, and of the adapter as its vendor has them.
"""
MAX_PORTS = 32
"""Virtual functions are ports too; more than these are not read."""

FAST = frozenset(
    {
        *("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "port_xmit_wait"),
        *("port_xmit_data_64", "port_rcv_data_64", "port_xmit_packets_64", "port_rcv_packets_64"),
        *("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "out_of_buffer"),
        *("np_cnp_sent", "np_ecn_marked_roce_packets", "rp_cnp_handled", "roce_adp_retrans"),
        *("roce_slow_restart", "duplicate_request"),
        # Adapters of Amazon (efa), Broadcom (bnxt_re) and Intel (irdma).
        *("tx_bytes", "rx_bytes", "tx_pkts", "rx_pkts", "rdma_read_bytes", "rdma_write_bytes"),
        *("retrans_bytes", "retrans_pkts", "retrans_timeout_events"),
        *("to_retransmits", "seq_err_naks_rcvd", "rnr_naks_rcvd", "rx_roce_discards", "tx_roce_discards"),
        *("oos_drop_count", "rx_cnp_pkts", "tx_cnp_pkts", "rx_ecn_marked_pkts"),
        *("cnpSent", "cnpHandled", "RxECNMrkd", "tcpRetransSegs"),
    }
)
"""Counters of traffic, retransmission and congestion, which move with the work.

Each file of ``counters`` is a command to the adapter's firmware, so the others are read ten times less often.
"""
WIDTHS = {
    "symbol_error": 16,
    "link_error_recovery": 8,
    "link_downed": 8,
    "port_rcv_errors": 16,
    "port_rcv_remote_physical_errors": 16,
    "port_rcv_switch_relay_errors": 16,
    "port_xmit_discards": 16,
    "port_xmit_constraint_errors": 8,
    "port_rcv_constraint_errors": 8,
    "local_link_integrity_errors": 4,
    "excessive_buffer_overrun_errors": 4,
    "VL15_dropped": 16,
    "port_xmit_data": 32,
    "port_rcv_data": 32,
    "port_xmit_packets": 32,
    "port_rcv_packets": 32,
    "port_xmit_wait": 32,
}
"""Bits of the port counters of the InfiniBand specification (PortCounters, 16.1.3.5): they do not wrap but
stay at their largest value. Newer adapters count traffic in 64 bits instead.
"""
STOPPED = {name: 2**bits - 1 for name, bits in WIDTHS.items()}


def _code(value: bytes | None) -> int:
    """Return the number of a state such as ``4: ACTIVE``."""
    return MISSING if value is None else count(value.partition(b":")[0])


def _rate(value: bytes | None) -> int:
    """Return a rate such as ``2.5 Gb/sec (1X SDR)`` in bit/s."""
    words = value.split() if value is not None else []
    if len(words) < 2 or words[1] != b"Gb/sec":
        return MISSING
    whole, _, tenth = words[0].partition(b".")
    if not whole.isdigit() or not (tenth.isdigit() or not tenth) or len(tenth) > 1 or len(whole) > 6:
        return MISSING
    return int(whole) * 10**9 + (int(tenth) * 10**8 if tenth else 0)


LEVELS = {"state": _code, "phys_state": _code, "rate": _rate}
"""Files of a port that are no counters."""


class PortPart(Part):
    """Some files of one port.

    Parameters
    ----------
    path
        Folder of the port.
    columns
        Where the values go.
    instance
        ``adapter:port``.
    names
        The files, relative to the folder; those that the catalogue does not know are not read.
    """

    def __init__(self, path: Path, columns: Columns, instance: str, names: list[str]) -> None:
        found = [
            (name, field, slot)
            for name in names
            if (slot := columns.add(f"ib.{(field := Path(name).name)}", instance)) is not None
        ]
        super().__init__(ValueFiles(path, [name for name, _, _ in found]), columns)
        self.instance = instance
        self.fields = [
            (field, slot, LEVELS.get(field, count), STOPPED.get(field)) for _, field, slot in found
        ]
        self.owned.update(slot for _, _, slot in found)
        self.last: Values = ()
        self.stopped: set[str] = set()

    def parse(self, data: Values) -> None:
        """See `Part.parse`."""
        row = self.columns.row
        whole = self.seen is None
        for field, value, last in zip(self.fields, data, data if whole else self.last, strict=True):
            if value != last or whole:
                name, slot, number, stops_at = field
                row[slot] = found = number(value)
                if found == stops_at:
                    self.stopped.add(name)
                    if WIDTHS[name] == 32:
                        # The last error was counted still; of traffic a counter that stands tells nothing.
                        row[slot] = MISSING
                elif name in self.stopped:
                    self.stopped.remove(name)
        self.last = data


class PortSource(HotplugSource):
    """Some files of every port."""

    detached = True
    rescan_ms = 5000
    most = MAX_PORTS
    things = "ports are there"
    fast: ClassVar[bool]
    """Whether it reads what moves with the work, or the rest."""

    def probe(self) -> str | None:
        """See `Source.probe`."""
        folder = self.path(FOLDER)
        if next(self._ports(), None) is None:
            return (
                f"{folder} holds no port: there is no InfiniBand or RoCE card, or its driver is not loaded: "
                "modprobe mlx5_ib for NVIDIA's"
            )
        return None

    @property
    def notes(self) -> list[str]:
        """See `Source.notes`."""
        notes = [
            f"{part.instance}: {', '.join(sorted(part.stopped))} stand at their largest value and count no "
            "more: perfquery -R clears them"
            for part in self.parts
            if isinstance(part, PortPart) and part.stopped
        ]
        return notes + super().notes

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        return {instance: partial(self._open, path, instance) for instance, path in sorted(self._ports())}

    def _ports(self) -> Iterator[tuple[str, Path]]:
        """Yield name and folder of each port."""
        for adapter in _entries(self.path(FOLDER)):
            for port in _entries(self.path(FOLDER) / adapter / "ports"):
                yield f"{adapter}:{port}", self.path(FOLDER) / adapter / "ports" / port

    def _open(self, path: Path, instance: str) -> list[Part]:
        names = [
            f"{folder}/{name}"
            for folder in COUNTERS
            for name in _entries(path / folder)
            if (name in FAST) == self.fast
        ]
        if not self.fast:
            names += [name for name in LEVELS if (path / name).exists()]
        part = PortPart(path, self.columns, instance, names)
        return [part] if part.fields else []


class InfinibandSource(PortSource):
    """Traffic, retransmissions and congestion of each port."""

    name = "infiniband"
    period_ms = 100
    fast = True


class InfinibandDetailSource(PortSource):
    """State, rate and all other counters of each port."""

    name = "infiniband_detail"
    period_ms = 1000
    fast = False


def _entries(folder: Path) -> list[str]:
    """Return what a folder holds, in order; nothing if it is not there."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
