"""NFS client: remote procedure calls of the host, and what each mount does and waits for."""

from __future__ import annotations

from pathlib import Path

from reveal_core.collect.columns import MISSING, Columns, Slots
from reveal_core.collect.files import HostFile, read_text
from reveal_core.collect.parts import Part, Readable, integers
from reveal_core.collect.source import Source, left_out_note
from reveal_core.collect.valuefiles import LARGEST

RPC = "proc/net/rpc/nfs"
MOUNTS = ("proc/1/mountstats", "proc/self/mountstats")
"""Whose mounts: those of the host's first process if they may be read, else the agent's own."""
MAX_MOUNTS = 32

RPC_METRICS = ("nfs.rpc_calls", "nfs.rpc_retrans", "nfs.rpc_authrefrsh")
EVENTS = {18: "congestionwait", 22: "shortread", 23: "shortwrite", 24: "delay"}
"""Places in the line ``events:`` of what means trouble (``enum nfs_stat_eventcounters``, nfs_iostat.h)."""
BYTES = (
    *("normalreadbytes", "normalwrittenbytes", "directreadbytes", "directwrittenbytes"),
    *("serverreadbytes", "serverwrittenbytes", "readpages", "writepages"),
)
"""Of the line ``bytes:`` (``enum nfs_stat_bytecounters``), in order."""
TRANSPORT = {
    b"tcp": {"connect_count": 2, "sends": 5, "recvs": 6, "bad_xids": 7, "req_u": 8, "bklog_u": 9},
    b"rdma": {"connect_count": 2, "sends": 5, "recvs": 6, "bad_xids": 7, "req_u": 8, "bklog_u": 9},
    b"udp": {"sends": 2, "recvs": 3, "bad_xids": 4, "req_u": 5, "bklog_u": 6},
}
"""Places in the line ``xprt:`` (net/sunrpc/xprtsock.c, xprtrdma/transport.c)."""
OPERATION = ("ops", "trans", "timeouts", "sent", "recv", "queue", "rtt", "exe", "errors")
"""Of the lines per operation (net/sunrpc/stats.c), in order; errors since Linux 5.3."""
DETAILED = {
    *(b"READ", b"WRITE", b"COMMIT", b"GETATTR", b"LOOKUP", b"ACCESS"),
    *(b"OPEN", b"CLOSE", b"CREATE", b"REMOVE", b"READDIR", b"READDIRPLUS"),
}
"""Operations with channels of their own; all others count in the sums."""
OWN_FIELDS = ("ops", "queue", "rtt", "exe")
SUMMED = ("ops", "retrans", "timeouts", "errors", "queue", "rtt", "exe")


def _count(value: int) -> int:
    """Return a counter, missing where the kernel's unsigned one has run below zero or beyond 63 bits."""
    return value if 0 <= value <= LARGEST else MISSING


class RpcPart(Part):
    """``/proc/net/rpc/nfs``: the line ``rpc CALLS RETRANSMISSIONS REFRESHES``."""

    def __init__(self, file: Readable, columns: Columns) -> None:
        super().__init__(file, columns)
        self.slots = Slots(self.add(metric) for metric in RPC_METRICS)

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        for line in data.split(b"\n"):
            words = line.split()
            if words[:1] == [b"rpc"] and len(words) > len(RPC_METRICS):
                self.columns.put(self.slots, integers(words[1:4]))
                return
        raise ValueError("has no line of rpc counts")


def read_mount(block: bytes) -> dict[str, int]:
    """Return what a mount's block of ``/proc/PID/mountstats`` says, by the metric's name in the family.

    Parameters
    ----------
    block
        From the line after ``device …`` to the next one.

    Returns
    -------
    dict
        Counters: bytes, events, sums over the transports, ``OPERATION_ops`` and so on for the operations in
        `DETAILED`, and the sums over all operations. A count that makes no sense is `MISSING`, and so is the
        sum that it belongs to.
    """
    found: dict[str, int] = {}
    sums = dict.fromkeys(SUMMED, 0)
    operations = False
    for line in block.split(b"\n"):
        key, colon, rest = line.partition(b":")
        if not colon:
            operations = operations or line.strip() == b"per-op statistics"
            continue
        key, words = key.strip(), rest.split()
        if operations:
            _operation(key, integers(words[: len(OPERATION)]), found, sums)
        elif key == b"bytes":
            found.update((name, _count(value)) for name, value in zip(BYTES, integers(words), strict=False))
        elif key == b"events":
            counts = integers(words)
            found.update((name, _count(counts[i])) for i, name in EVENTS.items() if i < len(counts))
        elif key == b"xprt" and words and words[0] in TRANSPORT:
            counts = integers(words[1:])
            for name, place in TRANSPORT[words[0]].items():
                if place < len(counts):
                    found[name] = _add(found.get(name, 0), counts[place])
    if operations:
        found.update(sums)
    return found


def _add(total: int, value: int) -> int:
    return MISSING if MISSING in (total, _count(value)) else total + value


def _operation(name: bytes, counts: list[int], found: dict[str, int], sums: dict[str, int]) -> None:
    if len(counts) < OPERATION.index("errors"):
        return
    fields = dict(zip(OPERATION, counts, strict=False))
    # Sent more often than asked: the difference was sent again.
    known = MISSING not in (fields["ops"], fields["trans"])
    fields["retrans"] = max(0, fields["trans"] - fields["ops"]) if known else MISSING
    for field in SUMMED:
        sums[field] = _add(sums[field], fields.get(field, 0))
    if name in DETAILED:
        found.update((f"{name.decode()}_{field}", _count(fields[field])) for field in OWN_FIELDS)


class MountsPart(Part):
    """``/proc/PID/mountstats``: the NFS mounts in it, each file system once."""

    def __init__(self, file: Readable, columns: Columns) -> None:
        super().__init__(file, columns)
        self.blocks: dict[str, bytes] = {}
        self.slots: dict[str, dict[str, int | None]] = {}
        self.left_out = 0

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        blocks: dict[str, bytes] = {}
        exports: set[tuple[bytes, bytes]] = set()
        self.left_out = 0
        for section in (b"\n" + data).split(b"\ndevice ")[1:]:
            head, _, block = section.partition(b"\n")
            if b" with fstype nfs" not in head:
                continue
            origin, _, tail = head.partition(b" mounted on ")
            options = block.partition(b"\n")[0]
            if not tail or (origin, options) in exports:
                continue  # the same file system at another place: it has one set of counters
            exports.add((origin, options))
            point = tail.rpartition(b" with fstype nfs")[0].decode("utf-8", "replace")
            if len(blocks) < MAX_MOUNTS:
                blocks[point] = block
            else:
                self.left_out += 1
        for point, block in blocks.items():
            if self.blocks.get(point) != block:
                self._parse_mount(point, block)
        if blocks.keys() != self.blocks.keys():
            self.slots = {point: self.slots.get(point, {}) for point in blocks}
            self.keep({slot for slots in self.slots.values() for slot in slots.values() if slot is not None})
        self.blocks = blocks

    def _parse_mount(self, point: str, block: bytes) -> None:
        slots = self.slots.setdefault(point, {})
        found = read_mount(block)
        for name, value in found.items():
            if name not in slots:
                if name[0].isupper() and not found[f"{name.rpartition('_')[0]}_ops"]:
                    continue  # an operation that was never asked for
                slots[name] = self.add(f"nfs.{name}", point)
            slot = slots[name]
            if slot is not None:
                self.columns.row[slot] = value
        for name in slots.keys() - found.keys():
            if (slot := slots[name]) is not None:
                self.columns.row[slot] = MISSING

    def forget(self) -> None:
        """See `Part.forget`."""
        super().forget()
        self.blocks = dict.fromkeys(self.blocks, b"")


class NfsSource(Source):
    """Calls and retransmissions of the host's NFS client, and per mount data, requests, waits and errors."""

    name = "nfs"
    period_ms = 1000
    detached = True

    def __init__(self, root: Path, columns: Columns) -> None:
        super().__init__(root, columns)
        self.mounts: MountsPart | None = None

    def probe(self) -> str | None:
        """See `Source.probe`."""
        if self.path(RPC).exists() or self._mounts() is not None:
            return None
        return f"{self.path(RPC)} is not there and no NFS is mounted: the client is loaded by modprobe nfs"

    def _mounts(self) -> str | None:
        """Return the mount statistics that can be read; None if there is no NFS in them and no client."""
        for name in MOUNTS:
            text = read_text(self.path(name))
            if text is not None and (self.path(RPC).exists() or " with fstype nfs" in text):
                return name
        return None

    @property
    def notes(self) -> list[str]:
        """See `Source.notes`."""
        left_out = self.mounts.left_out if self.mounts else 0
        return left_out_note(left_out, "NFS mounts are there", MAX_MOUNTS)

    def open(self) -> None:
        """See `Source.open`."""
        if self.path(RPC).exists():
            self.parts.append(RpcPart(HostFile(self.path(RPC), whole=True), self.columns))
        mounts = self._mounts()
        if mounts is not None:
            self.mounts = MountsPart(HostFile(self.path(mounts), size=16384), self.columns)
            self.parts.append(self.mounts)
