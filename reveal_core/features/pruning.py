"""Which features are worth keeping, and what each kept one stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reveal_core.windows import Feature

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Pruned:
    """Outcome of pruning.

    ``alive`` are the columns that move, or are events that may; ``kept`` those of them that detectors see.
    Both are column numbers in ascending order. ``groups`` maps the name of a kept feature to the names it
    stands for; ``still`` names the features dropped because they did not move.
    """

    alive: tuple[int, ...]
    kept: tuple[int, ...]
    groups: dict[str, tuple[str, ...]]
    still: tuple[str, ...]


def prune(
    values: Array, features: Sequence[Feature], events: NDArray[np.bool_], correlation: float
) -> Pruned:
    """Drop features that do not move, then keep one of each group that moves together.

    Parameters
    ----------
    values
        Healthy windows, shape (n_windows, n_features); NaN where missing.
    features
        What the columns are.
    events
        True for a feature of an event counter, shape (n_features,): kept although it stood still, because it
        carries the cause when it moves.
    correlation
        Features whose absolute Pearson correlation with a kept one is above this are dropped in its favour.

    Notes
    -----
    Deterministic: features are taken in the order of the columns, and levels before other statistics, so what
    stands for a group does not depend on the data's noise.
    """
    seen = ~np.isnan(values).all(axis=0)
    spread = np.zeros(values.shape[1])
    spread[seen] = np.nanmax(values[:, seen], axis=0) - np.nanmin(values[:, seen], axis=0)
    size = np.ones(values.shape[1])
    size[seen] = np.maximum(np.nanmax(np.abs(values[:, seen]), axis=0), 1e-12)
    moves = seen & (spread > 1e-9 * size)
    candidates = [int(i) for i in np.flatnonzero(moves)]
    order = sorted(candidates, key=lambda i: (features[i].statistic != "level", features[i].part, i))
    filled = np.nan_to_num(values[:, order] - np.nanmean(values[:, order], axis=0), nan=0.0)
    norm = np.linalg.norm(filled, axis=0)
    unit = filled / np.where(norm > 0, norm, 1.0)
    similar = np.abs(unit.T @ unit) > correlation
    kept: list[int] = []
    groups: dict[str, tuple[str, ...]] = {}
    free = np.ones(len(order), dtype=bool)
    for position, index in enumerate(order):
        if not free[position]:
            continue
        members = np.flatnonzero(similar[position] & free)
        free[members] = False
        free[position] = False
        kept.append(index)
        names = tuple(features[order[m]].name for m in members.tolist() if m != position)
        if names:
            groups[features[index].name] = names
    still_events: list[int] = np.flatnonzero(seen & ~moves & events).tolist()
    kept.extend(still_events)
    dropped = np.flatnonzero(~moves & ~(seen & events))
    still = tuple(features[i].name for i in dropped.tolist())
    alive = sorted({*candidates, *still_events})
    return Pruned(tuple(alive), tuple(sorted(kept)), groups, still)
