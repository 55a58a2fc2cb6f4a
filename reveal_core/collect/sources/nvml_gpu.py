"""One GPU with its slices, as a lane reads it: everything that touches the device happens in ``read``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from reveal_core.collect.columns import MISSING
from reveal_core.collect.sources.nvml_calls import (
    Call,
    FieldsCall,
    Lost,
    Output,
    QueryCall,
    Unsupported,
    UnsupportedFields,
    XidEvents,
    check,
)
from reveal_core.collect.sources.nvml_queries import MAX_LINKS, Field, Query, Table
from reveal_core.collect.sources.nvml_session import LOST, NvmlError, Session

SLICES_S = 5.0
"""How often it is looked whether a GPU was cut into other slices."""
_LINK_COUNT = 91
"""``NVML_FI_DEV_NVLINK_LINK_COUNT``"""


class Reading(NamedTuple):
    """What a GPU said.

    Attributes
    ----------
    outputs
        Metric, instance and scale of each number; the same object as long as they are the same.
    numbers
        As integers, `MISSING` where there is none.
    lost
        Why the GPU is lost; None if it is not.
    """

    outputs: list[Output]
    numbers: list[int]
    lost: str | None = None


@dataclass(frozen=True)
class Slice:
    """A MIG slice: which of its GPU's, and how to ask it."""

    gpu_instance: int
    compute_instance: int
    handle: Any

    @property
    def label(self) -> str:
        """What is added to the GPU's name to get the slice's."""
        return f":gi{self.gpu_instance}:ci{self.compute_instance}"


class Gpu:
    """A GPU of one initialisation of NVML, found by its index and known by its UUID.

    Parameters
    ----------
    session
        NVML.
    index
        Which GPU; an index may mean another GPU after the next initialisation.
    table
        What to ask.
    says_lost
        Whether a lost GPU is a sample of its own here (``gpu.lost``).
    clock
        Monotonic seconds.
    """

    def __init__(
        self,
        session: Session,
        index: int,
        table: Table,
        says_lost: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.session = session
        self.index = index
        self.table = table
        self.says_lost = says_lost
        self.path = f"GPU {index}"
        self._clock = clock
        self._reading = threading.Lock()
        self._handle: Any = None
        self._prepared = False
        self._name = ""
        self._slices: list[Slice] = []
        self._slices_seen = 0.0
        self._calls: list[Call] = []
        self._events: XidEvents | None = None
        self._outputs: list[Output] = []

    def read(self) -> Reading:
        """Ask the GPU and its slices.

        Raises
        ------
        NvmlError
            If NVML is gone, or the GPU cannot even be found.
        BlockingIOError
            If an earlier read still waits for the driver.
        """
        if not self._reading.acquire(blocking=False):
            raise BlockingIOError("an earlier call has not returned")
        try:
            library = self.session.enter()
            try:
                return self._read(library)
            finally:
                self.session.leave()
        finally:
            self._reading.release()

    def _read(self, library: Any) -> Reading:
        try:
            if self._handle is None:
                self._find()
            if not self._prepared or (
                self._clock() - self._slices_seen >= SLICES_S and self._look_for_slices()
            ):
                self._prepare(library)
            numbers = self._own_numbers()
            for call in tuple(self._calls):
                numbers += self._ask(library, call)
        except Lost as lost:
            return self._gone(str(lost))
        return Reading(self._outputs, numbers)

    def close(self) -> None:
        """Forget the GPU; NVML lets go of the rest when it is shut down."""
        self._handle, self._prepared = None, False
        self._calls, self._events = [], None

    def _find(self) -> None:
        nvml = self.session.nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(self.index)
            self._name = self.session.name(nvml.nvmlDeviceGetUUID(handle))
        except nvml.NVMLError as error:
            raise self.session.error(error) from error
        self.path = self._name
        self._handle = handle
        self._look_for_slices()

    def _look_for_slices(self) -> bool:
        """Look how the GPU is cut into slices; return whether that changed."""
        self._slices_seen = self._clock()
        found = self._find_slices()
        known = [(one.gpu_instance, one.compute_instance) for one in self._slices]
        if [(one.gpu_instance, one.compute_instance) for one in found] == known:
            return False
        self._slices = found
        return True

    def _find_slices(self) -> list[Slice]:
        nvml = self.session.nvml
        try:
            if nvml.nvmlDeviceGetMigMode(self._handle)[0] != 1:
                return []
            count = nvml.nvmlDeviceGetMaxMigDeviceCount(self._handle)
        except nvml.NVMLError as error:
            self._weigh(error.value)
            return []
        found = []
        for place in range(count):
            try:
                handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, place)
                ids = nvml.nvmlDeviceGetGpuInstanceId(handle), nvml.nvmlDeviceGetComputeInstanceId(handle)
            except nvml.NVMLError as error:
                self._weigh(error.value)
                continue  # places without a slice are told by an error
            found.append(Slice(*ids, handle))
        return found

    def _weigh(self, code: int) -> None:
        """Let pass an error that only means that something is not there."""
        try:
            check(self.session, code, False)
        except Unsupported:
            return

    def _prepare(self, library: Any) -> None:
        """Make every call ready; what proves unsupported is left out at its first try."""
        table, handle = self.table, self._handle
        calls: list[Call | None] = [self._call(library, handle, query, self._name) for query in table.queries]
        fields = list(table.fields)
        for link in range(self._links(library)) if table.link_fields or table.link_queries else ():
            label = f":link{link}"
            fields += [
                Field(one.number, one.metric, link, one.scale, one.wide, label, one.instead)
                for one in table.link_fields
            ]
            calls += [self._call(library, handle, query, self._name, link) for query in table.link_queries]
        if fields:
            try:
                calls.append(FieldsCall(self.session, library, handle, fields, self._name))
            except Unsupported:
                calls += self._instead(library, fields)
        for one in self._slices:
            name = self._name + one.label
            calls += [self._call(library, one.handle, query, name) for query in table.slice_queries]
        self._calls = [call for call in calls if call is not None]
        if table.events and self._events is None:
            try:
                self._events = XidEvents(self.session, library, handle, self._name)
            except Unsupported:
                self._events = None  # it announces none
        self._lay_out()
        self._prepared = True

    def _call(
        self, library: Any, handle: Any, query: Query | None, name: str, link: int | None = None
    ) -> QueryCall | None:
        """Return a query made ready, or the first of those that stand in for it that the library has."""
        while query is not None:
            try:
                return QueryCall(self.session, library, handle, query, name, link)
            except Unsupported:
                query = query.instead
        return None

    def _instead(self, library: Any, fields: list[Field]) -> list[QueryCall | None]:
        return [self._call(library, self._handle, field.instead, self._name) for field in fields]

    def _links(self, library: Any) -> int:
        """Return how many NVLink links the GPU has."""
        try:
            count = FieldsCall(
                self.session, library, self._handle, [Field(_LINK_COUNT, "links")], self._name
            ).read()[0]
        except (Unsupported, UnsupportedFields):
            return 0
        return min(max(count, 0), MAX_LINKS)

    def _lay_out(self) -> None:
        own: list[Output] = [("gpu.lost", self._name, 1.0)] if self.says_lost else []
        if self._events is not None:
            own += self._events.outputs
        self._outputs = own + [output for call in self._calls for output in call.outputs]

    def _own_numbers(self, lost: bool = False) -> list[int]:
        """Return the numbers that are there whether or not the GPU answers."""
        numbers = [int(lost)] if self.says_lost else []
        if self._events is not None:
            try:
                numbers += self._events.read()
            except Unsupported:
                self._events = None
                self._lay_out()
        return numbers

    def _ask(self, library: Any, call: Call) -> list[int]:
        """Return a call's numbers; one that proves unsupported is replaced or left out for good."""
        try:
            return call.read()
        except Unsupported:
            others = self._stand_ins(library, call)
        except UnsupportedFields as found:
            assert isinstance(call, FieldsCall)
            lacking = [field for field in call.fields if field in found.fields]
            call.drop(found.fields)
            others = [call] if call.fields else []
            others += self._ready(self._instead(library, lacking))
        place = self._calls.index(call)
        self._calls[place : place + 1] = others
        self._lay_out()
        return [number for other in others for number in self._ask(library, other)]

    def _stand_ins(self, library: Any, call: Call) -> list[Call]:
        if isinstance(call, QueryCall):
            handle = call.arguments[0]
            return self._ready([self._call(library, handle, call.query.instead, call.instance, call.link)])
        assert isinstance(call, FieldsCall)
        fields = call.fields
        if len(fields) == 1:
            return self._ready(self._instead(library, fields))
        # One field that a driver does not know may spoil the call for all of them.
        middle = len(fields) // 2
        return [
            FieldsCall(self.session, library, self._handle, half, self._name)
            for half in (fields[:middle], fields[middle:])
        ]

    @staticmethod
    def _ready(calls: list[QueryCall | None]) -> list[Call]:
        return [call for call in calls if call is not None]

    def _gone(self, why: str) -> Reading:
        """Return that the GPU is lost; Xid events may still tell why."""
        if not self._outputs:
            raise NvmlError(min(LOST), why)
        own = self._own_numbers(lost=True)
        return Reading(self._outputs, own + [MISSING] * (len(self._outputs) - len(own)), why)
