"""Anomalous windows that belong together become one incident's span."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reveal_core.profiles import Profile

Array = NDArray[np.float64]

_SAME = 0.5
"""Similarity above which two sets of windows show the same signals."""

_OTHER = 0.3
"""Similarity below which they show others."""

_YOUNG = 4
"""Windows an incident needs before another can take over: its looks change while the window fills."""

_FADED = 0.5
"""Share of the incident's score below which other signals are its after-effects and no fault of their own."""

_LASTING = 3
"""Windows that must agree on the new looks."""

_LINGERS = 2
"""Times ``cooldown_s`` that an after-effect below the threshold keeps an incident up."""


@dataclass(frozen=True)
class Span:
    """Windows of one incident: numbers of its anomalous windows, ascending."""

    windows: tuple[int, ...]

    @property
    def first(self) -> int:
        """Number of the first anomalous window."""
        return self.windows[0]

    @property
    def last(self) -> int:
        """Number of the last anomalous window."""
        return self.windows[-1]


def similarity(excess: Array, one: Sequence[int], other: Sequence[int]) -> float:
    """Return how alike two sets of windows are in what left its band: cosine of log(1 + mean excess)."""
    a = np.log1p(np.abs(excess[list(one)]).mean(axis=0))
    b = np.log1p(np.abs(excess[list(other)]).mean(axis=0))
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norm if norm > 0 else 1.0


def group_windows(anomalous: NDArray[np.bool_], ratio: Array, excess: Array, profile: Profile) -> list[Span]:
    """Return the spans of incidents.

    Parameters
    ----------
    anomalous
        Which windows are beyond the threshold, shape (n,).
    ratio
        Fused score over its threshold, shape (n,).
    excess
        Signed excess beyond the healthy band, shape (n, k).
    profile
        Its ``clear_ratio``, ``gap_s``, ``cooldown_s``, ``stride_s`` and ``minimum_windows``.

    Notes
    -----
    An incident goes on while the score stays above ``clear_ratio`` of the threshold, and through calm of up
    to ``gap_s``: an after-effect of a fault (a queue that drains, a cache that refills) is no fault of its
    own. But it ends for good when no window has been beyond the threshold for twice ``cooldown_s``: a host
    may stay a little out of its habits for ever, and what comes then is another incident. What begins later,
    within ``cooldown_s``, belongs to it only if the same signals are out of their
    bands.
    """
    gap = round(profile.gap_s / profile.stride_s)
    cooldown = round(profile.cooldown_s / profile.stride_s)
    # A window of w strides stays strange for w - 1 strides after the cause has gone; the calm begins after
    # these.
    overlap = round(profile.window_s / profile.stride_s) - 1
    lingers = max(gap, round(_LINGERS * profile.cooldown_s / profile.stride_s))
    raw: list[list[int]] = []
    alive = -(10**9)
    for index in range(len(anomalous)):
        if anomalous[index]:
            if raw and index - alive <= gap + 1:
                raw[-1].append(index)
            else:
                raw.append([index])
            alive = index
        elif (
            raw
            and ratio[index] > profile.clear_ratio
            and index - alive <= gap + 1
            and index - raw[-1][-1] <= lingers
        ):
            alive = index
    parts = [part for windows in raw for part in split(windows, excess, ratio)]
    merged: list[list[int]] = []
    for windows in parts:
        if merged:
            calm = windows[0] - merged[-1][-1] - 1 - overlap
            if 0 < calm <= cooldown and similarity(excess, merged[-1], windows) > _SAME:
                merged[-1].extend(windows)
                continue
        merged.append(list(windows))
    return [Span(tuple(w)) for w in merged if len(w) >= profile.minimum_windows]


def split(windows: Sequence[int], excess: Array, ratio: Array) -> list[list[int]]:
    """Return a run of anomalous windows in parts, a new one where other signals take over.

    A new fault while the old one's after-effects keep the score up is a new incident. It is told by what is
    out of its band: the new windows are unlike what the incident looked like so far, alike among themselves,
    and about as strange: what is left of a fault when it ends looks different too, but fades.
    """
    parts: list[list[int]] = [[windows[0]]]
    position = 1
    while position < len(windows):
        current = parts[-1]
        ahead = list(windows[position : position + _LASTING])
        fresh = (
            len(current) >= _YOUNG
            and len(ahead) == _LASTING
            and similarity(excess, current[-_YOUNG:], ahead) < _OTHER
            and similarity(excess, current, ahead) < _OTHER
            and similarity(excess, ahead[:1], ahead[1:]) > _SAME
            and ratio[ahead].mean() >= _FADED * np.median(ratio[current])
        )
        if fresh:
            parts.append(ahead)
            position += _LASTING
        else:
            current.append(windows[position])
            position += 1
    return parts
