"""Isolation Forest, with each feature's share of the isolation."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy import sparse
from sklearn import config_context
from sklearn.ensemble import IsolationForest

from reveal_core.detect.base import Array, Contamination, Detector


class IsolationForestDetector(Detector):
    """scikit-learn's Isolation Forest behind the detectors' interface.

    Parameters
    ----------
    n_estimators, max_samples, random_state
        As `sklearn.ensemble.IsolationForest` has them.
    contamination
        Share of the training windows that `predict` calls outliers; 0.01 as the publication has it.
    """

    def __init__(
        self,
        *,
        n_estimators: Annotated[int, Field(ge=1)] = 100,
        max_samples: Annotated[int, Field(ge=1)]
        | Annotated[float, Field(gt=0, le=1)]
        | Literal["auto"] = "auto",
        random_state: Annotated[int, Field(ge=0)] | None = 0,
        contamination: Contamination = 0.01,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.random_state = random_state
        self.contamination = contamination

    def _fit(self, X: Array) -> None:
        self.forest_ = IsolationForest(
            n_estimators=self.n_estimators,
            max_samples=self.max_samples,
            random_state=self.random_state,
        ).fit(X)

    def _score(self, X: Array) -> Array:
        # The values were looked at already, and checks in each of a hundred trees take as long as the trees.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            return np.asarray(-self.forest_.score_samples(X))

    def _contributions(self, X: Array) -> Array:
        """Credit features on the path to a leaf, more on a short path (local DIFFI, Carletti et al. 2023)."""
        credit = np.zeros((len(X), self.n_features_in_))
        for tree in self.forest_.estimators_:
            path = tree.decision_path(X)
            depth = np.asarray(path.sum(axis=1)).ravel() - 1.0
            feature = tree.tree_.feature
            splits = np.flatnonzero(feature >= 0)
            used = sparse.csr_matrix(
                (np.ones(len(splits)), (splits, feature[splits])), shape=(len(feature), self.n_features_in_)
            )
            weight = 1.0 / np.maximum(depth, 1.0) - 1.0 / max(tree.tree_.max_depth, 1)
            credit += (path @ used).multiply(weight[:, None]).toarray()
        return credit / len(self.forest_.estimators_)
