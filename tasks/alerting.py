"""The telling stage: who is told of which incidents, and that they are over."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from reveal_core.errors import RevealError, UnavailableError, UsageError
from reveal_core.incidents import OPEN, FleetIncident, iso
from reveal_core.timespec import parse_time
from tasks.channels import Alertmanager, Channel, channel_key, make_channels

if TYPE_CHECKING:
    from reveal_core.alerts import AlertState, Notice
    from reveal_core.ledger import Entry
    from storage.store import Store

logger = logging.getLogger(__name__)

UNDELIVERED = timedelta(hours=24)
"""A notice that a channel has not taken for so long is given up: by then the report has told it all."""


def announce_incidents(
    store: str,
    *,
    hosts: list[str],
    fleet: list[dict[str, Any]],
    report: str,
    report_id: str,
    budget: float,
    alerts: dict[str, Any],
) -> dict[str, Any]:
    """Telling of incidents.

    Parameters
    ----------
    store
        Root of the store, where ledgers, labels, silences and what was told before are read.
    hosts
        Hosts of the run.
    fleet
        Fleet incidents of the run, as the report's document has them.
    report, report_id
        Address and id of the report.
    budget
        Incidents per host and day that the operator allows.
    alerts
        Settings: ``alertmanager``, ``webhooks`` and ``notify`` (addresses), ``webhook_secret``, ``per_day``
        (None for the budget over all hosts), ``remind_s`` and ``report_url``.

    Returns
    -------
    dict
        ``sent`` (each ``channel``, ``status``, ``title``), ``undelivered`` (each ``channel``, ``title``,
        ``reason``), and ``silent``: why nobody is told of an entry, by its id.

    Raises
    ------
    UsageError
        If an address is none.
    UnavailableError
        If the store cannot be reached or written.

    Notes
    -----
    A channel that does not answer costs the others nothing: what it did not take is kept in the store and
    tried again by the next run.
    """
    from reveal_core.alerts import AlertRules, decide, limit_per_day
    from reveal_core.labels import newest
    from storage.store import Store

    channels = make_channels(alerts)
    target = Store(store)
    if not channels:
        return {"sent": [], "undelivered": [], "silent": {}}
    now = datetime.now(UTC)
    ledgers = target.ledgers(hosts)
    entries = [entry for ledger in ledgers for entry in ledger.entries]
    per_day = alerts.get("per_day")
    rules = AlertRules(
        per_day=int(per_day) if per_day is not None else limit_per_day(budget, len(target.ledger_hosts())),
        remind_s=float(alerts.get("remind_s") or AlertRules.remind_s),
    )
    struck = [ledger.host for ledger in ledgers if ledger.entries]
    decision = decide(
        entries,
        [_fleet(one) for one in fleet],
        newest(target.labels(struck)),
        target.silences(),
        target.alert_state(),
        now,
        rules,
    )
    link = report_link(report, report_id, alerts.get("report_url"))
    payloads = [_payload(target, notice, link) for notice in decision.notices]
    state, sent, undelivered = deliver(channels, payloads, decision.state, now)
    sent += _sustain(target, channels, entries, state, payloads, link)
    target.put_alert_state(state)
    return {"sent": sent, "undelivered": undelivered, "silent": dict(decision.silent)}


def report_link(report: str, report_id: str, base: str | None) -> str:
    """Return where a person opens a report: below the address that reports are served at, if there is one."""
    return f"{base.rstrip('/')}/{quote(report_id)}/index.html" if base else report


def _fleet(data: Mapping[str, Any]) -> FleetIncident:
    return FleetIncident(
        **{
            **data,
            "start": parse_time(data["start"]),
            "end": parse_time(data["end"]),
            "hosts": tuple(data["hosts"]),
            "incidents": tuple(data["incidents"]),
        }
    )


def _payload(target: Store, notice: Notice, link: str) -> dict[str, Any]:
    data = notice.to_dict()
    for entry in data["entries"]:
        incident = target.read_incident(entry["strongest"])
        entry["incident"] = incident.to_dict() if incident is not None else None
    return {**data, "report": link}


def deliver(
    channels: Sequence[Channel], payloads: Sequence[Mapping[str, Any]], state: AlertState, now: datetime
) -> tuple[AlertState, list[dict[str, str]], list[dict[str, str]]]:
    """Send notices, those that wait from earlier runs first.

    Returns
    -------
    state
        With what was not taken.
    sent, undelivered
        Each with ``channel`` and ``title``, ``status`` or ``reason``.
    """
    from reveal_core.alerts import Pending

    sent: list[dict[str, str]] = []
    undelivered: list[dict[str, str]] = []
    pending: list[Pending] = []
    for channel in channels:
        key = channel_key(channel)
        waiting = [p for p in state.pending if p.channel == key]
        waiting += [Pending(key, now, dict(payload)) for payload in payloads]
        reason = ""
        for item in waiting:
            if not reason:
                try:
                    channel.send(item.notice)
                except UsageError:
                    raise
                except RevealError as error:
                    reason = str(error)
                    logger.warning("a notice was not delivered: %s", reason)
            row = {"channel": channel.name, "title": str(item.notice["title"])}
            if not reason:
                sent.append({**row, "status": str(item.notice["status"])})
                continue
            # One that does not answer is not asked again for every notice.
            undelivered.append({**row, "reason": reason})
            if now - item.at < UNDELIVERED:
                pending.append(item)
    return replace(state, pending=tuple(pending)), sent, undelivered


def _sustain(
    target: Store,
    channels: Sequence[Channel],
    entries: Sequence[Entry],
    state: AlertState,
    payloads: Sequence[Mapping[str, Any]],
    link: str,
) -> list[dict[str, str]]:
    """Send Alertmanager what is still on once more: it takes for over what it does not hear of again."""
    from reveal_core.alerts import Notice

    new = {entry["id"] for payload in payloads for entry in payload["entries"]}
    told = {t.entry for t in state.told if not t.over and not t.held}
    still = tuple(e for e in entries if e.id in told and e.id not in new and e.state == OPEN)
    managers = [channel for channel in channels if isinstance(channel, Alertmanager)]
    if not still or not managers:
        return []
    payload = _payload(target, Notice("firing", "", "still on", still), link)
    sent = []
    for channel in managers:
        try:
            channel.send(payload)
        except UnavailableError as error:
            logger.warning("what is still on was not told again: %s", error)
            continue
        sent.append({"channel": channel.name, "status": "still on", "title": f"{len(still)} still on"})
    return sent


def try_channels(alerts: dict[str, Any]) -> list[dict[str, str]]:
    """Trying the channels.

    Returns
    -------
    list of dict
        For each channel ``channel`` and ``reason``: why it did not take a notice, ``""`` if it did.

    Raises
    ------
    UsageError
        If there is no channel, or an address is none.
    """
    channels = make_channels(alerts)
    if not channels:
        raise UsageError(
            "no channel is set: name one in alerts.alertmanager, alerts.webhooks or alerts.notify"
        )
    now = iso(datetime.now(UTC))
    entry = {
        "id": "test",
        "fingerprint": "test",
        "host": "no-host",
        "subsystem": "cpu",
        "cause": "",
        "title": "A test, nothing is wrong",
        "action": "ignore",
        "metrics": [],
        "first": now,
        "start": now,
        "end": now,
        "count": 1,
        "state": "resolved",
        "cleared": now,
        "flapping": False,
        "severity": 0,
        "score": 0.0,
        "probability": 1.0,
        "strongest": "test",
        "episodes": [],
        "incident": None,
    }
    notice = {"status": "firing", "group": "test", "title": "a test", "entries": [entry], "fleet": None}
    results = []
    for channel in channels:
        try:
            channel.send({**notice, "report": ""})
            results.append({"channel": channel.name, "reason": ""})
        except UnavailableError as error:
            results.append({"channel": channel.name, "reason": str(error)})
    return results
