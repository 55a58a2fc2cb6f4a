"""Telemetry that several models are judged on alike: what each finds in it, healthy and perturbed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from reveal_core.errors import UsageError
from reveal_core.evaluate.gate import DAY_S, GateRules, HostScores, Observed
from reveal_core.evaluate.injected import InjectionPlan, Judged, injected_copies, judge_injected
from reveal_core.evaluate.injected_result import JudgedFault, figures
from reveal_core.method import build_series, build_windows
from reveal_core.model import RevealModel
from reveal_core.profiles import Profile, profile_from
from reveal_core.telemetry import Telemetry
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


@dataclass(frozen=True)
class _Seen:
    """A host as one kind of window sees it, and copies of it that hold perturbations."""

    host: str
    clean: Judged
    copies: tuple[Judged, ...]


class Contest:
    """Judges models on the same telemetry with the same perturbations.

    Parameters
    ----------
    grounds
        Hosts, with the range of each.
    rules
        How much is injected, and into how many hosts.
    seed
        Of the perturbations.

    Attributes
    ----------
    notes
        What could not be done, in sentences.
    """

    def __init__(self, grounds: Sequence[Ground], rules: GateRules, seed: int) -> None:
        self.notes: list[str] = []
        self._grounds = list(grounds)
        self._seen: dict[tuple[Any, ...], list[_Seen]] = {}
        step = max(1, -(-len(self._grounds) // max(1, rules.injected_hosts)))
        chosen = set(range(0, len(self._grounds), step))
        plan = InjectionPlan(
            sizes=SIZES,
            gap_s=GAP_S,
            count=max(1, -(-rules.injections // max(1, len(chosen)))),
            seed=seed,
        )
        self._series = [build_series(ground.telemetry) for ground in self._grounds]
        self._copies = [
            self._perturbed(index, plan) if index in chosen and rules.injections else []
            for index in range(len(self._grounds))
        ]

    def _perturbed(self, index: int, plan: InjectionPlan) -> list[tuple[Any, Any]]:
        ground = self._grounds[index]
        try:
            copies = injected_copies(
                ground.telemetry, self._series[index], plan, start=ground.start, end=ground.end
            )
        except UsageError as error:
            self.notes.append(f"Nothing could be injected into {ground.telemetry.host}: {error}.")
            return []
        return [(build_series(copy), tuple(faults)) for copy, faults in copies]

    def observe(self, model: RevealModel) -> Observed:
        """Return what a model says of the telemetry.

        Raises
        ------
        UsageError
            If it expects other features than a host has.
        """
        seen = self._hosts(profile_from(model.profile))
        results = [judge_injected(model, host.clean, host.copies) for host in seen]
        scores = {host.host: _scores(model, host.clean.windows) for host in seen}
        faults: list[JudgedFault] = [fault for result in results for fault in result.faults]
        injected = figures(faults)
        means = model.contribution_means
        return Observed(
            incidents=sum(result.own_incidents for result in results),
            host_days=sum(result.healthy_hours for result in results) * 3600.0 / DAY_S,
            injected=injected["injected"],
            recall=injected["recall"],
            metric_top3=injected["metric_top3"],
            subsystem_top1=injected["subsystem_top1"],
            feature_coverage=min((_feature_share(model, h.clean.windows) for h in seen), default=0.0),
            windows=sum(host.clean.windows.frame.height for host in seen),
            judged=sum(len(found.start_ns) for found in scores.values()),
            scores=scores,
            top_metrics=tuple(sorted(means, key=lambda name: (-means[name], name))),
        )

    def _hosts(self, profile: Profile) -> list[_Seen]:
        """Return every host in a profile's windows; they are made once for models that want the same."""
        key = (profile.space, profile.window_s, profile.stride_s, profile.statistics)
        if key not in self._seen:
            self._seen[key] = []
            for ground, series, copies in zip(self._grounds, self._series, self._copies, strict=True):
                clean = Judged(series, build_windows(series, profile, ground.start, ground.end))
                changed = [
                    Judged(other, build_windows(other, profile, ground.start, ground.end), faults)
                    for other, faults in copies
                ]
                self._seen[key].append(_Seen(ground.telemetry.host, clean, tuple(changed)))
        return self._seen[key]


def _scores(model: RevealModel, windows: Windows) -> HostScores:
    frame = model.score_windows(windows).frame.filter(pl.col("coverage") >= JUDGED)
    return HostScores(frame["start"].dt.epoch("ns").to_numpy(), frame["fused"].to_numpy())


def _feature_share(model: RevealModel, windows: Windows) -> float:
    have = set(windows.frame.columns)
    names = model.feature_names
    return sum(name in have for name in names) / max(len(names), 1)
