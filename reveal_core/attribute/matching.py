"""How the signals of an incident are matched with the signatures of the cause catalogue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from reveal_core.attribute.causes import Cause, Term, load_causes
from reveal_core.catalog import is_failure
from reveal_core.incidents import CauseFinding

LEAST_CONFIDENCE = 0.2
"""What explains less is not named: the cause is unknown, and the evidence stands for itself."""

_HALF = 3.0
"""Excess at which a term counts half: three standard units beyond everything seen while healthy."""


_LEAST = 0.1
"""Excess below which a signal says nothing: a trace of what a channel did at another time, or of rounding."""


FAILURE_GAIN = 32.0
"""At which a single error in a window of 3 s, a small excess by itself, counts in full."""


@dataclass(frozen=True)
class Signal:
    """A feature that left its healthy band, or the code that a state took: what a term is matched with.

    Attributes
    ----------
    metric, part, statistic
        Which feature.
    excess
        Its signed excess beyond the healthy band, in standard units.
    column
        Its number among the features; -1 for a code.
    code, instance
        For a state, the value that it took, and where.
    """

    metric: str
    part: str
    statistic: str
    excess: float
    column: int
    code: int | None = None
    instance: str = ""


class Signals:
    """The signals of an incident, by metric.

    Parameters
    ----------
    signals
        What left its band.
    sampled
        Every metric that the host has; None where all of the catalogue's count as sampled. What is not
        sampled can neither speak for a cause nor be missed.
    """

    def __init__(self, signals: Iterable[Signal], sampled: Collection[str] | None = None) -> None:
        self._by_metric: dict[str, list[Signal]] = {}
        for signal in signals:
            self._by_metric.setdefault(signal.metric, []).append(signal)
        self._sampled = None if sampled is None else {*sampled, *self._by_metric}
        self._known: dict[str, tuple[Signal, ...]] = {}

    def of(self, pattern: str) -> tuple[Signal, ...]:
        """Return the signals whose metric matches a pattern."""
        found = self._known.get(pattern)
        if found is None:
            names = _matching(pattern, self._by_metric)
            found = tuple(signal for name in names for signal in self._by_metric[name])
            self._known[pattern] = found
        return found

    def has(self, term: Term) -> bool:
        """Tell whether the host samples anything that a term listens to."""
        sampled = self._sampled
        return sampled is None or any(_matching(pattern, sampled) for pattern in term.metrics)


def _matching(pattern: str, names: Collection[str]) -> list[str]:
    if any(sign in pattern for sign in "*?["):
        return [name for name in names if fnmatchcase(name, pattern)]
    return [pattern] if pattern in names else []


def speaking(term: Term, signals: Signals) -> Signal | None:
    """Return the signal that moved furthest in a term's direction, or took one of its codes, if any did."""
    if term.state:
        return next((s for s in signals.of(term.state) if s.code in term.codes), None)
    best: Signal | None = None
    furthest = 0.0
    for sign, patterns in ((1.0, term.up), (-1.0, term.down)):
        for pattern in patterns:
            for signal in signals.of(pattern):
                moved = sign * signal.excess * _gain(term, signal)
                if moved < _LEAST or (term.parts and signal.part not in term.parts):
                    continue
                if term.statistic and signal.statistic != term.statistic:
                    continue
                if moved > furthest:
                    best, furthest = signal, moved
    return best


def _gain(term: Term | None, signal: Signal) -> float:
    """Return how many times a signal counts to a term: an error that hardware counted is one, or is none."""
    gain = 1.0 if term is None else term.gain_of(signal.metric)
    return max(gain, FAILURE_GAIN) if is_failure(signal.metric) else gain


def strength(signal: Signal | None, term: Term | None = None) -> float:
    """Return how clearly a signal moved, to a term that may listen closely: 0 to 1, saturating.

    A code is there or it is not.
    """
    if signal is None:
        return 0.0
    moved = abs(signal.excess) * _gain(term, signal)
    return 1.0 if signal.code is not None else moved / (moved + _HALF)


def speaks_for(cause: Cause, metric: str, direction: str) -> bool:
    """Tell whether a metric that moved in a direction is one of those that a cause moves."""
    return any(
        fnmatchcase(metric, pattern)
        for term in cause.terms
        for pattern in (term.up if direction == "up" else term.down)
    )


def match(cause: Cause, signals: Signals, word: Callable[[Term, Signal], str]) -> CauseFinding | None:
    """Return a cause as a finding, or None if what it requires did not move or it explains too little.

    Parameters
    ----------
    cause
        An entry of the catalogue.
    signals
        What left its band.
    word
        Writes a term and its signal as a sentence with values and units.

    Notes
    -----
    Confidence is the weighted mean strength of the terms, times the root of the strength of the weakest
    required one, less the weighted strength of what speaks against it. Terms of which the host samples
    nothing are left out of the mean.
    """
    total, support, weakest, contradiction = 0.0, 0.0, 1.0, 0.0
    evidence: list[str] = []
    against: list[str] = []
    for term in cause.terms:
        signal = speaking(term, signals)
        if signal is None and term.required:
            return None
        if signal is None and not signals.has(term):
            continue
        moved = strength(signal, term)
        total += term.weight
        support += term.weight * moved
        if term.required:
            weakest = min(weakest, moved)
        if signal is not None:
            evidence.append(word(term, signal))
        else:
            against.append(f"not seen: {term.says}")
    for term in cause.against:
        signal = speaking(term, signals)
        if signal is not None:
            contradiction += term.weight * strength(signal, term)
            against.append(word(term, signal))
    confidence = min(max(0.0, (support * weakest**0.5 - contradiction) / total), cause.at_most)
    if confidence < LEAST_CONFIDENCE:
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
        action=cause.action,
        source=cause.source,
    )


def rank_causes(
    signals: Signals,
    word: Callable[[Term, Signal], str],
    *,
    causes: Sequence[Cause] | None = None,
    most: int = 5,
) -> tuple[CauseFinding, ...]:
    """Return the causes that explain the signals, most confident first.

    Parameters
    ----------
    signals
        What left its band.
    word
        Writes a term and its signal as a sentence with values and units.
    causes
        Those to choose from; the catalogue of this package if not given.
    most
        How many to return at most.
    """
    every = load_causes() if causes is None else causes
    found = [f for cause in every if (f := match(cause, signals, word)) is not None]
    return tuple(sorted(found, key=lambda f: -f.confidence)[:most])
