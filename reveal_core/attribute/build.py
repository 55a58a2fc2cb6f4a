"""Incidents from scores: spans, explanation, causes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import timedelta

import numpy as np

from reveal_core.attribute.causes import Term, cause_by_id, state_metrics
from reveal_core.attribute.evidence import incident_span, metric_evidence
from reveal_core.attribute.explain import blend, movements, pooled, subsystem_shares
from reveal_core.attribute.matching import Signal, Signals, rank_causes
from reveal_core.attribute.spans import Span, group_windows
from reveal_core.attribute.states import codes_of
from reveal_core.attribute.wording import band_sentence, code_sentence
from reveal_core.detect.contributions import Excursions
from reveal_core.incidents import OPEN, RESOLVED, CauseFinding, Incident
from reveal_core.profiles import Profile
from reveal_core.scores import Scores
from reveal_core.telemetry import Series
from reveal_core.timespec import from_ns


def build_incidents(
    scores: Scores, excursions: Excursions, series: Series, profile: Profile
) -> tuple[Incident, ...]:
    """Return the incidents of one host, in order of time.

    Parameters
    ----------
    scores, excursions
        Of the same windows.
    series
        Physical values over the same range, to name instances.
    profile
        How windows are joined to incidents.
    """
    ratio = _ratio(scores)
    spans = group_windows(scores.frame["anomalous"].to_numpy(), ratio, excursions.excess, profile)
    return tuple(_incident(span, scores, excursions, series, ratio, profile) for span in spans)


def explain_windows(
    scores: Scores, excursions: Excursions, series: Series, profile: Profile, windows: Sequence[int]
) -> Incident:
    """Return the incident that some windows would be, whether or not they are anomalous.

    Parameters
    ----------
    scores, excursions, series, profile
        As `build_incidents` takes them.
    windows
        Numbers of windows, ascending; one at least.
    """
    return _incident(Span(tuple(windows)), scores, excursions, series, _ratio(scores), profile)


def _ratio(scores: Scores) -> np.ndarray:
    """Return the fused score of each window over its threshold."""
    threshold = scores.frame["threshold"].to_numpy()
    return np.asarray(scores.frame["fused"].to_numpy() / np.maximum(threshold, 1e-12))


def _incident(
    span: Span,
    scores: Scores,
    excursions: Excursions,
    series: Series,
    ratio: np.ndarray,
    profile: Profile,
) -> Incident:
    windows = span.windows
    moved = movements(excursions, windows)
    causes = rank_causes(
        _signals(excursions, series, windows, profile.window_s), _worder(excursions, windows)
    )
    shares = subsystem_shares(moved)
    if causes:
        shares = blend(shares, causes[0].subsystem, causes[0].confidence)
    # A window first crosses the threshold when what is new lies in its last stride: the incident begins
    # within it, and its middle is the estimate that is off by half a stride at most.
    lead = timedelta(seconds=profile.window_s - profile.stride_s / 2.0)
    start = from_ns(int(excursions.start_ns[span.first])) + lead
    end = from_ns(int(excursions.start_ns[span.last])) + timedelta(seconds=profile.stride_s / 2.0)
    peak = max(windows, key=lambda i: float(ratio[i]))
    row = scores.frame.row(peak, named=True)
    subsystem = shares[0].name if shares else "cpu"
    metrics = metric_evidence(
        excursions,
        series,
        moved,
        windows,
        window_s=profile.window_s,
        stride_s=profile.stride_s,
        cause=cause_by_id()[causes[0].id] if causes else None,
    )
    key = _fingerprint(scores.host, subsystem, causes, [m.metric for m in metrics[:3]])
    stamp = start.strftime("%Y%m%dT%H%M%S")
    return Incident(
        id=f"{stamp}-{scores.host}-{key[:6]}",
        fingerprint=key,
        host=scores.host,
        start=start,
        end=max(end, start + timedelta(seconds=profile.stride_s)),
        severity=int(max(scores.frame["severity"][list(windows)])),
        probability=float(row["probability"]),
        score=float(ratio[peak]),
        subsystem=subsystem,
        subsystems=shares,
        metrics=metrics,
        causes=causes,
        windows=len(windows),
        detectors={name: float(row[f"score/{name}"]) for name in scores.detectors},
        state=_state(span, len(ratio), profile),
    )


def _state(span: Span, count: int, profile: Profile) -> str:
    """Return whether an incident may go on: its calm at the end of what was judged is too short to tell."""
    calm_s = (count - 1 - span.last) * profile.stride_s
    return OPEN if calm_s <= profile.gap_s else RESOLVED


def _fingerprint(host: str, subsystem: str, causes: Sequence[CauseFinding], metrics: Sequence[str]) -> str:
    """Same host and cause (or, without one, leading metrics): same fingerprint, whenever it happens."""
    what = causes[0].id if causes else "+".join(sorted(metrics))
    return hashlib.sha256(f"{host}|{subsystem}|{what}".encode()).hexdigest()[:16]


def _signals(excursions: Excursions, series: Series, windows: Sequence[int], window_s: float) -> Signals:
    """Return what left its band, and the codes that states took, beside all that the host samples."""
    mean = pooled(excursions.excess, windows)
    moved = [
        Signal(f.metric, f.part, f.statistic, float(mean[column]), column)
        for column, f in enumerate(excursions.features)
        if mean[column] != 0.0
    ]
    codes = codes_of(series, state_metrics(), *incident_span(excursions, windows, window_s))
    states = {c.metric for c in series.channels.values()} & set(state_metrics())
    sampled = {f.metric for f in excursions.features} | states
    return Signals([*moved, *codes], sampled)


def _worder(excursions: Excursions, windows: Sequence[int]) -> Callable[[Term, Signal], str]:
    rows = np.array(windows)

    def word(term: Term, signal: Signal) -> str:
        if signal.code is not None:
            return code_sentence(term.says, signal.metric, signal.code, signal.instance)
        column = signal.column
        peak = rows[np.abs(excursions.excess[rows, column]).argmax()]
        feature = excursions.features[column]
        return band_sentence(
            term.says, feature, float(excursions.values[peak, column]), *excursions.band(int(peak), column)
        )

    return word
