"""Telemetry that several models are judged on alike: what each finds in it, healthy and perturbed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from reveal_core.errors import UsageError
from reveal_core.evaluate.gate import DAY_S, GateRules, HostScores, Observed
from reveal_core.evaluate.injected import (
    InjectedPerturbation,
    InjectionPlan,
    Judged,
    injected_copies,
    judge_injected,
)
from reveal_core.evaluate.injected_result import JudgedFault, figures
from reveal_core.method import build_series, build_windows
from reveal_core.model import RevealModel
from reveal_core.profiles import profile_from
from reveal_core.telemetry import Series, Telemetry
from reveal_core.windows import Windows

SIZES = (4.0, 8.0, 16.0)
"""Of perturbations: smaller ones neither model finds, and they would tell the two apart no better."""
GAP_S = 15.0
"""Time between perturbations: the range that is held back for the gate is short."""
JUDGED = 0.5
"""Smallest coverage of a window that counts as judged: what a fit asks of a window, too."""


@dataclass(frozen=True)
class Ground:
    """A host's telemetry over the range that models are judged on; it should reach a few seconds before."""

    telemetry: Telemetry
    start: datetime
    end: datetime


class _Tally:
    """Adds up what one model says, ground after ground."""

    def __init__(self, model: RevealModel) -> None:
        self.model = model
        self.failure: UsageError | None = None
        self._faults: list[JudgedFault] = []
        self._scores: dict[str, list[HostScores]] = {}
        self._incidents = self._windows = 0
        self._seconds = 0.0
        self._feature_share = 1.0

    def add(self, clean: Judged, copies: Sequence[Judged]) -> None:
        """Judge one ground; a model that cannot is not asked again."""
        if self.failure is not None:
            return
        try:
            result = judge_injected(self.model, clean, copies)
            scores = _scores(self.model, clean.windows)
        except UsageError as error:
            self.failure = error
            return
        self._faults += result.faults
        self._scores.setdefault(clean.windows.host, []).append(scores)
        self._incidents += result.own_incidents
        self._windows += clean.windows.frame.height
        self._seconds += 3600.0 * result.healthy_hours
        self._feature_share = min(self._feature_share, _feature_share(self.model, clean.windows))

    def observed(self) -> Observed | UsageError:
        if self.failure is not None:
            return self.failure
        scores = {
            host: HostScores(
                np.concatenate([part.start_ns for part in parts]),
                np.concatenate([part.fused for part in parts]),
            )
            for host, parts in self._scores.items()
        }
        injected, means = figures(self._faults), self.model.contribution_means
        return Observed(
            incidents=self._incidents,
            host_days=self._seconds / DAY_S,
            injected=injected["injected"],
            recall=injected["recall"],
            metric_top3=injected["metric_top3"],
            subsystem_top1=injected["subsystem_top1"],
            feature_coverage=self._feature_share,
            windows=self._windows,
            judged=sum(len(found.start_ns) for found in scores.values()),
            scores=scores,
            top_metrics=tuple(sorted(means, key=lambda name: (-means[name], name))),
        )


def contest(
    grounds: Iterable[Ground],
    models: Sequence[RevealModel],
    *,
    injected: Container[int],
    plan: InjectionPlan,
) -> tuple[list[Observed | UsageError], list[str]]:
    """Judge models on the same telemetry with the same perturbations.

    Parameters
    ----------
    grounds
        Taken one after another, so that one at a time is in memory.
    models
        Of hosts of their kind.
    injected, plan
        Numbers of the grounds that perturbations are written into, and which ones into each.

    Returns
    -------
    tuple
        What each model says, or why it cannot judge the hosts; and sentences on what could not be done.
    """
    tallies = [_Tally(model) for model in models]
    notes: list[str] = []
    for number, ground in enumerate(grounds):
        series = build_series(ground.telemetry)
        copies = _perturbed(ground, series, plan, notes) if number in injected else []
        seen: dict[tuple[Any, ...], tuple[Judged, list[Judged]]] = {}
        for tally in tallies:
            profile = profile_from(tally.model.profile)
            key = profile.window_settings
            if key not in seen:
                seen[key] = (
                    Judged(series, build_windows(series, profile, ground.start, ground.end)),
                    [
                        Judged(other, build_windows(other, profile, ground.start, ground.end), faults)
                        for other, faults in copies
                    ],
                )
            tally.add(*seen[key])
    return [tally.observed() for tally in tallies], notes


def gate_plan(rules: GateRules, grounds: int, seed: int) -> tuple[list[int], InjectionPlan]:
    """Return which of so many grounds the gate injects into, evenly spread, and what into each."""
    count = min(grounds, rules.injected_stretches) if rules.injections else 0
    chosen = sorted({round(index * grounds / count) for index in range(count)})
    each = -(-rules.injections // max(1, len(chosen)))
    return chosen, InjectionPlan(sizes=SIZES, gap_s=GAP_S, count=max(1, each), seed=seed)


def _perturbed(
    ground: Ground, series: Series, plan: InjectionPlan, notes: list[str]
) -> list[tuple[Series, tuple[InjectedPerturbation, ...]]]:
    try:
        copies = injected_copies(ground.telemetry, series, plan, start=ground.start, end=ground.end)
    except UsageError as error:
        notes.append(f"Nothing could be injected into {ground.telemetry.host}: {error}.")
        return []
    return [(build_series(copy), tuple(faults)) for copy, faults in copies]


def _scores(model: RevealModel, windows: Windows) -> HostScores:
    frame = model.score_windows(windows).frame.filter(pl.col("coverage") >= JUDGED)
    return HostScores(frame["start"].dt.epoch("ns").to_numpy(), frame["fused"].to_numpy())


def _feature_share(model: RevealModel, windows: Windows) -> float:
    have = set(windows.frame.columns)
    names = model.feature_names
    return sum(name in have for name in names) / max(len(names), 1)
