"""Lustre client: its connection to each storage and metadata target, and how long answers take."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial

from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.files import HostFile
from reveal_core.collect.hotplug import MakeParts
from reveal_core.collect.parts import Part, Readable, integers
from reveal_core.collect.sources.lustre import LustreFiles, StatsPart, Table

MAX_TARGETS = 128
"""Most targets read; a file system may have thousands, and each costs the kernel a sum over all cores."""

TARGET: Table = {
    b"req_waittime": ("lustre.req_samples", "lustre.req_waittime"),
    b"read_bytes": (None, "lustre.target_read_bytes"),
    b"write_bytes": (None, "lustre.target_write_bytes"),
    b"ost_read": ("lustre.ost_read", "lustre.ost_read_time"),
    b"ost_write": ("lustre.ost_write", "lustre.ost_write_time"),
}
"""Lines of ``osc/*/stats`` and ``mdc/*/stats``."""
NUMBERS = {
    b"inflight": "lustre.rpcs_inflight",
    b"timeouts": "lustre.timeouts",
    b"connection_attempts": "lustre.connection_attempts",
}
"""Lines of ``import`` that hold a number."""
STATES = {
    b"CLOSED": 1,
    b"NEW": 2,
    b"DISCONN": 3,
    b"CONNECTING": 4,
    b"REPLAY": 5,
    b"REPLAY_LOCKS": 6,
    b"REPLAY_WAIT": 7,
    b"RECOVER": 8,
    b"FULL": 9,
    b"EVICTED": 10,
    b"IDLE": 9,
}
"""``enum lustre_imp_state``; IDLE is a good connection put to sleep for lack of work: it counts as FULL."""


class ImportPart(Part):
    """The file ``import``, in the manner of YAML: state, attempts to connect, time-outs."""

    def __init__(self, file: Readable, columns: Columns, instance: str) -> None:
        super().__init__(file, columns)
        self.state = self.add("lustre.import_state", instance)
        self.slots = {key: self.add(metric, instance) for key, metric in NUMBERS.items()}

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        row = self.columns.row
        row_values = dict.fromkeys(self.owned, MISSING)
        for line in data.split(b"\n"):
            key, _, value = line.partition(b":")
            key, value = key.strip(), value.strip()
            if key == b"state":
                if self.state is not None:
                    row_values[self.state] = STATES.get(value, MISSING)
            elif (slot := self.slots.get(key)) is not None:
                row_values[slot] = integers([value])[0]
        for slot, number in row_values.items():
            row[slot] = number


class LustreTargetsSource(LustreFiles):
    """State, time-outs and waiting time of the connection to each Lustre target, every five seconds."""

    name = "lustre_targets"
    period_ms = 5000
    kinds = ("osc", "mdc")

    most = MAX_TARGETS
    things = "targets are there"

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        names = sorted(self.device_names().items())
        names.sort(
            key=lambda item: not item[0].startswith("mdc/")
        )  # metadata first: all work goes through it
        return {(device, label): partial(self._parts, device, label) for device, label in names}

    def _parts(self, device: str, label: str) -> Iterator[Part]:
        # scratch-OST0000-osc: the target is what people name.
        target = label.removesuffix("-osc").removesuffix("-mdc")
        if (path := self.file(device, "stats")) is not None:
            yield StatsPart(HostFile(path), self.columns, TARGET, target)
        if (path := self.file(device, "import")) is not None:
            yield ImportPart(HostFile(path), self.columns, target)
