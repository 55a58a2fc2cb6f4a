"""The cause catalogue, signatures over directions of metrics in ``causes.toml``, and how they match."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

from reveal_core.channels import SUBSYSTEMS
from reveal_core.incidents import CauseFinding

LEAST_CONFIDENCE = 0.2
_HALF = 3.0
"""Excess at which a term counts half: three standard units beyond everything seen while healthy."""


@dataclass(frozen=True)
class Term:
    """A signal that a cause moves.

    ``metrics`` are alternatives (shell patterns); the one that moved furthest in ``direction`` speaks.
    ``parts`` and ``statistic`` restrict it to such features; ``says`` words the evidence. A ``required`` term
    must have moved.
    """

    metrics: tuple[str, ...]
    direction: str
    says: str
    weight: float = 1.0
    required: bool = False
    parts: tuple[str, ...] = ()
    statistic: str = ""


@dataclass(frozen=True)
class Cause:
    """An entry of the catalogue."""

    id: str
    title: str
    subsystem: str
    explanation: str
    fix: str
    source: str
    terms: tuple[Term, ...]
    against: tuple[Term, ...] = ()
    commands: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    same_signals: tuple[str, ...] = ()
    caveat: str = ""


@dataclass(frozen=True)
class Signal:
    """A feature that left its healthy band: what a term is matched with."""

    metric: str
    part: str
    statistic: str
    excess: float
    column: int


def _terms(entries: Sequence[Mapping[str, Any]], where: str) -> tuple[Term, ...]:
    terms = tuple(Term(**_tupled(entry)) for entry in entries)
    for term in terms:
        if term.direction not in {"up", "down"}:
            raise ValueError(f"causes.toml: {where}: direction {term.direction!r} is neither up nor down")
    return terms


def _tupled(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}


@cache
def load_causes() -> tuple[Cause, ...]:
    """Return the catalogue.

    Raises
    ------
    ValueError
        If an entry is malformed or appears twice.
    """
    text = files(__package__).joinpath("causes.toml").read_text(encoding="utf-8")
    causes: list[Cause] = []
    for entry in tomllib.loads(text)["cause"]:
        values = _tupled(entry)
        values["terms"] = _terms(entry["terms"], entry["id"])
        values["against"] = _terms(entry.get("against", ()), entry["id"])
        cause = Cause(**values)
        if cause.subsystem not in SUBSYSTEMS or any(c.id == cause.id for c in causes):
            raise ValueError(f"causes.toml: {cause.id} is in the catalogue twice or has no known subsystem")
        if not any(t.required for t in cause.terms):
            raise ValueError(
                f"causes.toml: {cause.id} requires no signal, so it would explain everything a little"
            )
        causes.append(cause)
    return tuple(causes)


def speaking(term: Term, signals: Sequence[Signal]) -> Signal | None:
    """Return the signal that moved furthest in a term's direction, if any did."""
    sign = 1.0 if term.direction == "up" else -1.0
    best: Signal | None = None
    for signal in signals:
        if sign * signal.excess <= 0.0 or (term.parts and signal.part not in term.parts):
            continue
        if term.statistic and signal.statistic != term.statistic:
            continue
        if not any(fnmatchcase(signal.metric, pattern) for pattern in term.metrics):
            continue
        if best is None or abs(signal.excess) > abs(best.excess):
            best = signal
    return best


def strength(signal: Signal | None) -> float:
    """Return how clearly a signal moved, 0 to 1, saturating."""
    return 0.0 if signal is None else abs(signal.excess) / (abs(signal.excess) + _HALF)


def match(
    cause: Cause, signals: Sequence[Signal], word: Callable[[Term, Signal], str]
) -> CauseFinding | None:
    """Return a cause as a finding, or None if what it requires did not move.

    Parameters
    ----------
    cause
        An entry of the catalogue.
    signals
        The features that left their bands.
    word
        Writes a term and its signal as a sentence with values and units.

    Notes
    -----
    Confidence is the weighted mean strength of the terms, times the strength of the weakest required one,
    less the weighted strength of what speaks against it.
    """
    total = sum(t.weight for t in cause.terms)
    support, weakest = 0.0, 1.0
    evidence: list[str] = []
    against: list[str] = []
    for term in cause.terms:
        signal = speaking(term, signals)
        moved = strength(signal)
        support += term.weight * moved
        if term.required:
            weakest = min(weakest, moved)
        if signal is not None:
            evidence.append(word(term, signal))
        elif not term.required:
            against.append(f"not seen: {term.says}")
    contradiction = 0.0
    for term in cause.against:
        signal = speaking(term, signals)
        if signal is not None:
            contradiction += term.weight * strength(signal)
            against.append(word(term, signal))
    confidence = max(0.0, support / total * weakest**0.5 - contradiction / total)
    if confidence < LEAST_CONFIDENCE or weakest == 0.0:
        return None
    return CauseFinding(
        id=cause.id,
        title=cause.title,
        subsystem=cause.subsystem,
        confidence=confidence,
        evidence=tuple(evidence),
        against=tuple(against),
        explanation=cause.explanation,
        fix=cause.fix,
        commands=cause.commands,
        checks=cause.checks,
        same_signals=cause.same_signals,
        caveat=cause.caveat,
    )


def rank_causes(
    signals: Sequence[Signal], word: Callable[[Term, Signal], str], most: int = 5
) -> tuple[CauseFinding, ...]:
    """Return the causes that explain the signals, most confident first."""
    found = [f for cause in load_causes() if (f := match(cause, signals, word)) is not None]
    return tuple(sorted(found, key=lambda f: -f.confidence)[:most])
