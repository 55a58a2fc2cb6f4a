"""NVML as one source uses it: loaded, initialised, and initialised anew when the driver went away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from reveal_core.collect.columns import MISSING

RETRY_S = 15.0
"""Time without NVML before it is initialised anew.

NVML counts who uses it in a process, and truly begins anew only when nobody does: by then every source has
noticed and let go.
"""
CLOSE_S = 1.0

SUCCESS = 0
TIMEOUT = 10
INSUFFICIENT_SIZE = 7
INVALID_ARGUMENT = 2
UNSUPPORTED = frozenset({INVALID_ARGUMENT, 3, 4, 6, 13, 22, 25, 26})
"""Not supported, not permitted, not found, absent from this library, or not in this form: asked once."""
LOST = frozenset({15, 16, 28})
"""The GPU is lost, needs a reset, or is not there."""
DOWN = frozenset({1, 9, 12, 18})
"""NVML is not initialised, the driver is not loaded or was exchanged under a running library."""

_ALL_ONES = {2**32 - 1, 2**64 - 1, 2**31 - 1, 2**63 - 1}
_BLANK_INT32 = {0x7FFFFFF0 + n for n in range(4)}
_BLANK_INT64 = {0x7FFFFFFFFFFFFFF0 + n for n in range(4)}
_BLANK_DOUBLE = {2**47 + n for n in range(4)}
BLANK = frozenset(_ALL_ONES | _BLANK_INT32 | _BLANK_INT64 | _BLANK_DOUBLE)
"""Numbers that mean that there is none: ``NVML_VALUE_NOT_AVAILABLE``, and the blank family of NVIDIA's tools
(blank, not found, not supported, not permitted; each as int32, int64 and double).
"""


def clean(value: int) -> int:
    """Return a number from NVML; `MISSING` if it is one that stands for none, or beyond 63 bits.

    >>> clean(2**32 - 1) == clean(0x7FFFFFF2) == MISSING
    True
    >>> clean(71)
    71
    """
    return MISSING if value in BLANK or value > 2**63 else value


class NvmlError(OSError):
    """NVML gave an error instead of an answer."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, f"NVML: {text.lower()}")
        self.code = code


class Session:
    """NVML, shared by the threads that read one source's GPUs.

    Attributes
    ----------
    nvml
        The ``pynvml`` module.
    generation
        Counts the initialisations: whatever was found out in an earlier one is void.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        import pynvml

        self.nvml: Any = pynvml
        self.generation = 0
        self._clock = clock
        self._lock = threading.Lock()
        self._calls = 0
        self._up = False
        self._broken = False
        self._down_since = 0.0
        self._names: dict[str, str] = {}

    def start(self) -> None:
        """Initialise NVML.

        Raises
        ------
        NvmlError
            If there is no library, no driver, or they do not fit.
        """
        try:
            self.nvml.nvmlInit()
        except self.nvml.NVMLError as error:
            raise self.error(error) from error
        with self._lock:
            self._up, self._broken = True, False
            self.generation += 1

    def error(self, error: Any) -> NvmlError:
        """Return an error of pynvml's as ours; one that means that NVML is gone is remembered."""
        return self.failed(error.value)

    def failed(self, code: int) -> NvmlError:
        """Return the error for a code; one that means that NVML is gone is remembered."""
        if code in DOWN:
            self._broken = True
        return NvmlError(code, str(self.nvml.NVMLError(code)))

    def enter(self) -> Any:
        """Hold NVML for calls, so that nobody shuts it down meanwhile, until `leave`; gives the C library.

        Raises
        ------
        NvmlError
            If NVML is not there at present.
        """
        with self._lock:
            if not self._up or self._broken:
                raise NvmlError(1, "not initialised, the driver went away")
            self._calls += 1
        return self.nvml.nvmlLib

    def leave(self) -> None:
        """Let go of NVML after `enter`."""
        with self._lock:
            self._calls -= 1

    def is_up(self) -> bool:
        """Whether NVML can be called."""
        return self._up and not self._broken

    def begin_anew(self) -> None:
        """Have NVML initialised anew, unless a call hangs in it: that would cost all GPUs for one."""
        with self._lock:
            if not self._calls:
                self._broken = True

    def heal(self) -> None:
        """Take steps towards NVML being there again, if it is not; at most one try every `RETRY_S`."""
        if self._up:
            if not self._broken:
                return
            with self._lock:
                if self._calls:
                    return
                self._up = False
                self._down_since = self._clock()
            self._shut_down()
        elif self._clock() - self._down_since >= RETRY_S:
            self._down_since = self._clock()
            try:
                self.start()
            except NvmlError:
                return  # tried again; until then every GPU says why it is missing

    def name(self, uuid: str) -> str:
        """Return the short stable name of a GPU; the whole UUID where another GPU has that name already.

        Of two GPUs whose UUIDs begin alike (one pair in four thousand million) the one found first has
        the short name: to settle it otherwise, each GPU would have to wait for one that may hang.

        >>> Session().name("GPU-1a2b3c4d-0000-1111-2222-333344445555")
        'GPU-1a2b3c4d'
        """
        short = "-".join(uuid.split("-")[:2])
        with self._lock:
            return short if self._names.setdefault(short, uuid) == uuid else uuid

    def close(self) -> None:
        """Let go of NVML; a driver that does not answer is left behind."""
        with self._lock:
            if not self._up or self._calls:
                return
            self._up = False
        thread = threading.Thread(target=self._shut_down, name="reveal-nvml-close", daemon=True)
        thread.start()
        thread.join(CLOSE_S)

    def _shut_down(self) -> None:
        try:
            self.nvml.nvmlShutdown()
        except self.nvml.NVMLError:
            return  # not initialised any more: that is what was wanted
