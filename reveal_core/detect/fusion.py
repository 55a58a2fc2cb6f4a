"""Several detectors' calibrated scores as one."""

from __future__ import annotations

import numpy as np

from reveal_core.detect.base import Array


def fuse(log_tails: Array) -> Array:
    """Return the root mean square of -ln p over the detectors.

    Parameters
    ----------
    log_tails
        -ln of tail probabilities, shape (n_windows, n_detectors).

    Notes
    -----
    On labelled data it was never worse than its best member by more than .02 of average precision, where
    votes and medians lost real events.
    """
    return np.asarray(np.sqrt((log_tails**2).mean(axis=1)))
