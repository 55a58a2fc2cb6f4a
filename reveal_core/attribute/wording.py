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


def code_sentence(says: str, metric: str, code: int, instance: str) -> str:
    """Return the code that a state took as a sentence.

    Examples
    --------
    >>> code_sentence("its number stands for the hardware", "gpu.xid_last", 79, "GPU-1a2b")
    'its number stands for the hardware: gpu.xid_last 79 on GPU-1a2b'
    """
    return f"{says}: {metric} {code}" + (f" on {instance}" if instance else "")
