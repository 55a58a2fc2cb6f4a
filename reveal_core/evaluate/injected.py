"""Recall, delay and attribution on a fleet's own telemetry, without labels.

Perturbations of known kind, size, place and time are written into recorded telemetry, and the method is
judged by what it makes of them. They are no real faults: a real one moves many signals in its own way, and
most of these move one. So the figures compare settings and models with each other, on the telemetry that
they are meant for; they are no promise of a recall in operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from reveal_core.attribute.build import explain_windows
from reveal_core.evaluate.injected_draw import Stretch, draw
from reveal_core.evaluate.injected_plan import DEFAULT_PLAN, InjectedPerturbation, InjectionPlan
from reveal_core.evaluate.injected_result import InjectedResult, JudgedFault, Named
from reveal_core.evaluate.injected_scale import habits
from reveal_core.evaluate.injected_writing import write
from reveal_core.evaluate.matching import LATE_S, InjectedFault, false_incidents, match_faults
from reveal_core.features.derived import BUSIEST_CORE, DERIVED
from reveal_core.features.rates import CHANGE_SUFFIX
from reveal_core.incidents import Incident
from reveal_core.method import Analysis, analyse_windows, build_series, build_windows
from reveal_core.model import RevealModel
from reveal_core.profiles import profile_from
from reveal_core.telemetry import Series, Telemetry
from reveal_core.timespec import to_ns, without
from reveal_core.windows import COVERAGE, Windows

__all__ = [
    "DEFAULT_PLAN",
    "Found",
    "InjectedPerturbation",
    "InjectedResult",
    "InjectionPlan",
    "Judged",
    "evaluate_injected",
    "inject",
    "injected_copies",
    "judge_injected",
]


@dataclass(frozen=True)
class Judged:
    """A copy of the telemetry as the method sees it, and what was written into it; nothing into the first."""

    series: Series
    windows: Windows
    perturbations: tuple[InjectedPerturbation, ...] = ()


@dataclass(frozen=True)
class Found:
    """What was made of a copy.

    Attributes
    ----------
    perturbations, incidents
        What was written into it, and what was found in it.
    asked
        What is said of the windows of each perturbation, whether or not an incident begins there; none of it
        where that was not asked.
    """

    perturbations: tuple[InjectedPerturbation, ...]
    incidents: tuple[Incident, ...]
    asked: tuple[Incident, ...] = ()


def inject(
    telemetry: Telemetry,
    plan: InjectionPlan,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> tuple[Telemetry, list[InjectedPerturbation]]:
    """Return a copy of the telemetry with perturbations in it, as many as fit one after another.

    Parameters
    ----------
    telemetry
        Raw samples; they are not changed.
    plan
        What is injected.
    start, end
        Range that the perturbations lie in; the extent of the samples if not given.

    Raises
    ------
    UsageError
        If the range is too short for one, or no channel can be perturbed.
    """
    return injected_copies(telemetry, build_series(telemetry), plan, start=start, end=end, passes=1)[0]


def injected_copies(
    telemetry: Telemetry,
    series: Series,
    plan: InjectionPlan,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    passes: int | None = None,
    avoid: Sequence[Stretch] = (),
) -> list[tuple[Telemetry, list[InjectedPerturbation]]]:
    """Return copies of the telemetry that hold the plan's perturbations among them.

    Parameters
    ----------
    telemetry, series
        A host's raw samples, and `reveal_core.method.build_series` of them.
    plan, start, end
        As `inject` takes them.
    passes
        So many copies at most, in place of the plan's number.
    avoid
        When each of the faults that the telemetry itself holds begins and ends: nothing is injected there.

    Raises
    ------
    UsageError
        As `inject`.
    """
    usual = habits(telemetry, series, start=start, end=end)
    times = telemetry.frame["ts"]
    first = start if start is not None else times[0]
    last = end if end is not None else times[-1]
    late = timedelta(seconds=LATE_S)
    stretches = without(first, last, [(begin - late, until + late) for begin, until in avoid])
    drawn = draw(telemetry.channels, usual, plan, stretches)[: passes or plan.passes]
    return [write(telemetry, one, usual, plan.seed + number) for number, one in enumerate(drawn)]


def evaluate_injected(
    model: RevealModel,
    telemetry: Telemetry,
    plan: InjectionPlan = DEFAULT_PLAN,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> InjectedResult:
    """Judge a model by perturbations written into a host's telemetry, and what it says where they are.

    Parameters
    ----------
    model
        Of hosts of its kind. It should not have learned from the same telemetry.
    telemetry
        Presumed to be mostly healthy. Should reach a few seconds before ``start``.
    plan
        What is injected. Place, time and kind depend on the telemetry and the plan only, so two models meet
        the same perturbations.
    start, end
        Range of the windows; the extent of the telemetry if not given.

    Raises
    ------
    UsageError
        If the range is too short, no channel can be perturbed, or the model expects other features.
    """
    profile = profile_from(model.profile)
    series = build_series(telemetry)
    clean = Judged(series, build_windows(series, profile, start, end))
    copies = []
    for copy, perturbations in injected_copies(telemetry, series, plan, start=start, end=end):
        changed = build_series(copy)
        copies.append(Judged(changed, build_windows(changed, profile, start, end), tuple(perturbations)))
    return judge_injected(model, clean, copies, ask=True)


def judge_injected(
    model: RevealModel, clean: Judged, copies: Sequence[Judged], *, ask: bool = False
) -> InjectedResult:
    """Judge a model by copies of one host's telemetry whose windows are there already.

    An incident that begins where one begins in the clean telemetry finds no perturbation: it is the
    recording's own.

    Parameters
    ----------
    model
        Fitted with the settings that the windows were made with.
    clean
        The telemetry as recorded.
    copies
        The same with perturbations.
    ask
        Whether the windows of each perturbation are to be explained too; that takes .1 to .2 s for each.
    """
    own = analyse_windows(model, clean.series, clean.windows).incidents
    found = []
    for copy in copies:
        analysis = analyse_windows(model, copy.series, copy.windows)
        asked = _asked(model, analysis, copy.perturbations) if ask else ()
        found.append(Found(copy.perturbations, analysis.incidents, asked))
    return judge_incidents(clean.windows, own, found, stride_s=profile_from(model.profile).stride_s)


def _asked(
    model: RevealModel, analysis: Analysis, perturbations: Sequence[InjectedPerturbation]
) -> tuple[Incident, ...]:
    """Return what is said of the windows whose middle lies within each perturbation."""
    profile = profile_from(model.profile)
    excursions = model.excursions(analysis.windows)
    middle = excursions.start_ns + round(profile.window_s * 5e8)
    said = []
    for one in perturbations:
        windows = np.flatnonzero((middle >= to_ns(one.onset)) & (middle < to_ns(one.end)))
        said.append(explain_windows(analysis.scores, excursions, analysis.series, profile, windows.tolist()))
    return tuple(said)


def judge_incidents(
    windows: Windows,
    own: Sequence[Incident],
    copies: Sequence[Found],
    *,
    stride_s: float,
) -> InjectedResult:
    """Judge incidents that were found already, as `judge_injected` does.

    Parameters
    ----------
    windows, own
        The telemetry's windows as recorded, and its incidents.
    copies
        What was made of each copy.
    stride_s
        Distance of windows, s.
    """
    near = timedelta(seconds=stride_s / 2.0)
    faults: list[JudgedFault] = []
    after: list[Incident] = []
    for copy in copies:
        new = [one for one in copy.incidents if not any(abs(one.start - known.start) < near for known in own)]
        truth = [_truth(number, one) for number, one in enumerate(copy.perturbations)]
        for match in match_faults(truth, new):
            number = int(match.fault.name)
            asked = copy.asked[number] if copy.asked else None
            faults.append(_judged(copy.perturbations[number], match.incident, asked))
        after += false_incidents(truth, new)
    frame = windows.frame
    seconds = (frame["end"][-1] - frame["start"][0]).total_seconds() if frame.height else 0.0
    return InjectedResult(
        faults=tuple(faults), own_incidents=len(own), after_effects=len(after), healthy_hours=seconds / 3600.0
    )


def _truth(number: int, one: InjectedPerturbation) -> InjectedFault:
    return InjectedFault(str(number), one.subsystems[0] if one.subsystems else "", one.onset, one.end)


def _judged(one: InjectedPerturbation, incident: Incident | None, asked: Incident | None) -> JudgedFault:
    judged = JudgedFault(one, incident is not None)
    if incident is not None:
        delay = (incident.start - one.onset).total_seconds()
        judged = replace(judged, delay_s=delay, incident=incident.id, named=_named(one, incident))
    return replace(judged, asked=_named(one, asked)) if asked is not None else judged


def _named(one: InjectedPerturbation, incident: Incident) -> Named | None:
    """Return where an incident names what was perturbed; None for the whole host, where nothing is right."""
    if not one.subsystems:
        return None
    right = moved_metrics(one.metrics) | ({COVERAGE} if one.kind == "lost" else set())
    names = list(dict.fromkeys(evidence.metric for evidence in incident.metrics))
    ranking = [share.name for share in incident.subsystems]
    return Named(
        metric_rank=next((place for place, name in enumerate(names, 1) if name in right), None),
        subsystem_rank=next((place for place, name in enumerate(ranking, 1) if name in one.subsystems), None),
    )


def moved_metrics(metrics: Sequence[str]) -> set[str]:
    """Return what moves with some metrics by definition: they, their changes, and what is derived of them.

    >>> sorted(moved_metrics(["cpu.idle"]))
    ['cpu.busy', 'cpu.idle', 'cpu.idle.change']
    """
    moved = {*metrics, *(f"{metric}{CHANGE_SUFFIX}" for metric in metrics)}
    moved |= {derived.name for derived in DERIVED if not moved.isdisjoint(derived.inputs)}
    if "irq.device" in moved:
        moved.add(BUSIEST_CORE)
    return moved
