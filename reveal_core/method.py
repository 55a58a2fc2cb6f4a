"""The whole method on one host's telemetry: fit a model on healthy telemetry, analyse telemetry with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from reveal_core.attribute.build import build_incidents
from reveal_core.detect.following import Follower
from reveal_core.features.derived import add_derived
from reveal_core.features.pace import coarse_notes, even_pace
from reveal_core.features.rates import physical_series
from reveal_core.features.windowing import channel_windows, instance_space, roll_up_space
from reveal_core.incidents import Incident
from reveal_core.model import RevealModel
from reveal_core.profiles import Profile, profile_from
from reveal_core.scores import Scores
from reveal_core.telemetry import Series, Telemetry
from reveal_core.windows import Windows


@dataclass(frozen=True)
class Analysis:
    """What the method says of one host over a range of time."""

    host: str
    series: Series
    windows: Windows
    scores: Scores
    incidents: tuple[Incident, ...]
    notes: tuple[str, ...]


def build_series(telemetry: Telemetry) -> Series:
    """Return physical values and derived metrics of a host's telemetry."""
    return add_derived(physical_series(even_pace(telemetry)))


def build_windows(
    series: Series, profile: Profile, start: datetime | None = None, end: datetime | None = None
) -> Windows:
    """Return the features of a host's windows in the profile's space."""
    periods = [c.period_ms for c in series.channels.values() if c.period_ms > 0]
    windows = channel_windows(
        series,
        window_s=profile.window_s,
        stride_s=profile.stride_s,
        statistics=profile.statistics,
        start=start,
        end=end,
        period_s=min(periods, default=100) / 1000.0,
    )
    return instance_space(windows) if profile.space == "instance" else roll_up_space(windows)


def fit_model(telemetries: Sequence[Telemetry], profile: Profile, *, seed: int = 0) -> RevealModel:
    """Return a model of healthy hosts.

    Parameters
    ----------
    telemetries
        Healthy telemetry of hosts that may share a model, one each.
    profile
        Settings of the method.
    seed
        Of what is drawn at random.

    Raises
    ------
    UsageError
        If there is too little telemetry, or nothing moves in it.
    """
    windows = [build_windows(build_series(t), profile) for t in telemetries]
    return RevealModel(profile.to_dict(), seed).fit(windows)


def analyse(
    model: RevealModel,
    telemetry: Telemetry,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    follower: Follower | None = None,
) -> Analysis:
    """Return scores and incidents of a host.

    Parameters
    ----------
    model
        Of hosts of its kind.
    telemetry
        Should reach a few seconds before ``start``: a counter's rate needs the sample before.
    start, end
        Range of the windows; the extent of the telemetry if not given.
    follower
        Sets the threshold from the host's past; without, it is the model's own.

    Raises
    ------
    UsageError
        If the model expects other features than the host has.
    """
    series = build_series(telemetry)
    windows = build_windows(series, profile_from(model.profile), start, end)
    return analyse_windows(model, series, windows, follower)


def analyse_windows(
    model: RevealModel, series: Series, windows: Windows, follower: Follower | None = None
) -> Analysis:
    """Return scores and incidents of a host whose windows are there already.

    Parameters
    ----------
    model
        Of hosts of its kind.
    series, windows
        From `build_series` and `build_windows`, with the settings that the model was fitted with.
    follower
        Sets the threshold from the host's past; without, it is the model's own.

    Raises
    ------
    UsageError
        If the model expects other features than the host has.
    """
    scores = model.score_windows(windows, follower)
    incidents: tuple[Incident, ...] = ()
    if scores.frame["anomalous"].any():  # most hosts are well most of the time, and have nothing to explain
        incidents = build_incidents(scores, model.excursions(windows), series, profile_from(model.profile))
    notes = coarse_notes(series.channels.values(), model.profile["window_s"])
    own = scores.frame["threshold"] == model.threshold.value
    if model.threshold.provisional and own.any():
        notes.append(
            f"The alarm rate is provisional: the model learned from {model.history_s / 60:.0f} minutes, "
            f"and a budget per day needs a day; the threshold is {model.threshold.rule}."
        )
    return Analysis(series.host, series, windows, scores, incidents, tuple(notes))
