"""What every detector shares: the scikit-learn form of an outlier detector, with one sign convention."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from reveal_core.errors import UsageError

Array = NDArray[np.float64]
Contamination = Annotated[float, Field(gt=0.0, lt=0.5)]
"""Share of the training windows that `Detector.predict` calls outliers."""
Sees = Literal["signals", "coverage", "failures", "capacities"]
"""What the features of a detector are; see `Detector`."""
Above0 = Annotated[float, Field(gt=0.0)]
NotNegative = Annotated[float, Field(ge=0.0)]

_ARGUMENTS = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)


@cache
def _arguments(cls: type[Detector]) -> type[BaseModel]:
    """Return a model of what a detector's constructor takes, from its annotations."""
    hints = get_type_hints(cls.__init__, include_extras=True)
    taken = list(inspect.signature(cls.__init__).parameters.values())[1:]
    fields: dict[str, Any] = {p.name: (hints.get(p.name, Any), p.default) for p in taken}
    return create_model(cls.__name__, __config__=_ARGUMENTS, **fields)


def check_known(cls: type, given: Iterable[str], shown: str) -> set[str]:
    """Return the parameters of a class's constructor, if all that are given are among them.

    Raises
    ------
    UsageError
        If one is not; the class is called what it is ``shown`` as.
    """
    taken = inspect.signature(cls).parameters.values()
    known = {p.name for p in taken if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    unknown = sorted(set(given) - known)
    if unknown and not any(p.kind == p.VAR_KEYWORD for p in taken):
        raise UsageError(f"{shown} has no parameter {unknown[0]!r}: choose from {', '.join(sorted(known))}")
    return known


class Detector(OutlierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the detectors.

    A subclass has ``contamination`` among its parameters and implements ``_fit(X)``, ``_score(X)`` and
    ``_contributions(X)`` on validated arrays. The annotations of its constructor say what each parameter may
    be, with limits as `pydantic.Field` writes them; `fit` holds it to them.

    Attributes
    ----------
    sees
        What its features are: ``signals`` (what was measured, in standard units), ``coverage`` (share of
        the expected samples that arrived, 0 to 1), ``failures`` (errors that hardware counts, as they are) or
        ``capacities`` (what devices can do, as it is).
    accepts_missing
        NaN may stand for a value that is missing; else it is refused.
    costly_contributions
        `contributions` scores each window once per feature, so it is asked of few windows.
    resolution
        Difference of scores that means something; a class may set it where healthy scores are mostly 0.
    offset_
        As scikit-learn defines it, ``decision_function = score_samples - offset_``: minus the
        (1 - contamination) quantile of the training scores.
    """

    sees: ClassVar[Sees] = "signals"
    accepts_missing: ClassVar[bool] = False
    costly_contributions: ClassVar[bool] = False
    resolution: ClassVar[float] = 0.0

    contamination: float

    @abstractmethod
    def _fit(self, X: Array) -> None: ...

    @abstractmethod
    def _score(self, X: Array) -> Array: ...

    @abstractmethod
    def _contributions(self, X: Array) -> Array: ...

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.accepts_missing
        return tags

    def check_parameters(self) -> None:
        """Hold the parameters to what the constructor's annotations allow.

        Raises
        ------
        ValueError
            If one is of another type or beyond its limits; the line names which.
        """
        try:
            _arguments(type(self))(**self.get_params(deep=False))
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(
                f"{type(self).__name__}: {first['loc'][0]}: {first['msg']}, not {first['input']!r}"
            ) from error

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Fit on healthy windows.

        Parameters
        ----------
        X
            Shape (n_windows, n_features), finite; NaN where missing if the class ``accepts_missing``.
        y
            Ignored.

        Raises
        ------
        ValueError
            If a parameter or the input is not what it must be.
        """
        self.check_parameters()
        finite = "allow-nan" if self.accepts_missing else True
        checked = validate_data(self, X, dtype=np.float64, ensure_min_samples=2, ensure_all_finite=finite)
        self._fit(checked)
        self.offset_ = -float(np.quantile(self._score(checked), 1.0 - self.contamination))
        return self

    def _validate(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        finite = "allow-nan" if self.accepts_missing else True
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite=finite))

    def anomaly_score(self, X: ArrayLike) -> Array:
        """Return how strange each window is, shape (n_windows,); higher is stranger."""
        return self._score(self._validate(X))

    def contributions(self, X: ArrayLike) -> Array:
        """Return each feature's share of each window's score, shape (n_windows, n_features), at least 0."""
        return self._contributions(self._validate(X))

    def score_samples(self, X: ArrayLike) -> Array:
        """Return the opposite of `anomaly_score`, as scikit-learn has it: lower is stranger."""
        return -self.anomaly_score(X)

    def decision_function(self, X: ArrayLike) -> Array:
        """Return how far inside the training scores each window lies; negative is an outlier."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return 1 for an ordinary window and -1 for an outlier."""
        return np.where(self.decision_function(X) < 0, -1, 1)
