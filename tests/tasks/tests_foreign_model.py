"""A class that Reveal does not know, for models that it must not load."""

from __future__ import annotations

from sklearn.base import BaseEstimator


class Foreign(BaseEstimator):
    def fit(self, X, y=None):
        return self

    def predict(self, X):
        return X
