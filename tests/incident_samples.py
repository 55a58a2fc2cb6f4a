"""Incidents for tests that care for when, where and of what kind they are, and for little else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reveal_core.incidents import RESOLVED, CauseFinding, Incident, MetricEvidence, SubsystemShare

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return a time so many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def cause_of(name: str, subsystem: str = "network", action: str = "check-application") -> CauseFinding:
    return CauseFinding(
        id=name,
        title=name.replace("-", " ").capitalize(),
        subsystem=subsystem,
        confidence=0.8,
        evidence=("segments were sent again: 310 /s, normally 0 to 2 /s",),
        against=(),
        explanation="The network drops packets.",
        fix="Find the hop that drops.",
        commands=("ip -s link",),
        action=action,
    )


def incident_at(
    start: float,
    end: float,
    cause: str = "packet-loss",
    *,
    host: str = "node-1",
    score: float = 3.0,
    state: str = RESOLVED,
    action: str = "check-application",
    metric: str = "tcp.RetransSegs",
) -> Incident:
    """Return an incident from and to seconds after noon; without a ``cause`` its cause is unknown."""
    begin = at(start)
    fingerprint = f"{host}|{cause or metric}"
    return Incident(
        id=f"{begin:%Y%m%dT%H%M%S}-{host}-{cause or metric}",
        fingerprint=fingerprint,
        host=host,
        start=begin,
        end=at(end),
        severity=3,
        probability=1e-6,
        score=score,
        subsystem="network",
        subsystems=(SubsystemShare("network", 1.0),),
        metrics=(
            MetricEvidence(metric, "", "network", "/s", 310.0, 0.0, 2.0, "up", 0.6),
            MetricEvidence("cpu.busy", "cpu1", "cpu", "%", 20.0, 40.0, 90.0, "down", 0.2),
        ),
        causes=(cause_of(cause, action=action),) if cause else (),
        windows=max(1, round(end - start)),
        state=state,
    )
