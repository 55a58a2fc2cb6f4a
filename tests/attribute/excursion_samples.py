"""Excursions made by hand: what left its band, in which windows."""

from collections.abc import Mapping

import numpy as np

from reveal_core.catalog import load_catalog
from reveal_core.detect.contributions import Excursions
from reveal_core.windows import Feature

START_NS = 1_795_989_600_000_000_000


def feature(metric: str, part: str = "value", statistic: str = "level") -> Feature:
    known = load_catalog().get(metric)
    subsystem = known.subsystem if known else "cpu"
    unit = known.physical_unit if known else "%"
    return Feature(f"{metric}:{part}:{statistic}", metric, part, statistic, subsystem, unit)


def excursions(moved: Mapping[Feature, Mapping[range, float]], windows: int = 40) -> Excursions:
    """Return excursions in which each feature has the given excess over ranges of windows, 0 elsewhere."""
    features = tuple(moved)
    excess = np.zeros((windows, len(features)))
    for column, spans in enumerate(moved.values()):
        for span, value in spans.items():
            excess[list(span), column] = value
    k = len(features)
    return Excursions(
        features=features,
        start_ns=START_NS + np.arange(windows, dtype=np.int64) * 10**9,
        values=np.where(excess > 0, 2.0 + excess, np.where(excess < 0, excess, 1.0)),
        z=excess,
        excess=excess,
        low=np.zeros(k),
        high=np.full(k, 2.0),
        centre=np.ones(k),
        stands_for={features[0].name: ("other:value:level",)} if features else {},
    )
