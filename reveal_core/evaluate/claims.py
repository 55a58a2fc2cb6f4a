"""What the publication claims, and how figures of the same kind are computed from telemetry of one's own.

Where the publication does not say how it computed a figure, what is computed here is said here, and is
something of its own that bears the same name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median

import numpy as np
from scipy.stats import chi2

from reveal_core.catalog.floors import floor_of
from reveal_core.evaluate.agreement import flagged_seconds, hit_rate, overlap
from reveal_core.features.pruning import prune
from reveal_core.method import build_series, build_windows
from reveal_core.model import RevealModel
from reveal_core.profiles import Profile
from reveal_core.selection import is_coverage, matrix
from reveal_core.telemetry import Telemetry
from reveal_core.windows import Windows

GRIDS = ((3.0, 1.0, 1), (1.5, 0.5, 1), (5.0, 1.0, 2))
"""Length and distance of windows, s: the publication's default, its fine ones, and those also tried.

The last number is of how many windows one is taken: 5 s is no whole number of strides of 2 s.
"""
SIGNIFICANCE = 0.05
ALIKE = 0.25
"""Runs are alike in a metric where their means spread by less than this share of their mean."""


@dataclass(frozen=True)
class Claim:
    """A claim of the publication.

    Attributes
    ----------
    id
        Name of its measurement.
    claim, paper
        What it is about, and the figure.
    how
        How it is measured here, or what would measure it.
    """

    id: str
    claim: str
    paper: str
    how: str


CLAIMS = (
    Claim("cpu-100ms", "CPU of the collector at 100 ms", "1.2 to 1.4 %", "reveal bench collector"),
    Claim("cpu-600ms", "CPU of the collector at 600 ms", "under 0.6 %", "reveal bench collector"),
    Claim("channels", "channels of a host", "over 700", "the recording's own channels"),
    Claim("metrics", "kinds of metrics", "about 150", "the recording's own metrics"),
    Claim(
        "bytes-before",
        "bytes a second and host before filtering",
        "42 to 43 KB/s",
        "size of the recording's segments over its length",
    ),
    Claim(
        "bytes-after",
        "bytes a second and host after filtering",
        "14 to 22 KB/s",
        "the same segments with the channels that pruning at |r| 0.5 keeps",
    ),
    Claim(
        "kept",
        "share of metrics that pruning at |r| 0.5 keeps",
        "about 60 %, about 400 channels",
        "levels of windows of 3 s of every channel that moves",
    ),
    Claim(
        "features", "extracting features", "1.46 ± 0.02 s", "reveal bench features, an hour of 700 channels"
    ),
    Claim(
        "end-to-end",
        "from telemetry to a result",
        "2.26 ± 0.17 s",
        "reveal bench scoring: the newest minute to its incident in the store",
    ),
    Claim(
        "stable",
        "pairs of workload and metric that are alike over ten runs",
        "99.75 % at p < 0.05",
        "spread of the runs' means below a quarter of their mean, or below what is worth noticing, by a "
        "one-sided chi-square test at 0.05",
    ),
    Claim(
        "overlap",
        "default against fine windows: intersection over union",
        "median 0.50",
        "profile paper, learned from each run and judged on the next of its workload; seconds in which a "
        "flagged window ends, median over runs",
    ),
    Claim(
        "hit-rate",
        "default against fine windows: hit rate",
        "mean 0.92, median 1.0",
        "the same; share of the default's flagged seconds within a window of one that the fine ones flag",
    ),
    Claim(
        "cases",
        "five case studies explained",
        "5 of 5, by hand",
        "each as telemetry in its own signature, cause named first by the catalogue",
    ),
    Claim(
        "subsystems",
        "subsystems of anomalies by environment",
        "CPU over half on HPC clusters",
        "needs their data: reveal import reveal-dataset DIR, fit, score, reveal incidents summary",
    ),
    Claim(
        "reuse",
        "code that is the same on all platforms",
        "91 %",
        "not measured: their code is not at hand, and ours is one code for all",
    ),
)


@dataclass(frozen=True)
class Kept:
    """Channels that move, and those of them that pruning keeps, by name."""

    moving: int
    kept: tuple[str, ...]

    @property
    def share(self) -> float:
        """Share of the moving ones that is kept, 0 to 1; NaN where nothing moves."""
        return len(self.kept) / self.moving if self.moving else float("nan")


def kept_channels(telemetry: Telemetry, profile: Profile) -> Kept:
    """Return which channels pruning keeps by the levels of their windows.

    Parameters
    ----------
    telemetry
        Of one host.
    profile
        In instance space; its statistics should be the level alone.
    """
    windows = build_windows(build_series(telemetry), profile)
    features = [f for f in windows.features if not is_coverage(f.metric)]
    pruned = prune(
        matrix(windows.frame, features), features, np.zeros(len(features), dtype=bool), profile.correlation
    )
    names = (features[column].name.rpartition(":")[0] for column in pruned.kept)
    return Kept(moving=len(pruned.alive), kept=tuple(names))


def alike_pairs(runs: Mapping[str, Sequence[Windows]]) -> tuple[int, int]:
    """Return how many pairs of workload and feature are alike over the runs, and how many there are.

    A pair counts if its feature moves in some run. It is alike if the standard deviation of the runs' means
    is below `ALIKE` of their mean, or below the smallest difference worth noticing, whichever is larger; that
    is claimed where it holds for the upper end of the deviation's one-sided interval at `SIGNIFICANCE`.

    Parameters
    ----------
    runs
        Windows of each run, by workload; at least two runs each.
    """
    alike = pairs = 0
    for several in runs.values():
        known = [{f.name: f for f in windows.features if not is_coverage(f.metric)} for windows in several]
        count = len(several)
        stretch = np.sqrt((count - 1) / chi2.ppf(SIGNIFICANCE, count - 1))
        for name in [name for name in known[0] if all(name in other for other in known)]:
            columns = [matrix(windows.frame, [known[0][name]])[:, 0] for windows in several]
            if any(np.isnan(column).all() for column in columns):
                continue
            if not any(np.nanmax(column) > np.nanmin(column) for column in columns):
                continue
            feature = known[0][name]
            values = np.array([np.nanmean(column) for column in columns])
            bound = max(ALIKE * abs(float(values.mean())), floor_of(feature.metric, feature.unit))
            pairs += 1
            alike += bool(values.std(ddof=1) * stretch < bound)
    return alike, pairs


@dataclass(frozen=True)
class Agreement:
    """How windows of other lengths agree with the default ones: by workload, overlap and hit rate."""

    overlap: tuple[float, ...]
    hit_rate: tuple[float, ...]

    def words(self) -> tuple[str, str]:
        """Return both as the publication tells them."""
        told = f"median {median(self.overlap):.2f}" if self.overlap else "nothing was flagged"
        hits = self.hit_rate
        return told, f"mean {mean(hits):.2f}, median {median(hits):.2f}" if hits else "nothing was flagged"


def agreement(
    runs: Mapping[str, tuple[Telemetry, Telemetry]],
    profiles: Sequence[Profile],
    seed: int = 0,
    every: Sequence[int] | None = None,
) -> list[Agreement]:
    """Return how each further profile agrees with the first on what is anomalous.

    Parameters
    ----------
    runs
        By workload, telemetry to learn from and telemetry to judge.
    profiles
        The reference first.
    seed
        Of the fits.
    every
        Of how many windows one is taken, by profile; all of them if not given.
    """
    flags = [
        {name: _flagged(learned, judged, profile, seed, one) for name, (learned, judged) in runs.items()}
        for profile, one in zip(profiles, every or [1] * len(profiles), strict=True)
    ]
    found = []
    for profile, other in zip(profiles[1:], flags[1:], strict=True):
        overlaps, hits = [], []
        width = int(np.ceil(max(profile.window_s, profiles[0].window_s)))
        for name in runs:
            reference = flags[0][name]
            if reference or other[name]:
                overlaps.append(overlap({name: reference}, {name: other[name]}))
            # A window that ends a little later may hold the same anomaly.
            near = {second + shift for second in other[name] for shift in range(-width, width + 1)}
            rate = hit_rate({name: reference}, {name: near})
            if rate is not None:
                hits.append(rate)
        found.append(Agreement(tuple(overlaps), tuple(hits)))
    return found


def _flagged(
    learned: Telemetry, judged: Telemetry, profile: Profile, seed: int, every: int
) -> frozenset[int]:
    model = RevealModel(profile.to_dict(), seed).fit([build_windows(build_series(learned), profile)])
    scores = model.score_windows(build_windows(build_series(judged), profile))
    return flagged_seconds(replace(scores, frame=scores.frame.gather_every(every)))
