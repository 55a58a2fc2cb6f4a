"""Raw cumulative counts as whole numbers."""

from __future__ import annotations

import numpy as np

from reveal_core.collect.columns import MISSING
from reveal_core.importing.types import Floats, Ints

_LARGEST = 2.0**62


def as_counts(values: Floats | Ints, scale: float = 1.0) -> Ints:
    """Return cumulative counts as whole numbers, `MISSING` for one that is missing or does not fit.

    Parameters
    ----------
    values
        Float64 with NaN for a missing sample, or int64 with `MISSING`.
    scale
        A whole number.
    """
    if values.dtype.kind == "i":
        return np.where(values != MISSING, values * int(scale), MISSING).astype(np.int64)
    scaled = np.round(values * scale)
    fits = np.abs(np.nan_to_num(scaled, nan=np.inf)) < _LARGEST
    return np.where(fits, np.where(fits, scaled, 0).astype(np.int64), MISSING)
