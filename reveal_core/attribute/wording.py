"""Evidence as sentences: what moved, to which value, against which normal band."""

from __future__ import annotations

from reveal_core.formatting import format_band, format_value
from reveal_core.windows import Feature

_PARTS = {"mean": "mean over instances", "max": "highest instance", "imbalance": "highest above the mean"}
_STATISTICS = {"level": "", "spread": "spread"}


def band_sentence(says: str, feature: Feature, value: float, low: float, high: float) -> str:
    """Return a piece of evidence as a sentence.

    Examples
    --------
    >>> feature = Feature("x:max:level", "tcp.RetransSegs", "max", "level", "network", "segments/s")
    >>> band_sentence("segments were sent again", feature, 310.0, 0.0, 2.0)
    'segments were sent again: tcp.RetransSegs (highest instance) 310 segments/s, normally 0 to 2 segments/s'
    """
    what = [_STATISTICS.get(feature.statistic, feature.statistic), _PARTS.get(feature.part, "")]
    note = ", ".join(w for w in what if w)
    name = f"{feature.metric} ({note})" if note else feature.metric
    band = format_band(low, high, feature.unit)
    return f"{says}: {name} {format_value(value, feature.unit)}, normally {band}"
