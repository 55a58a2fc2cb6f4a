"""Drift: do a host's features and scores still look like the telemetry that a model was fitted on?

Detectors judge windows; drift judges a whole span. It asks for a change that lasts, so that an incident of
some minutes in an hour is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.detect.base import Array
from reveal_core.errors import UsageError
from reveal_core.evaluate.reference import Reference, bin_counts, make_reference, stability_index
from reveal_core.model import RevealModel
from reveal_core.windows import Windows

BLOCKS, LEFT_OUT = 8, 2
"""A span is cut into so many blocks, and judged without any two neighbours: what lasts less is no drift."""
SCORE_QUANTILE = 0.95
JUDGED = 0.5
"""Smallest coverage of a window that is looked at: what a fit asks of a window, too."""


@dataclass(frozen=True)
class DriftRules:
    """Bounds beyond which a host has drifted, settable as ``[method.drift]``.

    Attributes
    ----------
    psi
        Population stability index of a feature. Below 0.1 a population counts as stable, from 0.25 on as
        shifted (Siddiqi 2006, Credit Risk Scorecards, ch. 10).
    shift
        Distance of the feature's median from that of training, in the model's scale of it, which is never
        below what is worth noticing.
    feature_share
        Share of drifted features that makes a host drift. Most features of a host stand still most of the
        time: later in the same run of a job none of 1,200 had drifted, in another run up to 1 %.
    score_share
        Share of windows that score beyond the 95 % quantile of healthy held-out ones, likewise. 0.05 is
        expected; up to 0.11 were seen later in the same run, 0.3 to 1 in runs on a machine that had changed.
    host_share
        Share of drifted hosts that makes a hardware class drift.
    minimum_windows
        Fewer windows than this are not judged.
    """

    psi: float = 0.25
    shift: float = 1.0
    feature_share: float = 0.05
    score_share: float = 0.3
    host_share: float = 0.5
    minimum_windows: int = 240


@dataclass(frozen=True)
class FeatureDrift:
    """A feature over the span: its index, and its shift in units of the model's scale.

    ``median`` and ``trained_median`` are in the feature's own unit; NaN where they were not asked for.
    ``missing`` is true where training had the feature and the span has no sample of it; its figures are NaN
    then.
    """

    name: str
    psi: float
    shift: float
    drifted: bool
    missing: bool = False
    median: float = math.nan
    trained_median: float = math.nan


@dataclass(frozen=True)
class Drift:
    """What a span of one host says about drift.

    Attributes
    ----------
    features
        Every feature, the furthest first.
    feature_share
        Share of them that drifted.
    score_share, score_ks
        Share of windows that score beyond the 95 % quantile of held-out ones, least of all choices of what is
        left out; and the distance of Kolmogorov and Smirnov between the two distributions of scores.
    windows
        Number of windows judged.
    drifted
        Whether features or scores did.
    why
        In words.
    """

    features: tuple[FeatureDrift, ...]
    feature_share: float
    score_share: float
    score_ks: float
    windows: int
    drifted: bool
    why: str


def find_drift(
    reference: Reference,
    Z: Array,
    *,
    scores: Array,
    held_out: Array,
    rules: DriftRules,
) -> Drift:
    """Return how far a span has drifted from training.

    A feature has drifted if its population stability index exceeds both the bound and what the training range
    showed within itself, and its median moved by what is worth noticing; and if that holds whichever quarter
    of the span is left out.

    Parameters
    ----------
    reference
        Of the model.
    Z
        Its features over the span's windows in units of the model's scale, from their median in training on,
        as the reference has them: shape (n_windows, n_features), in order of time, NaN where missing.
    scores
        Fused scores of the same windows, shape (n_windows,).
    held_out
        Fused scores of healthy windows by detectors that did not see them.
    rules
        The bounds.

    Raises
    ------
    UsageError
        If there are fewer windows than the rules ask for.
    """
    from scipy.stats import ks_2samp

    n = len(Z)
    if n < rules.minimum_windows:
        raise UsageError(
            f"{n} windows are too few to tell drift from an incident: "
            f"at least {rules.minimum_windows} are needed"
        )
    blocks = np.array_split(np.arange(n), BLOCKS)
    kept = [
        np.concatenate([b for i, b in enumerate(blocks) if not first <= i < first + LEFT_OUT])
        for first in range(BLOCKS - LEFT_OUT + 1)
    ]
    features = tuple(
        sorted(
            (
                _feature(reference, j, Z[:, j], kept, rules)
                for j in range(len(reference.names))
                if len(reference.edges[j])
            ),
            key=lambda f: (not f.drifted, f.missing, -abs(f.shift) if not f.missing else 0.0, f.name),
        )
    )
    share = sum(f.drifted for f in features) / max(len(features), 1)
    level = float(np.quantile(held_out, SCORE_QUANTILE))
    score_share = float(min((scores[rows] > level).mean() for rows in kept))
    by_features, by_scores = share >= rules.feature_share, score_share >= rules.score_share
    gone = sum(f.missing for f in features)
    moved = f"{share:.1%} of {len(features)} features have moved" + (f" ({gone} are gone)" if gone else "")
    strange = (
        f"{score_share:.0%} of the windows score higher than {SCORE_QUANTILE:.0%} of the healthy ones did"
    )
    said = [text for told, text in ((by_features, moved), (by_scores, strange)) if told]
    return Drift(
        features=features,
        feature_share=share,
        score_share=score_share,
        score_ks=float(ks_2samp(scores, held_out).statistic),
        windows=n,
        drifted=by_features or by_scores,
        why="; ".join(said) if said else f"no lasting change: {moved}, {strange}",
    )


def _feature(
    reference: Reference,
    j: int,
    values: Array,
    kept: Sequence[NDArray[np.int64]],
    rules: DriftRules,
) -> FeatureDrift:
    name, edges = reference.names[j], reference.edges[j]
    if np.isnan(values).all():
        return FeatureDrift(name, math.nan, math.nan, drifted=True, missing=True)
    expected = np.rint(reference.shares[j] * reference.windows).astype(np.int64)
    parts = [values[rows][~np.isnan(values[rows])] for rows in kept]
    parts = [part for part in parts if len(part)]
    psi = min(stability_index(expected, bin_counts(part, edges)) for part in parts)
    shifts = [float(np.median(part)) for part in parts]
    shift = min(shifts, key=abs)
    bound = max(rules.psi, float(reference.natural[j]))
    one_way = min(shifts) > 0 or max(shifts) < 0
    return FeatureDrift(
        name=name,
        psi=psi,
        shift=shift,
        drifted=bool(psi > bound and abs(shift) >= rules.shift and one_way),
    )


def reference_of(model: RevealModel, windows: Sequence[Windows]) -> Reference:
    """Return how the features that a model's detectors see were distributed over its training windows."""
    names = [model.feature_names[column] for column in model.kept_]
    return make_reference(names, np.vstack([_seen(model, _covered(one))[0] for one in windows]))


def drift_of(
    model: RevealModel, reference: Reference, windows: Sequence[Windows], rules: DriftRules
) -> Drift:
    """Return how far a host's windows have drifted from what a model was fitted on.

    Parameters
    ----------
    model, reference
        The model, and its reference from `reference_of`.
    windows
        Of the span, in pieces in order of time; those with too few samples are not judged.
    rules
        The bounds.

    Raises
    ------
    UsageError
        If there are too few windows, the model expects other features than the host has, or the reference is
        of another model.
    """
    names = [model.feature_names[column] for column in model.kept_]
    if list(reference.names) != names:
        raise UsageError("the reference distribution is of other features than the model has")
    covered = [_covered(one) for one in windows]
    pieces = [_seen(model, one) for one in covered]
    values = np.vstack([piece[1] for piece in pieces])
    centre = pieces[0][2]
    drift = find_drift(
        reference,
        np.vstack([piece[0] for piece in pieces]),
        scores=np.concatenate([model.score_windows(one).frame["fused"].to_numpy() for one in covered]),
        held_out=model.validation_scores,
        rules=rules,
    )
    column = {name: j for j, name in enumerate(names)}
    features = [
        replace(f, trained_median=float(centre[column[f.name]]))
        if f.missing
        else replace(
            f,
            median=float(np.nanmedian(values[:, column[f.name]])),
            trained_median=float(centre[column[f.name]]),
        )
        for f in drift.features
    ]
    return replace(drift, features=tuple(features))


def _covered(windows: Windows) -> Windows:
    return replace(windows, frame=windows.frame.filter(pl.col("coverage") >= JUDGED))


def _seen(model: RevealModel, windows: Windows) -> tuple[Array, Array, Array]:
    """Return the features that detectors see: scaled, in their own units, and their medians in training."""
    seen = model.excursions(windows)
    values = seen.values[:, model.kept_]
    # The scaler turns what is missing into 0, which here would be taken for a median.
    return np.where(np.isnan(values), np.nan, seen.z[:, model.kept_]), values, seen.centre[model.kept_]
