"""Drawing perturbations: kinds, sizes, targets and subsystems in turn, channels and times at random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from math import lcm

import numpy as np

from reveal_core.channels import SUBSYSTEMS, Channel
from reveal_core.errors import UsageError
from reveal_core.evaluate.injected_plan import (
    LOST_TARGETS,
    SIZED,
    VALUE_TARGETS,
    InjectedPerturbation,
    InjectionPlan,
)
from reveal_core.evaluate.injected_scale import Habit

SLOWEST = 5
"""A channel must have so many samples within a fault: else nothing of it is seen."""


@dataclass(frozen=True)
class _Place:
    """What a perturbation may strike."""

    metrics: tuple[str, ...]
    channels: tuple[str, ...]
    subsystems: tuple[str, ...]
    instance: str = ""
    source: str = ""


Stretch = tuple[datetime, datetime]
"""When something begins and ends, UTC."""


def draw(
    channels: Mapping[str, Channel],
    habits: Mapping[str, Habit],
    plan: InjectionPlan,
    stretches: Sequence[Stretch],
) -> list[list[InjectedPerturbation]]:
    """Return what is to be injected, pass by pass, each in order of time.

    Parameters
    ----------
    channels
        All channels of the telemetry.
    habits
        Of those that perturbations may choose.
    plan
        Settings.
    stretches
        Healthy time that will be judged, in order.

    Raises
    ------
    UsageError
        If no stretch is long enough for one perturbation, or no channel can be perturbed.
    """
    rng = np.random.default_rng(plan.seed)
    fit = len(_onsets(stretches, plan, rng))
    if fit < 1:
        longest = max(((end - start).total_seconds() for start, end in stretches), default=0.0)
        raise UsageError(
            f"{max(0.0, longest):.0f} s of telemetry are too short to inject into: a fault of "
            f"{plan.fault_s:g} s between healthy gaps of {plan.gap_s:g} s needs "
            f"{plan.fault_s + 2 * plan.gap_s:g} s"
        )
    drawn = list(_drawn(_places(channels, habits, plan), habits, plan, rng))
    if not drawn:
        raise UsageError("no channel of this telemetry can be perturbed in the way that was asked for")
    # What does not fit is left out at the end, so that kinds and sizes stay in balance.
    drawn = drawn[: fit * plan.passes]
    order = [drawn[i] for i in rng.permutation(len(drawn))]
    passes = []
    for first in range(0, len(order), fit):
        part = order[first : first + fit]
        onsets = _onsets(stretches, plan, rng)
        chosen = np.sort(rng.permutation(len(onsets))[: len(part)])
        passes.append([_at(one, onsets[at], plan) for one, at in zip(part, chosen, strict=True)])
    return passes


def _onsets(stretches: Sequence[Stretch], plan: InjectionPlan, rng: np.random.Generator) -> list[datetime]:
    """Return as many onsets as fit, in order of time; healthy time left over lies between them at random."""
    step = plan.fault_s + plan.gap_s
    onsets = []
    for start, end in stretches:
        room = (end - start).total_seconds() - plan.gap_s
        count = max(0, int(room / step))
        spare = np.sort(rng.uniform(0.0, max(0.0, room - count * step), count))
        onsets += [
            start + timedelta(seconds=plan.gap_s + number * step + float(late))
            for number, late in enumerate(spare)
        ]
    return onsets


@dataclass(frozen=True)
class _Drawn:
    kind: str
    target: str
    size: float | None
    place: _Place
    amounts: tuple[float, ...]


def _at(one: _Drawn, onset: datetime, plan: InjectionPlan) -> InjectedPerturbation:
    onset = onset.replace(microsecond=onset.microsecond // 1000 * 1000)
    return InjectedPerturbation(
        kind=one.kind,
        target=one.target,
        metrics=one.place.metrics,
        instance=one.place.instance,
        subsystems=one.place.subsystems,
        size=one.size,
        channels=tuple(zip(one.place.channels, one.amounts, strict=True)),
        onset=onset,
        end=onset + timedelta(seconds=plan.fault_s),
        source=one.place.source,
    )


_Places = dict[tuple[str, str], dict[str, list[_Place]]]


def _places(channels: Mapping[str, Channel], habits: Mapping[str, Habit], plan: InjectionPlan) -> _Places:
    """Return what can be struck, by target and whether values must move of themselves, by subsystem."""
    usable = {
        name: channels[name]
        for name in channels
        if name in habits and not any(fnmatchcase(channels[name].metric, pattern) for pattern in plan.exclude)
        if channels[name].period_ms * SLOWEST <= 1000.0 * plan.fault_s
    }
    found: _Places = {}
    for state, names in (
        ("any", list(usable)),
        ("moving", [name for name in usable if habits[name].moves]),
    ):
        metrics: dict[str, list[str]] = {}
        for name in names:
            metrics.setdefault(usable[name].metric, []).append(name)
        for target in VALUE_TARGETS:
            table = found.setdefault((target, state), {})
            for metric, members in metrics.items():
                subsystem = usable[members[0]].subsystem
                places = table.setdefault(subsystem, [])
                if target == "instance" and len(members) > 1:
                    places += [
                        _Place((metric,), (name,), (subsystem,), usable[name].instance) for name in members
                    ]
                elif target != "instance":
                    places.append(_Place((metric,), tuple(members), (subsystem,)))
    for target in ("source", "host"):
        found[target, "moving"] = {"": _groups(channels, usable, target)}
    return found


def _groups(channels: Mapping[str, Channel], usable: Mapping[str, Channel], target: str) -> list[_Place]:
    """Return the sources that can get lost, or the whole host."""
    if target == "host":
        return [_Place((), tuple(channels), ())]
    members: dict[str, list[Channel]] = {}
    for channel in channels.values():
        members.setdefault(channel.source, []).append(channel)
    sources = sorted({channel.source for channel in usable.values()})
    return [
        _Place(
            metrics=tuple(dict.fromkeys(c.metric for c in members[source])),
            channels=tuple(c.name for c in members[source]),
            subsystems=tuple(s for s in SUBSYSTEMS if any(c.subsystem == s for c in members[source])),
            source=source,
        )
        for source in sources
    ]


def _drawn(
    places: _Places, habits: Mapping[str, Habit], plan: InjectionPlan, rng: np.random.Generator
) -> Iterator[_Drawn]:
    """Yield perturbations without their time: kinds in turn, and of each kind sizes, targets, subsystems."""
    turns = dict.fromkeys(plan.kinds, 0)
    subsystem_turns: dict[tuple[str, bool], int] = {}
    offset = int(rng.integers(len(SUBSYSTEMS)))
    possible = {kind: [t for t in _targets(kind, plan) if _some(places, kind, t)] for kind in plan.kinds}
    kinds = [kind for kind in plan.kinds if possible[kind]]
    for number in range(plan.count if kinds else 0):
        at = number % len(kinds)
        kind = kinds[at]
        sizes: Sequence[float | None] = plan.sizes if kind in SIZED else (None,)
        targets, turn = possible[kind], turns[kind] + at  # each kind begins elsewhere, for there may be few
        turns[kind] += 1
        # Every size meets every target, also where their numbers have a common factor.
        target = targets[(turn + turn // lcm(len(sizes), len(targets))) % len(targets)]
        size = sizes[turn % len(sizes)]
        table = _table(places, kind, target, rng)
        names = sorted(table)
        cycle = (target, kind in SIZED)
        at = subsystem_turns.setdefault(cycle, offset)
        subsystem_turns[cycle] += 1
        place = _pick(table[names[at % len(names)]], target, plan, rng)
        yield _Drawn(kind, target, size, place, _amounts(kind, size, place, habits, rng))


def _table(places: _Places, kind: str, target: str, rng: np.random.Generator) -> dict[str, list[_Place]]:
    """Return what a perturbation may choose from, by subsystem.

    Most channels of a host are events that stand still while all is well. Half of the shifts, ramps and noise
    are therefore kept for what moves all the time, if there is such a channel.
    """
    moving = {name: found for name, found in places.get((target, "moving"), {}).items() if found}
    if kind not in SIZED or (moving and rng.integers(2)):
        return moving
    return {name: found for name, found in places[target, "any"].items() if found}


def _key(kind: str, target: str) -> tuple[str, str]:
    return target, "any" if kind in SIZED else "moving"


def _targets(kind: str, plan: InjectionPlan) -> list[str]:
    allowed = LOST_TARGETS if kind == "lost" else VALUE_TARGETS
    return [target for target in plan.targets if target in allowed]


def _some(places: _Places, kind: str, target: str) -> bool:
    return any(places.get(_key(kind, target), {}).values())


def _pick(options: Sequence[_Place], target: str, plan: InjectionPlan, rng: np.random.Generator) -> _Place:
    if target != "subsystem":
        return options[int(rng.integers(len(options)))]
    chosen = [options[i] for i in np.sort(rng.permutation(len(options))[: plan.together])]
    return _Place(
        metrics=tuple(metric for place in chosen for metric in place.metrics),
        channels=tuple(name for place in chosen for name in place.channels),
        subsystems=chosen[0].subsystems,
    )


def _amounts(
    kind: str, size: float | None, place: _Place, habits: Mapping[str, Habit], rng: np.random.Generator
) -> tuple[float, ...]:
    """Return the signed amount per channel; a shift goes where the channel has room, the same way on all."""
    if size is None:
        return (0.0,) * len(place.channels)
    if kind == "spread":
        return tuple(size * habits[name].spread_unit for name in place.channels)
    up = bool(rng.integers(2))
    amounts = []
    for name in place.channels:
        habit = habits[name]
        amount = size * habit.level_unit
        has_room = {True: habit.usual + amount <= habit.maximum, False: habit.usual - amount >= habit.minimum}
        goes_up = up if has_room[up] or not has_room[not up] else not up
        amounts.append(amount if goes_up else -amount)
    return tuple(amounts)
