"""Calls to NVML made ready: arguments and memory laid out once, so that a tick only makes the call.

``nvidia-ml-py`` loads the library and knows its structures, but its wrappers build everything anew at each
call, which for a batch of field values costs ten times the call itself.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any, Protocol

from reveal_core.collect.columns import MISSING
from reveal_core.collect.sources.nvml_queries import Field, Query
from reveal_core.collect.sources.nvml_session import (
    DOWN,
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    LOST,
    SUCCESS,
    TIMEOUT,
    UNSUPPORTED,
    Session,
    clean,
)

Output = tuple[str, str, float]
"""Metric, instance and scale of a number."""
MAX_EVENTS = 64
"""So many Xid events are taken at one read; the rest waits for the next."""


class Unsupported(Exception):
    """This GPU, driver or library does not answer that; it is not asked again."""


class Lost(Exception):
    """The driver lost the GPU."""


def check(session: Session, code: int, answered: bool) -> bool:
    """Return whether a call succeeded; False where it only failed this time.

    Parameters
    ----------
    session
        Is told if NVML is gone.
    code
        What the call returned.
    answered
        Whether it ever succeeded: then a wrong argument can only be a passing fault.

    Raises
    ------
    Unsupported
        If it need not be asked again.
    Lost
        If the GPU is lost.
    NvmlError
        If NVML is gone.
    """
    if code == SUCCESS:
        return True
    if code in UNSUPPORTED and not (answered and code == INVALID_ARGUMENT):
        raise Unsupported
    if code in LOST:
        raise Lost(session.failed(code).strerror)
    if code in DOWN:
        raise session.failed(code)
    return False


class Call(Protocol):
    """Something to ask a device each time."""

    outputs: list[Output]

    def read(self) -> list[int]:
        """Return a number for each output."""


class QueryCall:
    """A function called on one device.

    Raises
    ------
    Unsupported
        If the library has no such function.
    """

    def __init__(
        self,
        session: Session,
        library: Any,
        handle: Any,
        query: Query,
        instance: str,
        link: int | None = None,
    ) -> None:
        self.session = session
        self.query = query
        self.instance = instance
        self.link = link
        self.answered = False
        try:
            self.function = getattr(library, query.function)
        except AttributeError:
            raise Unsupported from None
        layout, offsets = "=", []
        for output in query.outputs:  # each begins at a multiple of eight, as a pointer's target must
            offsets.append(struct.calcsize(layout))
            layout += output + "x" * (-struct.calcsize("=" + output) % 8)
        self.layout = struct.Struct(layout)
        self.memory = ctypes.create_string_buffer(self.layout.size)
        struct.pack_into(f"={len(query.head)}I", self.memory, 0, *query.head)
        given = query.arguments if link is None else (link, *query.arguments)
        self.arguments = (
            handle,
            *(ctypes.c_uint(argument) for argument in given),
            *(ctypes.byref(self.memory, offset) for offset in offsets),
            *((None,) if query.sizes else ()),
        )
        self.wanted = [place for place, metric in enumerate(query.metrics) if metric is not None]
        names = [metric for metric in query.metrics if metric is not None]
        label = "" if link is None else f":link{link}"
        self.outputs: list[Output] = [(metric, instance + label, query.scale) for metric in names]
        self.said = b""
        self.numbers: list[int] = []

    def read(self) -> list[int]:
        """See `Call.read`."""
        if self.query.sizes:
            ctypes.memset(self.memory, 0, self.layout.size)
        code = self.function(*self.arguments)
        if code != SUCCESS:
            if code == INSUFFICIENT_SIZE and self.query.sizes:
                code = SUCCESS
            if not check(self.session, code, self.answered):
                return [MISSING] * len(self.outputs)
        self.answered = True
        said = self.memory.raw
        if said != self.said:  # mostly a GPU says the same as the last time
            numbers = self.layout.unpack(said)
            if self.query.bits:
                self.numbers = unpack_bits(clean(numbers[0]), len(self.outputs))
            else:
                self.numbers = [clean(numbers[place]) for place in self.wanted]
            self.said = said
        return self.numbers


def unpack_bits(mask: int, count: int) -> list[int]:
    """Return the bits of a mask from the lowest, the last number being whether any further bit is set.

    >>> unpack_bits(0b100101, 4)
    [1, 0, 1, 1]
    """
    if mask == MISSING:
        return [MISSING] * count
    return [*((mask >> place) & 1 for place in range(count - 1)), int(mask >> (count - 1) != 0)]


_VALUE = "24xIIQ"
"""``nvmlFieldValue_t``: after id, scope, time and latency come the type, the return code and the value."""
_WIDE = frozenset({2, 3, 4})


def field_value(kind: int, raw: int) -> int:
    """Return the number in the eight bytes of a field value, whose type is one of ``NVML_VALUE_TYPE_*``.

    >>> field_value(5, 0xFFFFFFF8)
    -8
    """
    if kind == 1:
        return clean(raw & 0xFFFFFFFF)
    if kind in (2, 3):
        return clean(raw)
    if kind == 0:
        (number,) = struct.unpack("=d", struct.pack("=Q", raw))
        return clean(round(number)) if abs(number) < 2**63 else MISSING  # also not for NaN
    if kind == 4:
        signed = raw - 2**64 if raw >= 2**63 else raw
        return MISSING if signed == -1 else clean(signed)
    if kind == 5:
        low = raw & 0xFFFFFFFF
        return clean(low - 2**32 if low >= 2**31 else low)
    if kind == 6:
        return MISSING if raw & 0xFFFF == 0xFFFF else raw & 0xFFFF
    return MISSING


class FieldsCall:
    """Field values of one device, asked for in one call."""

    def __init__(
        self, session: Session, library: Any, handle: Any, fields: list[Field], instance: str
    ) -> None:
        self.session = session
        self.handle = handle
        self.instance = instance
        self.answered = False
        self.proven: set[Field] = set()
        try:
            self.function = library.nvmlDeviceGetFieldValues
        except AttributeError:
            raise Unsupported from None
        self._lay_out(fields)

    def _lay_out(self, fields: list[Field]) -> None:
        self.fields = fields
        self.layout = struct.Struct("=" + _VALUE * len(fields))
        self.memory = ctypes.create_string_buffer(self.layout.size)
        for place, field in enumerate(fields):
            struct.pack_into("=II", self.memory, 40 * place, field.number, field.scope)
        self.outputs: list[Output] = [
            (field.metric, self.instance + field.label, field.scale) for field in fields
        ]

    def drop(self, unsupported: set[Field]) -> None:
        """Leave out fields from now on."""
        self.proven -= unsupported
        self._lay_out([field for field in self.fields if field not in unsupported])

    def read(self) -> list[int]:
        """See `Call.read`; a field that proves unsupported raises `UnsupportedFields`."""
        code = self.function(self.handle, len(self.fields), self.memory)
        if code != SUCCESS and not check(self.session, code, self.answered):
            return [MISSING] * len(self.fields)
        self.answered = True
        flat = self.layout.unpack(self.memory)
        kinds, codes, raws = flat[0::3], flat[1::3], flat[2::3]
        numbers = [field_value(kind, raw) for kind, raw in zip(kinds, raws, strict=True)]
        if len(self.proven) == len(self.fields) and not any(codes):
            return numbers
        unsupported = set()
        for place, (field, kind, one) in enumerate(zip(self.fields, kinds, codes, strict=True)):
            try:
                good = check(self.session, one, field in self.proven)
                if good and field.wide and kind not in _WIDE:
                    raise Unsupported
            except Unsupported:
                unsupported.add(field)
                continue
            if good:
                self.proven.add(field)
            else:
                numbers[place] = MISSING
        if unsupported:
            raise UnsupportedFields(unsupported)
        return numbers


class UnsupportedFields(Exception):
    """These fields of a batch are not supported."""

    def __init__(self, fields: set[Field]) -> None:
        super().__init__()
        self.fields = fields


class XidEvents:
    """Xid errors of one GPU, as the driver announces them: how many since the agent began, and the last.

    Raises
    ------
    Unsupported
        If this GPU announces none.
    """

    def __init__(self, session: Session, library: Any, handle: Any, instance: str) -> None:
        self.session = session
        self.wait = library.nvmlEventSetWait_v2
        nvml = session.nvml
        xid = nvml.nvmlEventTypeXidCriticalError
        try:
            if not nvml.nvmlDeviceGetSupportedEventTypes(handle) & xid:
                raise Unsupported
            self.events = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, xid, self.events)
        except nvml.NVMLError as error:
            check(session, error.value, False)
            raise Unsupported from error
        self.xid = xid
        self.event = nvml.c_nvmlEventData_t()
        self.count = 0
        self.last = MISSING
        self.outputs: list[Output] = [("gpu.xid_errors", instance, 1.0), ("gpu.xid_last", instance, 1.0)]

    def read(self) -> list[int]:
        """See `Call.read`."""
        for _ in range(MAX_EVENTS):
            # One millisecond and not none: nobody promises that zero does not mean for ever.
            code = self.wait(self.events, ctypes.byref(self.event), ctypes.c_uint(1))
            if code == TIMEOUT or code in LOST:
                break
            if not check(self.session, code, True):
                break
            if self.event.eventType == self.xid:
                self.count += 1
                self.last = clean(self.event.eventData)
        return [self.count, self.last]
