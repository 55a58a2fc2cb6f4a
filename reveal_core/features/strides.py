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
"""Sums by name: of values of channels, each of shape (n_channels, n_strides), or of their times, which the
channels share, of shape (n_strides,):

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

    Most strides have the same number of samples: these are summed side by side, which is several times
    faster, and the odd ones one after another.

    Attributes
    ----------
    even, even_rows, even_strides
        The commonest number of samples in a stride; the samples of the strides that have so many, None for
        all; and these strides.
    odd_rows, odd_starts, odd_strides
        The samples of the other strides, where those of each begin among them, and the strides.
    even_seconds, odd_seconds
        Time of the samples within their stride, shapes (even, n) and (m,).
    times
        The sums ``n``, ``t`` and ``u`` over every stride of the grid.
    size
        How many strides the grid has.
    """

    even: int
    even_rows: NDArray[np.int64] | None
    even_strides: NDArray[np.int64]
    odd_rows: NDArray[np.int64]
    odd_starts: NDArray[np.int64]
    odd_strides: NDArray[np.int64]
    even_seconds: Array
    odd_seconds: Array
    times: State
    size: int

    @property
    def gaps(self) -> bool:
        """Whether a stride of the grid has no samples."""
        return len(self.even_strides) + len(self.odd_strides) < self.size

    def parts(self, values: Array, centre: Array) -> tuple[Array, Array]:
        """Return centred samples: those of even strides, shape (even, n_channels, n), and of odd ones.

        Values have shape (n_channels, n_samples), their centres (n_channels,); the odd ones (n_channels, m).
        """
        chosen = values if self.even_rows is None else values[:, self.even_rows]
        channels, samples = chosen.shape
        block = np.empty((self.even, channels, samples // self.even))
        side_by_side = chosen.reshape(channels, -1, self.even).transpose(2, 0, 1)
        np.subtract(side_by_side, centre[:, None], out=block)
        return block, values[:, self.odd_rows] - centre[:, None]

    def whole(self, of_even: Array, of_odd: Array, missing: float) -> Array:
        """Return values of even and odd strides on the whole grid."""
        if len(self.even_strides) == self.size:
            return of_even
        grid = np.full((*of_even.shape[:-1], self.size), missing)
        grid[..., self.even_strides] = of_even
        grid[..., self.odd_strides] = of_odd
        return grid

    def reduce(self, ufunc: np.ufunc, even: Array, odd: Array, missing: float) -> Array:
        """Return samples reduced over each stride of the grid."""
        of_odd = ufunc.reduceat(odd, self.odd_starts, axis=-1) if odd.shape[-1] else odd
        return self.whole(ufunc.reduce(even, axis=0), of_odd, missing)


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
    counts = np.diff(starts, append=len(strides))
    even = int(np.bincount(counts).argmax()) if len(counts) else 1
    regular = counts == even
    rows = np.repeat(regular, counts)
    odd_counts = counts[~regular]
    layout = Layout(
        even=even,
        even_rows=None if rows.all() else np.flatnonzero(rows),
        even_strides=strides[starts[regular]],
        odd_rows=np.flatnonzero(~rows),
        odd_starts=np.cumsum(odd_counts) - odd_counts,
        odd_strides=strides[starts[~regular]],
        even_seconds=np.ascontiguousarray(seconds[rows].reshape(-1, even).T),
        odd_seconds=seconds[~rows],
        times={},
        size=size,
    )
    layout.times["n"] = layout.whole(np.full(int(regular.sum()), float(even)), odd_counts, 0.0)
    if trend:
        t, odd = layout.even_seconds, layout.odd_seconds
        layout.times["t"] = layout.reduce(np.add, t, odd, 0.0)
        layout.times["u"] = layout.reduce(np.add, t * t, odd * odd, 0.0)
    return layout


def stride_sums(values: Array, centre: Array, layout: Layout, statistics: Sequence[str]) -> State:
    """Return the sums of channels over each stride.

    Parameters
    ----------
    values
        Samples of channels that have them at the same times, in order of time, shape (n_channels, n_samples).
    centre
        Subtracted from them first, so that squares of large values keep their digits; shape (n_channels,).
    layout
        Of these samples.
    statistics
        Keys of `SUMS`; only what these need is summed.
    """
    even, odd = layout.parts(values, centre)
    state = {"s": layout.reduce(np.add, even, odd, 0.0)}
    for name in (name for statistic in statistics for name in SUMS[statistic]):
        if name == "q":
            state[name] = layout.reduce(np.add, even * even, odd * odd, 0.0)
        elif name == "x":
            times = layout.even_seconds[:, None, :]
            state[name] = layout.reduce(np.add, even * times, odd * layout.odd_seconds, 0.0)
        elif name == "l":
            state[name] = layout.reduce(np.minimum, even, odd, np.inf)
        elif name == "h":
            state[name] = layout.reduce(np.maximum, even, odd, -np.inf)
        elif name == "r":
            state[name] = _steps(even, odd, layout)
        elif name == "f":
            state[name] = layout.whole(even[0], odd[:, layout.odd_starts], np.nan)
        else:
            count = odd.shape[1]
            ends = np.append(layout.odd_starts[1:], count) - 1 if count else layout.odd_starts
            state[name] = layout.whole(even[-1], odd[:, ends], np.nan)
    return state


def _steps(even: Array, odd: Array, layout: Layout) -> Array:
    """Return the sum of absolute steps within each stride; those between strides are added when joined."""
    of_odd = odd
    if odd.shape[1]:
        steps = np.abs(np.diff(odd, prepend=0.0))
        steps[:, layout.odd_starts] = 0.0
        of_odd = np.add.reduceat(steps, layout.odd_starts, axis=1)
    steps = even[1:] - even[:-1]
    np.abs(steps, out=steps)
    return layout.whole(steps.sum(axis=0), of_odd, 0.0)


def join(one: State, other: State, offset_s: float, *, gaps: bool = True) -> State:
    """Return the sums over two neighbouring stretches, the other of which begins ``offset_s`` after the one.

    Both may hold ``n``, ``t`` and ``u``, or the sums of a channel's values. Without ``gaps`` every stretch
    has samples.
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
            step = np.abs(other["f"] - one["e"])
            if gaps:
                step[np.isnan(step)] = 0.0  # one of the two stretches has no samples
            joined[name] = a + b + step
        elif name == "f":
            joined[name] = np.where(np.isnan(a), b, a) if gaps else a
        elif name == "e":
            joined[name] = np.where(np.isnan(b), a, b) if gaps else b
        else:
            joined[name] = a + b
    return joined


def _rows(state: State, begin: int, count: int) -> State:
    return {name: values[..., begin : begin + count] for name, values in state.items()}


def slide(state: State, width: int, stride_s: float, *, gaps: bool = True) -> State:
    """Return the sums over every window of ``width`` strides, of which there are n_strides - width + 1.

    A window is put together from stretches of 1, 2, 4 … strides, as the binary digits of its width say.
    Without ``gaps`` every stride has samples, which is told faster.
    """
    size = next(iter(state.values())).shape[-1]
    count = max(0, size - width + 1)
    block, length, done = state, 1, 0
    whole: State | None = None
    while True:
        if width & length:
            part = _rows(block, done, count)
            whole = part if whole is None else join(whole, part, done * stride_s, gaps=gaps)
            done += length
        if done == width and whole is not None:
            return whole
        left = max(0, size - 2 * length + 1)
        block = join(_rows(block, 0, left), _rows(block, length, left), length * stride_s, gaps=gaps)
        length *= 2


def statistic_of(statistic: str, times: State, sums: State, centre: Array) -> Array:
    """Return a statistic of every window of channels from its sums; NaN for a window without samples.

    Parameters
    ----------
    statistic
        ``level`` (mean), ``spread`` (standard deviation), ``minimum``, ``maximum``, ``trend`` (least-squares
        slope per second) or ``roughness`` (mean absolute step between the window's own samples).
    times, sums
        From `slide`.
    centre
        What was subtracted from the values, shape (n_channels,).

    Returns
    -------
    Array
        Shape (n_channels, n_windows).
    """
    n = times["n"]
    result = _STATISTICS[statistic](np.maximum(n, 1.0), times, sums, centre[:, None])
    result[:, n == 0] = np.nan
    return result


_ROUNDING = 1e-14
"""What is left of equal values that are taken from each other, as a share of them: rounding, some
fifty times float64's."""


def _level(n: Array, _times: State, sums: State, centre: Array) -> Array:
    level = sums["s"] / n + centre
    return np.asarray(np.where(np.abs(level) > _ROUNDING * np.abs(centre), level, 0.0))


def _spread(n: Array, _times: State, sums: State, _centre: Array) -> Array:
    mean = sums["s"] / n
    squares = sums["q"] / n
    variance = squares - mean * mean
    return np.sqrt(np.where(variance > _ROUNDING * squares, variance, 0.0))


def _trend(n: Array, times: State, sums: State, _centre: Array) -> Array:
    """Least-squares slope per second: (n·Σtx - Σt·Σx) / (n·Σt² - (Σt)²)."""
    t = times["t"]
    below = n * times["u"] - t * t
    above = n * sums["x"] - t * sums["s"]
    return np.where(below > 1e-9, above / np.maximum(below, 1e-9), 0.0)


def _roughness(n: Array, _times: State, sums: State, _centre: Array) -> Array:
    return np.asarray(sums["r"] / np.maximum(n - 1.0, 1.0))


_STATISTICS: dict[str, Callable[[Array, State, State, Array], Array]] = {
    "level": _level,
    "spread": _spread,
    "minimum": lambda _n, _times, sums, centre: sums["l"] + centre,
    "maximum": lambda _n, _times, sums, centre: sums["h"] + centre,
    "trend": _trend,
    "roughness": _roughness,
}
