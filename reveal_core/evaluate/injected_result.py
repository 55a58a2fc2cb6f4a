"""What became of injected perturbations: found or not, how late, and whether the right signal was named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from reveal_core.channels import SUBSYSTEMS
from reveal_core.evaluate.injected_plan import KINDS, TARGETS, InjectedPerturbation
from reveal_core.incidents import iso


@dataclass(frozen=True)
class Named:
    """Place of the first right metric and of the right subsystem, from 1; None where none is named."""

    metric_rank: int | None
    subsystem_rank: int | None


@dataclass(frozen=True)
class JudgedFault:
    """A perturbation and the incident that begins at it.

    Attributes
    ----------
    perturbation
        What was injected.
    detected
        Whether an incident begins at it, see `reveal_core.evaluate.matching.match_faults`.
    delay_s
        Seconds from the onset to the incident's start; None where it was missed.
    incident
        The incident's id; None where it was missed.
    named
        Where the incident names what was perturbed; None where it was missed, or nothing is right for it.
    asked
        The same of what is said of its windows when asked, found or not; None where that was not asked.
    """

    perturbation: InjectedPerturbation
    detected: bool
    delay_s: float | None = None
    incident: str | None = None
    named: Named | None = None
    asked: Named | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; times are ISO 8601 in UTC."""
        one = self.perturbation
        return {
            "kind": one.kind,
            "target": one.target,
            # A source's many metrics would bury the rest.
            "metrics": list(one.metrics) if one.target in ("metric", "instance", "subsystem") else [],
            "instance": one.instance,
            "source": one.source,
            "subsystem": one.subsystems[0] if len(one.subsystems) == 1 else "",
            "subsystems": list(one.subsystems),
            "size": one.size,
            "onset": iso(one.onset),
            "end": iso(one.end),
            "clipped": round(one.clipped, 4),
            "detected": self.detected,
            "delay_s": _rounded(self.delay_s),
            **_ranks("", self.named),
            "incident": self.incident,
            **_ranks("asked_", self.asked),
        }


@dataclass(frozen=True)
class InjectedResult:
    """What a model made of injected perturbations.

    Attributes
    ----------
    faults
        Every perturbation, pass by pass.
    own_incidents
        Incidents of the telemetry as it was recorded, without a perturbation; counted once.
    after_effects
        Incidents of the copies that neither the recording nor a perturbation explains.
    healthy_hours
        Length of the recording that ``own_incidents`` are of.
    """

    faults: tuple[JudgedFault, ...]
    own_incidents: int
    after_effects: int
    healthy_hours: float

    @property
    def summary(self) -> dict[str, Any]:
        """Figures with stable names; None stands for what cannot be told.

        ``metric_top1``, ``metric_top3`` and ``subsystem_top1`` are shares of the detected perturbations that
        have a right metric or subsystem; with ``asked_`` before them of all that have one, by what is said of
        their windows. ``false_incidents`` are the recording's own and the after-effects.
        """
        return {
            **figures(self.faults),
            "false_incidents": self.own_incidents + self.after_effects,
            "own_incidents": self.own_incidents,
            "healthy_hours": round(self.healthy_hours, 4),
            "recall_by_kind": _recalls(self.by("kind")),
            "recall_by_size": _recalls(self.by("size")),
        }

    def by(self, what: str) -> dict[str, dict[str, Any]]:
        """Return the figures apart by ``kind``, ``target``, ``size`` or ``subsystem``.

        What has no size stands under its kind's name in none of the sizes; what strikes several subsystems
        stands under ``several``.
        """
        keys: dict[str, tuple[Callable[[InjectedPerturbation], str], Iterable[str]]] = {
            "kind": (lambda one: one.kind, KINDS),
            "target": (lambda one: one.target, TARGETS),
            "size": (lambda one: "" if one.size is None else f"{one.size:g}", self._sizes()),
            "subsystem": (
                lambda one: one.subsystems[0] if len(one.subsystems) == 1 else "several",
                (*SUBSYSTEMS, "several"),
            ),
        }
        key, order = keys[what]
        parts = {name: [f for f in self.faults if key(f.perturbation) == name] for name in order}
        return {name: figures(part) for name, part in parts.items() if part}

    def _sizes(self) -> list[str]:
        sizes = {f.perturbation.size for f in self.faults if f.perturbation.size is not None}
        return [f"{size:g}" for size in sorted(sizes)]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "summary": self.summary,
            **{f"by_{what}": self.by(what) for what in ("kind", "target", "size", "subsystem")},
            "faults": [fault.to_dict() for fault in self.faults],
        }


def pooled(results: Sequence[InjectedResult]) -> InjectedResult:
    """Return the perturbations and incidents of several hosts together."""
    return InjectedResult(
        faults=tuple(fault for result in results for fault in result.faults),
        own_incidents=sum(result.own_incidents for result in results),
        after_effects=sum(result.after_effects for result in results),
        healthy_hours=sum(result.healthy_hours for result in results),
    )


def figures(faults: Sequence[JudgedFault]) -> dict[str, Any]:
    """Return counts and shares of some perturbations."""
    found = [fault for fault in faults if fault.detected]
    delays = [fault.delay_s for fault in found if fault.delay_s is not None]
    return {
        "injected": len(faults),
        "detected": len(found),
        "recall": _share(len(found), len(faults)),
        "median_delay_s": _rounded(median(delays)) if delays else None,
        **_tops("", [fault.named for fault in found if fault.named is not None]),
        **_tops("asked_", [fault.asked for fault in faults if fault.asked is not None]),
    }


def _tops(prefix: str, named: Sequence[Named]) -> dict[str, float | None]:
    count = len(named)
    return {
        f"{prefix}metric_top1": _share(sum(one.metric_rank == 1 for one in named), count),
        f"{prefix}metric_top3": _share(sum((one.metric_rank or 99) <= 3 for one in named), count),
        f"{prefix}subsystem_top1": _share(sum(one.subsystem_rank == 1 for one in named), count),
    }


def _ranks(prefix: str, named: Named | None) -> dict[str, int | None]:
    return {
        f"{prefix}metric_rank": named.metric_rank if named else None,
        f"{prefix}subsystem_rank": named.subsystem_rank if named else None,
    }


def _recalls(table: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {name: row["recall"] for name, row in table.items()}


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
