"""Profiles: named sets of method settings. ``paper`` is the publication's, ``default`` is ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from reveal_core.detect.ensemble import detector_class, make_detector
from reveal_core.errors import UsageError


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a number is expected")
    return value


_Float = Annotated[float, BeforeValidator(_no_flag)]
_Int = Annotated[int, BeforeValidator(_no_flag)]
Above0 = Annotated[_Float, Field(gt=0)]
NotNegative = Annotated[_Float, Field(ge=0)]
Statistic = Literal["level", "spread", "minimum", "maximum", "trend", "roughness"]
Name = Annotated[str, Field(pattern=r"^[A-Za-z]\w*$")]
Spec = tuple[Name, str, tuple[tuple[str, JsonValue], ...]]
"""A detector as `reveal_core.detect.ensemble.DetectorSpec`, its parameters as they stand in JSON or TOML."""


@dataclass(frozen=True)
class Profile:
    """Settings of the method, from features to incidents.

    Attributes
    ----------
    space
        ``rollup`` (mean, maximum and imbalance across instances) or ``instance`` (every channel by itself).
    window_s, stride_s, statistics
        The window grid and what is computed over a window.
    correlation
        Of features that correlate above this, one is kept.
    keep_events
        Keep event counters, and levels of gauges and states, although they stood still in training.
    exclude
        Metrics (shell patterns) that detectors do not see.
    detectors
        Name, class and parameters of each. The class is one of `reveal_core.detect.ensemble.DETECTORS`, or
        the full path of an outlier detector of scikit-learn or PyOD.
    threshold, margin, percentile, alarm_budget
        ``budget`` (false incidents per host and day; with less than a day of history, ``margin`` times the
        healthy maximum) or ``percentile`` of healthy scores.
    agreement
        0: the fused score decides. Above: that many detectors must be beyond their own threshold.
    memory_days
        With a budget: how many days of a host's scores set its threshold, anew each hour, once there is a day
        of them.
    hold_s
        With a budget: an alarm that stays on this long is held as a changed regime until somebody
        acknowledges it.
    context
        Take out what the hour of the day, and of the week, does to a feature, where history shows that it
        repeats.
    folds, trim
        Blocks of history for held-out scores, and the largest share of it that calibration leaves out.
    clear_ratio, gap_s, cooldown_s, minimum_windows
        When an incident ends: below this share of the threshold for ``gap_s``; what begins within
        ``cooldown_s`` after it and shows the same signals belongs to it; and how many windows an incident
        needs.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    name: str = "default"
    space: Literal["rollup", "instance"] = "rollup"
    window_s: Above0 = 3.0
    stride_s: Above0 = 1.0
    statistics: Annotated[tuple[Statistic, ...], Field(min_length=1)] = ("level", "spread")
    correlation: Annotated[_Float, Field(gt=0, le=1)] = 0.98
    keep_events: bool = True
    # What the collector says of itself, but for the clock, which is the host's.
    exclude: tuple[str, ...] = ("reveal.[!c]*", "reveal.coverage", "reveal.clock_step")
    detectors: Annotated[tuple[Spec, ...], Field(min_length=1)] = (
        ("zscore", "ZScoreDetector", ()),
        ("mahalanobis", "PCAMahalanobisDetector", ()),
        ("forest", "IsolationForestDetector", ()),
        ("excess", "ExcessDetector", ()),
        ("coverage", "CoverageDetector", ()),
        ("failures", "FailureDetector", ()),
        ("capacity", "CapacityDetector", ()),
    )
    threshold: Literal["budget", "percentile"] = "budget"
    alarm_budget: Above0 = 1.0
    margin: Annotated[_Float, Field(ge=1)] = 1.5
    percentile: Annotated[_Float, Field(gt=0, le=100)] = 99.0
    agreement: Annotated[_Int, Field(ge=0)] = 0
    memory_days: Annotated[_Float, Field(ge=1)] = 3.0
    hold_s: Above0 = 7200.0
    context: bool = True
    folds: Annotated[_Int, Field(ge=2)] = 5
    trim: Annotated[_Float, Field(ge=0, lt=0.5)] = 0.06
    clear_ratio: Annotated[_Float, Field(gt=0, le=1)] = 0.7
    gap_s: NotNegative = 4.0
    cooldown_s: NotNegative = 10.0
    minimum_windows: Annotated[_Int, Field(ge=1)] = 1

    @property
    def window_settings(self) -> tuple[Any, ...]:
        """What decides which windows and features there are; equal for profiles that may share them."""
        return self.space, self.window_s, self.stride_s, self.statistics

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)


DEFAULT = Profile()

PAPER = Profile(
    name="paper",
    space="instance",
    statistics=("level", "spread", "minimum", "maximum", "trend", "roughness"),
    correlation=0.5,
    keep_events=False,
    detectors=(
        ("zscore", "ZScoreDetector", (("combine", "mean"), ("robust", False), ("clip", None))),
        ("mahalanobis", "PCAMahalanobisDetector", (("kept", 0.95), ("ridge", 1e-9), ("clip", None))),
        ("forest", "IsolationForestDetector", (("contamination", 0.01),)),
    ),
    threshold="percentile",
    percentile=99.0,
    trim=0.0,
    context=False,
    agreement=2,
    clear_ratio=1.0,
    gap_s=1.0,
    cooldown_s=0.0,
)

PROFILES: tuple[Profile, ...] = (DEFAULT, PAPER)


_SAID = {"tuple_type": "a list is expected", "too_short": "at least one is expected"}
"""Kinds of errors in words of settings files, where pydantic's are Python's."""


@cache
def _adapter() -> TypeAdapter[Profile]:
    return TypeAdapter(Profile)


def load_profile(name: str, overrides: Mapping[str, Any] | None = None) -> Profile:
    """Return a profile by name, with some settings replaced.

    Parameters
    ----------
    name
        Of `PROFILES`.
    overrides
        Settings by name, as TOML or JSON gives them. ``detectors`` may be a list, which replaces all, or a
        table by name, which changes single ones: ``class`` and parameters add or replace a detector,
        parameters alone change those of one that is there, false leaves it out. Classes that it names by
        their full path are imported.

    Raises
    ------
    UsageError
        If the profile or a setting is not known, or a value is not what the setting allows.
    """
    for profile in PROFILES:
        if profile.name == name:
            break
    else:
        raise UsageError(f"unknown profile {name!r}: choose from {', '.join(p.name for p in PROFILES)}")
    given = dict(overrides or {})
    known = {f.name for f in fields(Profile)} - {"name"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise UsageError(f"unknown profile settings {unknown}: choose from {', '.join(sorted(known))}")
    if "detectors" in given:
        given["detectors"] = _detectors(given["detectors"], profile)
    chosen = profile_from({**profile.to_dict(), **given})
    _check_together(chosen)
    return chosen


def profile_from(values: Mapping[str, Any]) -> Profile:
    """Return the profile that `Profile.to_dict` wrote, also after a trip through JSON.

    Nothing that it names is imported: a model that was loaded brings its profile with it.

    Raises
    ------
    UsageError
        If a value is not what the setting allows; the line names the setting.
    """
    try:
        return _adapter().validate_python(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(_place(first["loc"], values))
        said = _SAID.get(first["type"], first["msg"].removeprefix("Value error, "))
        raise UsageError(f"profile setting {where}: {said}, not {first['input']!r}") from error


def _place(loc: tuple[str | int, ...], values: Mapping[str, Any]) -> list[str]:
    """Return where a value stands, a detector by its name and not by its number."""
    if len(loc) > 2 and loc[0] == "detectors":
        number, part = int(loc[1]), int(loc[2])
        name = str(values["detectors"][number][0])
        return ["detectors", name, ("name", "class", "parameters")[part]]
    return [str(part) for part in loc]


def _detectors(given: Any, profile: Profile) -> list[Any]:
    """Return detectors as triples, from the forms that settings may write them in."""
    if isinstance(given, Mapping):
        return _changed(given, profile)
    if not isinstance(given, list | tuple):
        raise UsageError(f"profile setting detectors: a table or a list is expected, not {given!r}")
    specs: list[Any] = []
    for number, entry in enumerate(given):
        if not isinstance(entry, Mapping):
            specs.append(entry)
            continue
        for key in ("name", "class"):
            if key not in entry:
                raise UsageError(f"profile setting detectors.{number}: it has no {key}")
        parameters = tuple((key, value) for key, value in entry.items() if key not in ("name", "class"))
        specs.append((entry["name"], entry["class"], parameters))
    return specs


def _changed(given: Mapping[str, Any], profile: Profile) -> list[Any]:
    specs: dict[str, Any] = {spec[0]: spec for spec in profile.detectors}
    for name, entry in given.items():
        where = f"profile setting detectors.{name}"
        if entry is False or (isinstance(entry, Mapping) and "class" not in entry):
            if name not in specs:
                raise UsageError(
                    f"{where}: profile {profile.name} has no such detector, and no class makes a new one"
                )
            if entry is False:
                del specs[name]
                continue
        elif not isinstance(entry, Mapping):
            raise UsageError(
                f"{where}: a table of class and parameters, or false, is expected, not {entry!r}"
            )
        parameters = {key: value for key, value in entry.items() if key != "class"}
        cls = entry.get("class")
        if cls is None:
            _, cls, before = specs[name]
            parameters = {**dict(before), **parameters}
        specs[name] = (name, cls, tuple(parameters.items()))
    return list(specs.values())


def _check_together(profile: Profile) -> None:
    """Hold settings to each other, and detectors to their classes."""
    stride_ns, window_ns = round(profile.stride_s * 1e9), round(profile.window_s * 1e9)
    if not stride_ns or window_ns < stride_ns or window_ns % stride_ns:
        raise UsageError(
            f"profile setting window_s: {profile.window_s:g} s is no whole number of strides of "
            f"{profile.stride_s:g} s"
        )
    names = [spec[0] for spec in profile.detectors]
    if len(set(names)) < len(names):
        raise UsageError(f"profile setting detectors: a name stands twice: {', '.join(names)}")
    if profile.agreement > len(names):
        raise UsageError(
            f"profile setting agreement: {profile.agreement} of {len(names)} detectors can never agree"
        )
    for spec in profile.detectors:
        make_detector(spec, 0)
    if all(detector_class(spec).sees != "signals" for spec in profile.detectors):
        raise UsageError("profile setting detectors: none of them sees signals")
