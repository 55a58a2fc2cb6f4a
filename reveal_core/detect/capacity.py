"""What the hardware says it can do."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from reveal_core.detect.base import Above0, Array, Contamination, Detector, Sees


class CapacityDetector(Detector):
    """How much less a device can do than it could while all was well.

    A PCIe link that came back with four lanes of sixteen, a network card that negotiated a tenth of its speed
    or a power limit that somebody lowered moves one feature of a thousand, and slows a job for weeks. Such a
    level stands still whatever a job does, so that a fall of it is a fault, or a setting that somebody
    changed, and never chance.

    Its features are the levels of the metrics that the catalogue marks as ``capacity``, as they are; NaN for
    one that the host does not have, which is not judged.

    Parameters
    ----------
    usual
        A feature's usual level is this quantile of its levels in training: low, so that a limit which is
        lowered every night is not news.
    scale
        Loss that counts half, as a share of the usual level.
    contamination
        Share of the training windows that `predict` calls outliers.

    Notes
    -----
    The score is the largest ``loss / (loss + scale)``, from 0 to 1 / (1 + scale): half of a capacity gives
    .91. Of eight devices one that loses half takes a sixteenth from their mean, which gives .56. It is 0
    while nothing is lost, so that it leaves every fault's place against the threshold as it was: see
    `reveal_core.detect.coverage.CoverageDetector`.

    Examples
    --------
    >>> import numpy as np
    >>> detector = CapacityDetector().fit(np.full((100, 2), 16.0))
    >>> detector.anomaly_score([[16.0, np.nan], [16.0, 8.0], [32.0, 16.0]]).round(2).tolist()
    [0.0, 0.91, 0.0]
    """

    sees: ClassVar[Sees] = "capacities"
    accepts_missing: ClassVar[bool] = True
    resolution: ClassVar[float] = 0.02
    """Losing half of a capacity, alone of all that is judged, must be beyond a threshold that faults set."""

    def __init__(
        self,
        *,
        usual: Annotated[float, Field(ge=0, le=0.5)] = 0.05,
        scale: Above0 = 0.05,
        contamination: Contamination = 0.01,
    ) -> None:
        self.usual = usual
        self.scale = scale
        self.contamination = contamination

    def _fit(self, X: Array) -> None:
        # Of what training never had nothing can be lost.
        known = np.where(np.isnan(X).all(axis=0), 0.0, X)
        self.usual_ = np.nanquantile(known, self.usual, axis=0, method="lower")

    def _score(self, X: Array) -> Array:
        return np.asarray(self._contributions(X).max(axis=1))

    def _contributions(self, X: Array) -> Array:
        had = self.usual_ > 0.0
        lost = np.where(had, np.clip(self.usual_ - X, 0.0, self.usual_), 0.0)
        loss = np.nan_to_num(lost / np.where(had, self.usual_, 1.0), nan=0.0)
        return np.asarray(loss / (loss + self.scale))
