"""A folder of series and windows that the settings of a comparison share, so that each is computed once.

It lives as long as the comparison, on the disk of the machine that runs it; nothing of it belongs to the
store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from reveal_core.channels import Channel
from reveal_core.evaluate.injected import InjectedPerturbation, Judged
from reveal_core.telemetry import Series
from reveal_core.windows import Feature, Windows

if TYPE_CHECKING:
    from reveal_core.profiles import Profile

LEARNED = "learned"


def combination(profile: Profile) -> str:
    """Return a name for the settings that windows depend on: equal for settings that may share them."""
    text = json.dumps(profile.window_settings)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def combinations_of(profiles: Iterable[Profile]) -> dict[str, dict[str, Any]]:
    """Return one profile for each combination of settings that windows depend on, by its name."""
    return {combination(profile): profile.to_dict() for profile in profiles}


@dataclass(frozen=True)
class CompareFiles:
    """The folder, for one host of a comparison.

    Attributes
    ----------
    folder
        Where the files are.
    number
        Of the host.
    host
        Its label.
    """

    folder: Path
    number: int
    host: str

    def put_series(self, part: str, series: Series) -> None:
        """Write physical values under the name of a part."""
        series.frame.write_ipc(self._path(f"series-{part}"))
        channels = [asdict(channel) for channel in series.channels.values()]
        self._path(f"series-{part}", "json").write_text(json.dumps(channels), encoding="utf-8")

    def series(self, part: str) -> Series:
        """Return physical values of a part."""
        channels = json.loads(self._path(f"series-{part}", "json").read_text(encoding="utf-8"))
        frame = pl.read_ipc(self._path(f"series-{part}"))
        return Series(self.host, frame, {one["name"]: Channel(**one) for one in channels})

    def put_windows(self, part: str, name: str, windows: Windows) -> None:
        """Write the windows of a part, made with a combination of settings."""
        windows.frame.write_ipc(self._path(f"windows-{name}-{part}"))
        features = [asdict(feature) for feature in windows.features]
        self._path(f"windows-{name}-{part}", "json").write_text(json.dumps(features), encoding="utf-8")

    def windows(self, part: str, name: str) -> Windows:
        """Return the windows of a part, made with a combination of settings."""
        features = json.loads(self._path(f"windows-{name}-{part}", "json").read_text(encoding="utf-8"))
        frame = pl.read_ipc(self._path(f"windows-{name}-{part}"))
        return Windows(self.host, frame, tuple(Feature(**one) for one in features))

    def put_copies(self, told: Sequence[Sequence[InjectedPerturbation]]) -> None:
        """Write what was injected into each judged copy; nothing into the first."""
        plain = [[_plain(one) for one in copy] for copy in told]
        self._path("perturbations", "json").write_text(json.dumps(plain), encoding="utf-8")

    def copies(self) -> list[tuple[InjectedPerturbation, ...]]:
        """Return what was injected into each judged copy."""
        plain = json.loads(self._path("perturbations", "json").read_text(encoding="utf-8"))
        return [tuple(_perturbation(one) for one in copy) for copy in plain]

    def _path(self, name: str, suffix: str = "arrow") -> Path:
        return self.folder / f"{self.number}-{name}.{suffix}"


@dataclass(frozen=True)
class JudgedFiles:
    """The judged copies of a host, read one at a time."""

    files: CompareFiles
    combination: str

    def __iter__(self) -> Iterator[Judged]:
        for number, perturbations in enumerate(self.files.copies()):
            part = judged_part(number)
            yield Judged(self.files.series(part), self.files.windows(part, self.combination), perturbations)


def judged_part(number: int) -> str:
    """Return the name of a judged copy; 0 is the telemetry as recorded."""
    return f"judged-{number}"


def _plain(one: InjectedPerturbation) -> dict[str, Any]:
    return {**asdict(one), "onset": one.onset.isoformat(), "end": one.end.isoformat()}


def _perturbation(plain: Mapping[str, Any]) -> InjectedPerturbation:
    return InjectedPerturbation(
        **{
            **plain,
            "metrics": tuple(plain["metrics"]),
            "subsystems": tuple(plain["subsystems"]),
            "channels": tuple((name, amount) for name, amount in plain["channels"]),
            "onset": datetime.fromisoformat(plain["onset"]),
            "end": datetime.fromisoformat(plain["end"]),
        }
    )
