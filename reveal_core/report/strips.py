"""The picture of a metric's instances: a bar each, and the same in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reveal_core.formatting import format_band, format_value
from reveal_core.report.plot_types import InstanceLevel, InstancePicture

FEW, SOME = 16, 64
"""Up to so many instances have their names below, or are drawn large."""
_NAMED = 4
"""Instances that a sentence names."""


@dataclass(frozen=True)
class InstanceBar:
    """One instance: heights of its levels in percent of the picture, None where there is no sample."""

    name: str
    before: float | None
    during: float | None
    moved: bool
    told: str


@dataclass(frozen=True)
class Strip:
    """All instances of a picture: ``size`` is ``few``, ``some`` or ``all``; ``full`` is what heights span."""

    size: str
    bars: tuple[InstanceBar, ...]
    full: str


def strip(picture: InstancePicture) -> Strip:
    """Return the bars of a picture; they begin at zero, or at the lowest level where that is below."""
    known = [v for level in picture.instances for v in (level.before, level.during) if v is not None]
    low, high = min([*known, 0.0]), max([*known, 0.0])
    span = high - low or 1.0

    def height(value: float | None) -> float | None:
        return None if value is None else round(100 * (value - low) / span, 1)

    bars = tuple(
        InstanceBar(
            level.instance, height(level.before), height(level.during), level.moved, _told(level, picture)
        )
        for level in picture.instances
    )
    size = "few" if len(bars) <= FEW else "some" if len(bars) <= SOME else "all"
    return Strip(size, bars, format_band(low, high, picture.unit))


def picture_sentence(picture: InstancePicture) -> str:
    """Return what a picture shows: which instances moved, from what to what, and what the others did."""
    total = len(picture.instances) + picture.left_out
    moved = picture.moved
    quantity = f", {picture.quantity}" if picture.quantity else ""
    others = [level for level in picture.instances if not level.moved]
    if len(moved) == 1:
        which = _told(moved[0], picture)
    elif not others and not picture.left_out:
        which = f"all {total} {picture.noun}s moved, {_change(moved, picture.unit)}"
    else:
        names = ", ".join(level.instance for level in moved[:_NAMED])
        more = f" and {len(moved) - _NAMED} more" if len(moved) > _NAMED else ""
        which = (
            f"{len(moved)} of {total} {picture.noun}s moved: {names}{more}, {_change(moved, picture.unit)}"
        )
    sentence = f"{picture.title}{quantity}: {which}."
    if others:
        which = f"{len(others)} {picture.noun}s" if len(others) > 1 else picture.noun
        sentence += f" The other {which} went {_change(others, picture.unit)}."
    if picture.left_out:
        sentence += f" {picture.left_out} more that changed least are not shown."
    return sentence


def _told(level: InstanceLevel, picture: InstancePicture) -> str:
    now = format_value(level.during, picture.unit)
    if level.before is None:
        return f"{level.instance} was at {now}"
    if level.during is None:
        return f"{level.instance} fell silent at {format_value(level.before, picture.unit)}"
    return f"{level.instance} went from {format_value(level.before, picture.unit)} to {now}"


def _change(levels: Sequence[InstanceLevel], unit: str) -> str:
    before = _band((level.before for level in levels), unit)
    during = _band((level.during for level in levels), unit)
    return f"from {before} to {during}"


def _band(values: Iterable[float | None], unit: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "no sample"
    return format_band(min(known), max(known), unit).replace(" to ", "–", 1)
