"""Sums over strides, and how those of neighbouring strides become those of a window.

A window's statistics follow from a few sums that can be joined: each sample is looked at once, and a window
of w strides costs log2(w) joins, however much windows overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
State = dict[str, Array]
"""Sums by name, each of shape (n_strides,), with `times` those of one channel:

``n`` samples; ``t`` and ``u`` sums of their time and its square, s; ``s``, ``q`` and ``x`` sums of the value,
of its square and of its product with time; ``l`` and ``h`` the smallest and largest; ``r`` sum of absolute
steps, ``f`` and ``e`` the first and last value. Values are centred; time counts from the start of the first
stride.
"""

SUMS: dict[str, tuple[str, ...]] = {
    "level": (),
    "spread": ("q",),
    "minimum": ("l",),
    "maximum": ("h",),
    "trend": ("x",),
    "roughness": ("r", "f", "e"),
}
"""What a statistic needs beside ``n`` and ``s``."""


@dataclass(frozen=True)
class Layout:
    """Which stride each sample of a channel falls into; channels with the same gaps share one.

    Attributes
    ----------
    strides, starts
        The strides that have samples, ascending, and where the samples of each begin.
    seconds
        Time of each sample within its stride.
    times
        The sums ``n``, ``t`` and ``u`` over every stride of the grid.
    size
        How many strides the grid has.
    """

    strides: NDArray[np.int64]
    starts: NDArray[np.int64]
    seconds: Array
    times: State
    size: int

    def spread_out(self, values: Array, missing: float) -> Array:
        """Return values of the strides with samples on the whole grid."""
        if len(self.strides) == self.size:
            return values
        whole = np.full(self.size, missing)
        whole[self.strides] = values
        return whole


def lay_out(strides: NDArray[np.int64], seconds: Array, size: int, *, trend: bool) -> Layout:
    """Return the layout of samples.

    Parameters
    ----------
    strides
        Stride of each sample, ascending, from 0 to ``size - 1``.
    seconds
        Time of each sample within its stride.
    size
        How many strides the grid has.
    trend
        Whether sums of times are needed.
    """
    starts = np.flatnonzero(np.diff(strides, prepend=-1))
    counts = np.diff(starts, append=len(strides)).astype(np.float64)
    layout = Layout(strides[starts], starts, seconds, {}, size)
    layout.times["n"] = layout.spread_out(counts, 0.0)
    if trend:
        layout.times["t"] = layout.spread_out(_add(seconds, starts), 0.0)
        layout.times["u"] = layout.spread_out(_add(seconds * seconds, starts), 0.0)
    return layout


def _add(values: Array, starts: NDArray[np.int64]) -> Array:
    return np.add.reduceat(values, starts) if len(starts) else np.zeros(0)


def stride_sums(values: Array, layout: Layout, statistics: Sequence[str]) -> State:
    """Return the sums of a channel over each stride.

    Parameters
    ----------
    values
        The channel's samples that are present, in order of time and centred: small against their spread,
        so that squares keep their digits.
    layout
        Of these samples.
    statistics
        Keys of `SUMS`; only what these need is summed.
    """
    starts = layout.starts
    state = {"s": layout.spread_out(_add(values, starts), 0.0)}
    for name in (name for statistic in statistics for name in SUMS[statistic]):
        if name == "q":
            state[name] = layout.spread_out(_add(values * values, starts), 0.0)
        elif name == "x":
            state[name] = layout.spread_out(_add(values * layout.seconds, starts), 0.0)
        elif name == "l":
            low = np.minimum.reduceat(values, starts) if len(starts) else values
            state[name] = layout.spread_out(low, np.inf)
        elif name == "h":
            high = np.maximum.reduceat(values, starts) if len(starts) else values
            state[name] = layout.spread_out(high, -np.inf)
        elif name == "r":
            steps = np.empty_like(values)
            np.subtract(values[1:], values[:-1], out=steps[1:])
            np.abs(steps, out=steps)
            steps[starts] = 0.0  # a step into a stride belongs to the window only if the one before does too
            state[name] = layout.spread_out(_add(steps, starts), 0.0)
        elif name == "f":
            state[name] = layout.spread_out(values[starts], np.nan)
        else:
            last = np.append(starts[1:], len(values)) - 1 if len(starts) else starts
            state[name] = layout.spread_out(values[last], np.nan)
    return state


def join(one: State, other: State, offset_s: float) -> State:
    """Return the sums over two neighbouring stretches, the other of which begins ``offset_s`` after the one.

    Both may hold ``n``, ``t`` and ``u``, or the sums of a channel's values.
    """
    joined: State = {}
    for name in one:
        a, b = one[name], other[name]
        if name == "t":
            joined[name] = a + b + offset_s * other["n"]
        elif name == "u":
            joined[name] = a + b + 2.0 * offset_s * other["t"] + offset_s**2 * other["n"]
        elif name == "x":
            joined[name] = a + b + offset_s * other["s"]
        elif name == "l":
            joined[name] = np.minimum(a, b)
        elif name == "h":
            joined[name] = np.maximum(a, b)
        elif name == "r":
            joined[name] = a + b + np.nan_to_num(np.abs(other["f"] - one["e"]), nan=0.0)
        elif name == "f":
            joined[name] = np.where(np.isnan(a), b, a)
        elif name == "e":
            joined[name] = np.where(np.isnan(b), a, b)
        else:
            joined[name] = a + b
    return joined


def _rows(state: State, begin: int, count: int) -> State:
    return {name: values[begin : begin + count] for name, values in state.items()}


def slide(state: State, width: int, stride_s: float) -> State:
    """Return the sums over every window of ``width`` strides, shape (n_strides - width + 1,).

    A window is put together from stretches of 1, 2, 4 … strides, as the binary digits of its width say.
    """
    size = len(next(iter(state.values())))
    count = max(0, size - width + 1)
    block, length, done = state, 1, 0
    whole: State | None = None
    while True:
        if width & length:
            part = _rows(block, done, count)
            whole = part if whole is None else join(whole, part, done * stride_s)
            done += length
        if done == width and whole is not None:
            return whole
        left = max(0, size - 2 * length + 1)
        block = join(_rows(block, 0, left), _rows(block, length, left), length * stride_s)
        length *= 2


def statistic_of(statistic: str, times: State, sums: State, centre: float) -> Array:
    """Return a statistic of every window from its sums; NaN for a window without samples.

    Parameters
    ----------
    statistic
        ``level`` (mean), ``spread`` (standard deviation), ``minimum``, ``maximum``, ``trend`` (least-squares
        slope per second) or ``roughness`` (mean absolute step between the window's own samples).
    times, sums
        From `slide`.
    centre
        What was subtracted from the values.
    """
    n = times["n"]
    some = n > 0
    safe = np.where(some, n, 1.0)
    result = _STATISTICS[statistic](n, safe, times, sums, centre)
    return np.where(some, result, np.nan)


def _level(_n: Array, safe: Array, _times: State, sums: State, centre: float) -> Array:
    return np.asarray(sums["s"] / safe + centre)


def _spread(_n: Array, safe: Array, _times: State, sums: State, _centre: float) -> Array:
    mean = sums["s"] / safe
    return np.sqrt(np.maximum(sums["q"] / safe - mean * mean, 0.0))


def _trend(n: Array, _safe: Array, times: State, sums: State, _centre: float) -> Array:
    """Least-squares slope per second: (n·Σtx - Σt·Σx) / (n·Σt² - (Σt)²)."""
    t = times["t"]
    below = n * times["u"] - t * t
    return np.where(below > 1e-9, (n * sums["x"] - t * sums["s"]) / np.where(below > 1e-9, below, 1.0), 0.0)


def _roughness(n: Array, _safe: Array, _times: State, sums: State, _centre: float) -> Array:
    return np.asarray(sums["r"] / np.maximum(n - 1.0, 1.0))


_STATISTICS: dict[str, Callable[[Array, Array, State, State, float], Array]] = {
    "level": _level,
    "spread": _spread,
    "minimum": lambda _n, _safe, _times, sums, centre: sums["l"] + centre,
    "maximum": lambda _n, _safe, _times, sums, centre: sums["h"] + centre,
    "trend": _trend,
    "roughness": _roughness,
}
