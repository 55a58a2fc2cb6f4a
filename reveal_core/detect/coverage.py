"""Telemetry that went missing."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from reveal_core.detect.base import Array, Contamination, Detector, Sees


class CoverageDetector(Detector):
    """How much less of its samples a source delivers than it did while all was well.

    A machine under load loses telemetry before it loses anything else, and a device that hangs takes its
    source with it. Neither shows in the signals: what is missing there counts as ordinary.

    Its features are the sources. A value is the share of the expected samples that a source delivered, from 0
    to 1; NaN for a source that the host does not have, which is not judged.

    Parameters
    ----------
    usual
        A source's usual level is this quantile of its shares in training: low, so that a source which always
        delivers little is not strange, and above the very lowest, so that one gap in healthy history does not
        make every later one usual.
    floor
        Loss below the usual level that is not worth noticing, as a share of the expected samples. A window of
        3 s holds 30 samples of a source that is read ten times a second: a stall of 0.6 s loses 6 of them.
    contamination
        Share of the training windows that `predict` calls outliers.

    Notes
    -----
    The score is the root of the summed squares of the losses, each from 0 to 1 - floor: as large as the
    largest for one source of twenty, larger the more are lost, and 0 while nothing is missing. So its
    calibrated -ln of the tail probability is 0 there too, and a root mean square over the detectors shrinks
    in history and later by the same factor: fault over threshold stays what it was without this detector.

    Examples
    --------
    >>> import numpy as np
    >>> detector = CoverageDetector().fit(np.ones((100, 3)))
    >>> detector.anomaly_score([[1.0, 0.9, np.nan], [1.0, 0.2, 1.0]]).round(2).tolist()
    [0.0, 0.6]
    """

    sees: ClassVar[Sees] = "coverage"
    accepts_missing: ClassVar[bool] = True
    resolution: ClassVar[float] = 0.02
    """Losing a source whole, alone of all that is judged, must be beyond a threshold that faults set."""

    def __init__(
        self,
        *,
        usual: Annotated[float, Field(ge=0, le=0.5)] = 0.05,
        floor: Annotated[float, Field(ge=0, lt=1)] = 0.2,
        contamination: Contamination = 0.01,
    ) -> None:
        self.usual = usual
        self.floor = floor
        self.contamination = contamination

    def _fit(self, X: Array) -> None:
        # A source that training never had is expected to deliver nothing.
        known = np.where(np.isnan(X).all(axis=0), 0.0, X)
        self.usual_ = np.nanquantile(np.clip(known, 0.0, 1.0), self.usual, axis=0, method="lower")

    def _loss(self, X: Array) -> Array:
        lost = self.usual_ - self.floor - np.clip(X, 0.0, 1.0)
        return np.asarray(np.nan_to_num(np.maximum(lost, 0.0), nan=0.0))

    def _score(self, X: Array) -> Array:
        return np.asarray(np.sqrt(self._contributions(X).sum(axis=1)))

    def _contributions(self, X: Array) -> Array:
        return np.asarray(self._loss(X) ** 2)
