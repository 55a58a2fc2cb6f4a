"""Windows of several hosts side by side, as peer comparison takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reveal_core.detect.base import Array
from reveal_core.errors import UsageError
from reveal_core.windows import Windows


@dataclass(frozen=True)
class PeerWindows:
    """Windows of several hosts by the start that they share.

    Attributes
    ----------
    hosts, features
        Names along the axes of ``values``.
    start_ns
        Start of each window, ns since the epoch, ascending, shape (n_windows,).
    values
        Shape (n_windows, n_hosts, n_features); NaN where a host has no such window or feature.
    """

    hosts: tuple[str, ...]
    features: tuple[str, ...]
    start_ns: NDArray[np.int64]
    values: Array


def align_windows(windows: Sequence[Windows]) -> PeerWindows:
    """Put the windows of hosts side by side.

    Windows come from a fixed grid in UTC, so those of different hosts begin at the same times. In roll-up
    space features mean the same on hosts of any size.

    Parameters
    ----------
    windows
        One per host.

    Returns
    -------
    PeerWindows
        Every start that any host has, and every feature, in order of its first appearance.

    Raises
    ------
    UsageError
        If there is no host, or a host comes twice.
    """
    hosts = tuple(one.host for one in windows)
    twice = sorted({host for host in hosts if hosts.count(host) > 1})
    if twice or not hosts:
        raise UsageError(f"hosts to compare: {', '.join(twice)} twice" if twice else "no hosts to compare")
    features = tuple(dict.fromkeys(feature.name for one in windows for feature in one.features))
    starts = [one.frame["start"].dt.timestamp("ns").to_numpy() for one in windows]
    grid = np.unique(np.concatenate(starts)).astype(np.int64)
    values = np.full((len(grid), len(hosts), len(features)), np.nan)
    places = {name: place for place, name in enumerate(features)}
    for number, (one, start) in enumerate(zip(windows, starts, strict=True)):
        rows = np.searchsorted(grid, start)
        for feature in one.features:
            column = one.frame[feature.name].cast(float).fill_null(float("nan")).to_numpy()
            values[rows, number, places[feature.name]] = column
    return PeerWindows(hosts, features, grid, values)
