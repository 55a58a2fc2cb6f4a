"""Readers of labelled public data sets; `READERS` lists them by the name that `reveal evaluate` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from reveal_core.evaluate.datasets import asd, emmy, nab, nezha, smd
from reveal_core.evaluate.labelled import FaultDay, LabelledSeries, PeerJob

Reader = Callable[[Path], Sequence[LabelledSeries | PeerJob | FaultDay]]

SERIES: Mapping[str, Callable[[Path], Sequence[LabelledSeries]]] = {
    "smd": smd.read,
    "asd": asd.read,
    "nab": nab.read,
}
"""Those of labelled series, on which detection is judged."""
READERS: Mapping[str, Reader] = {
    **SERIES,
    "emmy": emmy.read,
    "nezha": nezha.read,
}
