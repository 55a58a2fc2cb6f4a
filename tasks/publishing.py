"""The publishing stage: what was found, from the store, as a report in the store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from reveal_core.timespec import from_ns
from tasks.faultfiles import injected_faults
from tasks.models import shared_model
from tasks.report_inputs import (
    alarm_budget,
    fleet_of,
    histories_of,
    host_inputs,
    source_notes,
    trend_of,
)
from tasks.tracking import ModelRef, Tracking

if TYPE_CHECKING:
    from reveal_core.incidents import FleetIncident, History
    from reveal_core.method import Analysis
    from reveal_core.model import RevealModel
    from reveal_core.report.types import HostInput, ModelInfo, Trend
    from storage.store import Store
    from storage.telemetry import TelemetryRead


def report_name(kind: str, created: datetime, *parts: str) -> str:
    """Return a report's id: when, what, and a hash of what it is about, so that two at one second differ.

    >>> report_name("score", datetime(2026, 11, 29, 20, 15, tzinfo=UTC), "node-17")
    '20261129T201500Z-score-b7d2aa'
    """
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:6]
    return f"{created:%Y%m%dT%H%M%SZ}-{kind}-{digest}"


def publish_report(
    store: str,
    *,
    tracking_uri: str,
    report_id: str,
    title: str,
    model: dict[str, str],
    scored: list[dict[str, Any]],
    injected: list[dict[str, Any]],
    notes: list[str],
    command: str,
    plugins: list[str] | None = None,
) -> dict[str, Any]:
    """Writing the report.

    Parameters
    ----------
    store, tracking_uri
        Where results are read and the report is put, and where the model is registered.
    report_id, title
        What the report is called; the same id again replaces it, so a retry is harmless.
    model
        The version that scored, from `tasks.scoring.choose_model`.
    scored
        Hosts, from `tasks.scoring.score_hosts`.
    injected
        Faults that the lab injected, each with ``name``, ``subsystem``, ``start``, ``end``, ``causes``.
    notes, command
        Sentences that a reader must know, and the command that makes the report again.
    plugins
        Detectors of other libraries that the model may hold, by the operator's settings.

    Returns
    -------
    dict
        The contract's document of ``reveal score``, with the report's address as ``report``, its id as
        ``report_id`` and its Markdown as ``markdown``.

    Raises
    ------
    UnavailableError
        If the store or MLflow cannot be reached, or scores are no longer there.
    """
    from storage.store import Store

    reference = ModelRef(**model)
    fitted = shared_model(Tracking(tracking_uri), reference, plugins or ())
    target = Store(store)
    hosts = host_inputs(target, scored)
    told = dict.fromkeys([*notes, *(note for result in scored for note in result["notes"])])
    budget = alarm_budget(fitted)
    ledgers = target.ledgers([host.host for host in hosts])
    document = put_report(
        target,
        report_id=report_id,
        title=title,
        hosts=hosts,
        fleet=fleet_of(hosts),
        histories=histories_of(target, hosts, ledgers),
        trend=trend_of(ledgers, budget, max(host.end for host in hosts)),
        model=model_info(fitted, name=reference.name, version=reference.version, alias=reference.alias),
        injected=injected,
        notes=list(told),
        quarantined=[item for result in scored for item in result["quarantined"]],
        command=command,
    )
    return {**document, "alarm_budget": budget}


def put_report(
    target: Store,
    *,
    report_id: str,
    title: str,
    hosts: Sequence[HostInput],
    model: ModelInfo,
    injected: Sequence[Mapping[str, Any]],
    notes: Sequence[str],
    quarantined: Sequence[Mapping[str, Any]],
    command: str,
    fleet: Sequence[FleetIncident] = (),
    histories: Mapping[str, History] | None = None,
    trend: Trend | None = None,
) -> dict[str, Any]:
    """Render a report of hosts, put it into the store and return its document."""
    from reveal_core.report.model import build_report
    from reveal_core.report.render_html import render_html
    from reveal_core.report.render_json import report_dict
    from reveal_core.report.render_markdown import render_markdown

    report = build_report(
        report_id,
        title,
        datetime.now(UTC),
        min(host.start for host in hosts),
        max(host.end for host in hosts),
        hosts,
        model,
        injected_faults(injected),
        notes,
        command=command,
        fleet=fleet,
        histories=histories or {},
        trend=trend,
    )
    document = report_dict(report)
    address = target.put_report(report_id, render_html(report), document)
    return {
        **document,
        "report": address,
        "report_id": report_id,
        "quarantined": [dict(item) for item in quarantined],
        "markdown": render_markdown(report),
    }


def model_info(fitted: RevealModel, *, name: str, version: str, alias: str) -> ModelInfo:
    """Return what a report says of a model."""
    from reveal_core.report.types import ModelInfo

    facts = fitted.facts()
    return ModelInfo(
        name=name,
        version=version,
        profile=facts["profile"],
        alias=alias,
        settings={
            **fitted.parameters(),
            "threshold_rule": facts["threshold_rule"],
            "threshold": facts["threshold"],
            "feature_hash": facts["feature_hash"],
        },
        trained_from=from_ns(facts["trained_from_ns"]),
        trained_to=from_ns(facts["trained_to_ns"]),
        windows=facts["windows"],
        features=facts["features"],
    )


def analysed_input(analysis: Analysis, read: TelemetryRead, *, start: datetime, end: datetime) -> HostInput:
    """Return what a report shows of a host that has just been analysed over a range."""
    from reveal_core.report.types import HostInput

    return HostInput(
        host=analysis.host,
        series=analysis.series,
        scores=analysis.scores,
        incidents=analysis.incidents,
        facts=read.telemetry.facts,
        start=start,
        end=end,
        sources=source_notes(read.telemetry),
        quarantined=list(dict.fromkeys(item.key for item in read.quarantined)),
    )
