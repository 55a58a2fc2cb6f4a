"""Errors that the hardware counts itself."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from reveal_core.detect.base import Above0, Array, Contamination, Detector, Sees


class FailureDetector(Detector):
    """Whether the hardware counts an error that it did not count while all was well.

    A GPU whose memory loses data, a disk with unreadable sectors or a machine check moves one feature of a
    thousand. Detectors of signals hold that for chance, rightly so for most features: single counters break
    out every hour. These do not: a single count is a fault.

    Its features are the levels of the metrics that the catalogue marks as ``failure``, as they are: errors a
    second, or a state; NaN for one that the host does not have, which is not judged.

    Parameters
    ----------
    usual
        A feature's usual level is this quantile of its levels in training: a device that counts corrected
        errors all the time is not news, one error in a whole history makes no later one usual.
    scale
        Rise above the usual level that counts half, in units of the feature: one error a minute.
    contamination
        Share of the training windows that `predict` calls outliers.

    Notes
    -----
    The score is the largest ``rise / (rise + scale)``, from 0 to 1: one error in a window of 3 s gives .95,
    one in 15 s .80. It is 0 while nothing fails, so that it leaves every fault's place against the threshold
    as it was: see `reveal_core.detect.coverage.CoverageDetector`.

    Examples
    --------
    >>> import numpy as np
    >>> detector = FailureDetector().fit(np.zeros((100, 3)))
    >>> detector.anomaly_score([[0.0, np.nan, 0.0], [0.0, 1 / 3, 0.0]]).round(2).tolist()
    [0.0, 0.95]
    """

    sees: ClassVar[Sees] = "failures"
    accepts_missing: ClassVar[bool] = True
    resolution: ClassVar[float] = 0.02
    """One error, alone of all that is judged, must be beyond a threshold that faults set."""

    def __init__(
        self,
        *,
        usual: Annotated[float, Field(ge=0.5, le=1)] = 0.95,
        scale: Above0 = 1.0 / 60.0,
        contamination: Contamination = 0.01,
    ) -> None:
        self.usual = usual
        self.scale = scale
        self.contamination = contamination

    def _fit(self, X: Array) -> None:
        # What training never had is expected to be well.
        known = np.where(np.isnan(X).all(axis=0), 0.0, X)
        self.usual_ = np.nanquantile(known, self.usual, axis=0, method="lower")

    def _score(self, X: Array) -> Array:
        return np.asarray(self._contributions(X).max(axis=1))

    def _contributions(self, X: Array) -> Array:
        rise = np.nan_to_num(np.maximum(X - self.usual_, 0.0), nan=0.0)
        return np.asarray(rise / (rise + self.scale))
