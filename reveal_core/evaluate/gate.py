"""The promotion gate: may a challenger take the champion's place, and which criterion says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reveal_core.detect.base import Array

DAY_S = 86400.0
TOP = 10
"""So many metrics that contribute most are compared."""

PROMOTED, REFUSED, FORCED = "promoted", "refused", "forced"


@dataclass(frozen=True)
class GateRules:
    """Bounds of the gate, settable as ``[method.gate]``.

    Attributes
    ----------
    held_back
        Share of each host's fitting range, its newest part, that the challenger is judged on and not fitted
        on; at least ``held_back_s`` seconds and at most half.
    judged_hours
        Host-hours that are judged at most; of a longer range stretches spread evenly over it.
    minimum_windows
        Fewer judged windows than this decide nothing.
    chance
        Probability with which a challenger that keeps its budget exactly may be refused for its alarms.
    budget_events
        The budget can be judged alone once the range should hold so many false incidents; before, the
        champion counts too.
    alarm_margin
        Incidents more than the champion's that are allowed where the budget cannot be judged alone.
    recall_drop, subsystem_drop
        How far the challenger's injected recall, and its share of injected faults whose subsystem it names
        first, may lie below the champion's.
    minimum_recall
        Injected recall that is asked for where there is no champion to compare with.
    injections
        Perturbations injected in all, spread over at most ``injected_stretches`` stretches of ten minutes.
        With 0 nothing is injected, and nothing asked of recall and subsystems.
    rank_correlation
        Smallest Spearman correlation of the two models' scores of the same windows. Models of one machine in
        one state were seen to agree by 0.96, of different runs of the job by 0.5 to 0.9, of a machine that
        had changed by 0.3 to 0.4; scores that have nothing in common agree by 0.
    feature_coverage
        Smallest share of the challenger's features that a host of the class must have.
    window_coverage
        Smallest share of windows that the challenger can judge; the champion's own share where that is less.
    """

    held_back: float = 0.2
    held_back_s: float = 120.0
    judged_hours: float = 24.0
    minimum_windows: int = 60
    chance: float = 0.05
    budget_events: float = 3.0
    alarm_margin: int = 0
    recall_drop: float = 0.02
    subsystem_drop: float = 0.05
    minimum_recall: float = 0.2
    injections: int = 24
    injected_stretches: int = 4
    rank_correlation: float = 0.3
    feature_coverage: float = 0.8
    window_coverage: float = 0.9


@dataclass(frozen=True)
class HostScores:
    """Scores of one host's windows: the start of each in nanoseconds, ascending, and its fused score."""

    start_ns: NDArray[np.int64]
    fused: Array


@dataclass(frozen=True)
class Observed:
    """What one model says of the range that both are judged on.

    Attributes
    ----------
    incidents, host_days
        Incidents on telemetry that is taken to be healthy, and how much of it there is.
    injected, recall, metric_top3, subsystem_top1
        Perturbations injected, the share found, and the shares whose metric is among the first three and
        whose subsystem is the first; None where none could be injected, or none was found.
    feature_coverage
        Smallest share of the model's features over the hosts.
    windows, judged
        Windows of the range, and those with samples enough to be judged.
    scores
        By host.
    top_metrics
        Metrics by their mean share in the model's scores, largest first.
    """

    incidents: int
    host_days: float
    injected: int
    recall: float | None
    metric_top3: float | None
    subsystem_top1: float | None
    feature_coverage: float
    windows: int
    judged: int
    scores: Mapping[str, HostScores] = field(repr=False)
    top_metrics: Sequence[str] = ()


@dataclass(frozen=True)
class Criterion:
    """A figure of the challenger against its bound.

    ``value`` is None where it could not be had; ``bound`` is None where nothing is asked of it. ``text`` says
    it in words.
    """

    name: str
    value: float | None
    bound: float | None
    passed: bool
    text: str


@dataclass(frozen=True)
class Gate:
    """What the gate found.

    ``figures`` are measured beside the criteria and decide nothing.
    """

    criteria: tuple[Criterion, ...]
    figures: Mapping[str, float]

    @property
    def passed(self) -> bool:
        """Whether every criterion is met."""
        return all(criterion.passed for criterion in self.criteria)

    @property
    def reason(self) -> str:
        """Why, in a sentence's end: what failed, or that nothing did."""
        failed = [criterion.text for criterion in self.criteria if not criterion.passed]
        return "; ".join(failed) if failed else "every criterion of the gate is met"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "passed": self.passed,
            "criteria": [asdict(criterion) for criterion in self.criteria],
            "figures": dict(self.figures),
        }

    def metrics(self) -> dict[str, float]:
        """Return the figures as a tracker's metrics: ``gate_<criterion>``, ``gate_<criterion>_bound``."""
        found: dict[str, float] = {"gate_passed": float(self.passed)}
        for criterion in self.criteria:
            if criterion.value is not None:
                found[f"gate_{criterion.name}"] = criterion.value
            if criterion.bound is not None:
                found[f"gate_{criterion.name}_bound"] = criterion.bound
        return {**found, **{f"gate_{name}": value for name, value in self.figures.items()}}


def judge(
    challenger: Observed, champion: Observed | None, *, rules: GateRules, budget_per_day: float
) -> Gate:
    """Return whether a challenger may take the champion's place.

    Parameters
    ----------
    challenger, champion
        What each says of the same telemetry. None for a champion that cannot judge it: then only what the
        challenger must show by itself is asked.
    rules
        The bounds.
    budget_per_day
        False incidents per host and day that the operator accepts.
    """
    criteria = [
        _at_least(
            "windows",
            float(challenger.judged),
            float(rules.minimum_windows),
            f"{challenger.judged} windows judged",
        ),
        _alarm_rate(challenger, champion, rules, budget_per_day),
        *_recall(challenger, champion, rules),
        *_subsystem(challenger, champion, rules),
        *_ranks(challenger, champion, rules),
        _at_least(
            "feature_coverage",
            challenger.feature_coverage,
            rules.feature_coverage,
            f"the hosts have {challenger.feature_coverage:.0%} of the model's features",
        ),
        _window_coverage(challenger, champion, rules),
    ]
    return Gate(tuple(criteria), _figures(challenger, champion))


def _at_least(name: str, value: float | None, bound: float, text: str) -> Criterion:
    passed = value is not None and value >= bound - 1e-9
    return Criterion(name, value, bound, passed, f"{text} (at least {bound:.4g} asked)")


def _alarm_rate(
    challenger: Observed, champion: Observed | None, rules: GateRules, budget: float
) -> Criterion:
    """Compare counts of incidents; a healthy host's are Poisson distributed if they are independent.

    The bound is the count that a model on budget exceeds with a probability of ``chance``.
    """
    from scipy.stats import poisson

    expected = budget * challenger.host_days
    bound = int(poisson.ppf(1.0 - rules.chance, expected)) if expected > 0 else 0
    against = f"{budget:g} a host and day"
    if champion is not None and expected < rules.budget_events:
        allowed = champion.incidents + rules.alarm_margin
        if allowed > bound:
            bound, against = allowed, "the champion's"
    days = max(challenger.host_days, 1e-12)
    return Criterion(
        "alarm_rate",
        challenger.incidents / days,
        bound / days,
        challenger.incidents <= bound,
        f"{challenger.incidents} incident{'' if challenger.incidents == 1 else 's'} in "
        f"{24 * challenger.host_days:.2g} healthy host-hours "
        f"(at most {bound} allowed by {against})",
    )


def _recall(challenger: Observed, champion: Observed | None, rules: GateRules) -> list[Criterion]:
    if not rules.injections:
        return []
    if champion is None or champion.recall is None:
        bound = rules.minimum_recall
    else:
        bound = max(0.0, champion.recall - rules.recall_drop)
    found = "none could be" if challenger.recall is None else f"{challenger.recall:.0%} found"
    text = f"of {challenger.injected} injected faults {found}"
    return [_at_least("injected_recall", challenger.recall, bound, text)]


def _subsystem(challenger: Observed, champion: Observed | None, rules: GateRules) -> list[Criterion]:
    if champion is None or champion.subsystem_top1 is None or challenger.subsystem_top1 is None:
        return []
    bound = max(0.0, champion.subsystem_top1 - rules.subsystem_drop)
    text = f"{challenger.subsystem_top1:.0%} of the injected faults found have their subsystem named first"
    return [_at_least("injected_subsystem", challenger.subsystem_top1, bound, text)]


def _ranks(challenger: Observed, champion: Observed | None, rules: GateRules) -> list[Criterion]:
    if champion is None:
        return []
    value, common = rank_correlation(challenger.scores, champion.scores)
    shown = "cannot be ranked" if value is None else f"rank alike by {value:.2f}"
    return [
        _at_least(
            "rank_correlation",
            value,
            rules.rank_correlation,
            f"{common} windows that both judged {shown} (Spearman)",
        )
    ]


def _window_coverage(challenger: Observed, champion: Observed | None, rules: GateRules) -> Criterion:
    share = challenger.judged / max(challenger.windows, 1)
    bound = rules.window_coverage
    if champion is not None:
        bound = min(bound, champion.judged / max(champion.windows, 1))
    return _at_least("window_coverage", share, bound, f"{share:.0%} of the windows could be judged")


def rank_correlation(
    one: Mapping[str, HostScores], other: Mapping[str, HostScores]
) -> tuple[float | None, int]:
    """Return Spearman's correlation of two models' scores, and of how many common windows it is.

    Windows are the same if host and start are. The correlation is None where fewer than three are, or where
    one model gives all the same score.
    """
    from scipy.stats import spearmanr

    pairs = []
    for host in sorted(set(one) & set(other)):
        _, left, right = np.intersect1d(one[host].start_ns, other[host].start_ns, return_indices=True)
        pairs.append((one[host].fused[left], other[host].fused[right]))
    first = np.concatenate([pair[0] for pair in pairs]) if pairs else np.empty(0)
    second = np.concatenate([pair[1] for pair in pairs]) if pairs else np.empty(0)
    if len(first) < 3 or not np.ptp(first) or not np.ptp(second):
        return None, len(first)
    return float(spearmanr(first, second).statistic), len(first)


def _figures(challenger: Observed, champion: Observed | None) -> dict[str, float]:
    """Return what is worth seeing beside the criteria."""
    figures: dict[str, float] = {"host_days": challenger.host_days, "injected": float(challenger.injected)}
    if challenger.metric_top3 is not None:
        figures["injected_metric_top3"] = challenger.metric_top3
    if champion is not None:
        figures["champion_alarm_rate"] = champion.incidents / max(champion.host_days, 1e-12)
        for name in ("recall", "metric_top3", "subsystem_top1"):
            if (value := getattr(champion, name)) is not None:
                figures[f"champion_injected_{name}"] = value
        top = set(challenger.top_metrics[:TOP]), set(champion.top_metrics[:TOP])
        figures["top_metrics_shared"] = len(top[0] & top[1]) / max(len(top[0]), 1)
    return figures
