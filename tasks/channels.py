"""Where notices go: Alertmanager, webhooks, and whatever the notification library Apprise knows."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from urllib.parse import urlsplit

from reveal_core.alerts import described_parts
from reveal_core.errors import UnavailableError, UsageError
from reveal_core.incidents import ACTIONS, OPEN, iso

TIMEOUT_S = 10.0
SCHEMA_VERSION = 1
"""Of the webhook's document; docs/alerts.md says what it holds."""
SIGNATURE = "X-Reveal-Signature"
"""Header with ``sha256=`` and the HMAC of the body, where a secret is set."""
LEAST_FIRING = timedelta(minutes=5)
"""Alertmanager tells nobody of an alert that it hears of when it is over, so each is kept up this long."""
RESENT_WITHIN = timedelta(minutes=30)
"""An alert that is not sent again by then is over to Alertmanager: several runs of the schedule."""
MOST_TOLD = 5
"""Incidents that a message tells at length."""
_SERIOUS = ("drain", "inspect-hardware")

Payload = Mapping[str, Any]
"""A notice as plain values: `reveal_core.alerts.Notice.to_dict`, with each entry's strongest incident as
``incident`` and the report's address as ``report``."""


class Channel(Protocol):
    """Somewhere that notices go."""

    @property
    def url(self) -> str:
        """Its address, secrets and all: for nobody's eyes."""
        ...

    @property
    def name(self) -> str:
        """Kind and place, without secrets."""
        ...

    def send(self, notice: Payload) -> None:
        """Deliver a notice; raises UnavailableError with the reason if it cannot."""
        ...


def channel_key(channel: Channel) -> str:
    """Return what tells a channel from others of the same kind and place, without its secrets."""
    return f"{channel.name} {hashlib.sha256(channel.url.encode()).hexdigest()[:8]}"


def _post(name: str, url: str, body: bytes, headers: Mapping[str, str]) -> None:
    import requests  # takes a tenth of a second, which only those who send should pay

    try:
        answer = requests.post(url, data=body, headers=dict(headers), timeout=TIMEOUT_S)
    except requests.RequestException as error:
        raise UnavailableError(f"{name} cannot be reached: {type(error).__name__}") from error
    if not answer.ok:
        said = " ".join(answer.text.split())[:200]
        raise UnavailableError(f"{name} refused: {answer.status_code} {answer.reason} {said}".rstrip())


def _place(url: str) -> str:
    """Return where an address leads, without user, password, path or query, any of which may be a secret."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or "?"
    return f"{host}:{parts.port}" if parts.port else host


def _http(setting: str, url: str) -> str:
    """Return an address after a look at its form."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine:
        raise UsageError(f"setting {setting}: an http or https address is expected")
    return url.rstrip("/")


@dataclass(frozen=True)
class Alertmanager:
    """Prometheus Alertmanager, by its API v2: it groups, silences and routes by its own rules."""

    url: str

    @property
    def name(self) -> str:
        """Kind and place."""
        return f"alertmanager {_place(self.url)}"

    def send(self, notice: Payload) -> None:
        """Deliver a notice's entries, each as an alert of its own."""
        alerts = [as_alert(entry, notice) for entry in notice["entries"]]
        if alerts:
            body = json.dumps(alerts).encode()
            _post(self.name, f"{self.url}/api/v2/alerts", body, {"Content-Type": "application/json"})


def as_alert(entry: Payload, notice: Payload) -> dict[str, Any]:
    """Return an entry as Alertmanager takes it; labels tell alerts apart, so nothing in them changes."""
    now = datetime.now(UTC)
    fleet = notice.get("fleet") or {}
    labels = {
        "alertname": "RevealIncident",
        "host": entry["host"],
        "incident": entry["id"],
        "subsystem": entry["subsystem"],
        "severity": "critical" if entry["action"] in _SERIOUS else "warning",
        **({"cause": entry["cause"]} if entry["cause"] else {}),
        **({"fleet": fleet["id"]} if fleet else {}),
    }
    if notice["status"] == "resolved":
        ends = now
    else:
        ends = now + (RESENT_WITHIN if entry["state"] == OPEN else LEAST_FIRING)
    report = str(notice.get("report") or "")
    return {
        "labels": labels,
        "annotations": {"summary": headline(entry), "description": "\n".join(told(entry))},
        "startsAt": entry["first"],
        "endsAt": iso(ends),
        **({"generatorURL": report} if urlsplit(report).scheme in ("http", "https") else {}),
    }


@dataclass(frozen=True)
class Webhook:
    """A POST of the notice as JSON, signed where a secret is set."""

    url: str
    secret: str = ""

    @property
    def name(self) -> str:
        """Kind and place."""
        return f"webhook {_place(self.url)}"

    def send(self, notice: Payload) -> None:
        """Deliver a notice."""
        body = json.dumps({"version": SCHEMA_VERSION, **notice}, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json"}
        if self.secret:
            headers[SIGNATURE] = f"sha256={hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()}"
        _post(self.name, self.url, body, headers)


@dataclass(frozen=True)
class Notification:
    """Slack, e-mail and the like: one address of Apprise each."""

    url: str

    @property
    def name(self) -> str:
        """Its kind; the rest of the address is mostly secret."""
        return self.url.partition("://")[0]

    def send(self, notice: Payload) -> None:
        """Deliver a notice as text."""
        import apprise

        kinds = {"firing": apprise.NotifyType.WARNING, "resolved": apprise.NotifyType.SUCCESS}
        sender = apprise.Apprise()
        if not sender.add(self.url):
            raise UsageError(f"setting alerts.notify: {self.name}:// is no address that Apprise knows")
        title, body = as_text(notice)
        done = sender.notify(
            title=title,
            body=body,
            notify_type=kinds.get(notice["status"], apprise.NotifyType.INFO),
            body_format=apprise.NotifyFormat.TEXT,
            timeout=TIMEOUT_S,
        )
        if not done:
            raise UnavailableError(f"{self.name} did not take the notice")


def as_text(notice: Payload) -> tuple[str, str]:
    """Return a notice as the title and the body of a message, in plain text."""
    lines: list[str] = []
    entries: Sequence[Payload] = notice["entries"]
    fleet = notice.get("fleet")
    if fleet:
        shown = ", ".join(fleet["hosts"][:MOST_TOLD])
        more = len(fleet["hosts"]) - MOST_TOLD
        lines += [f"Hosts: {shown}" + (f" and {more} more" if more > 0 else "")]
    for entry in entries[:MOST_TOLD]:
        lines += ["", f"{entry['host']}: {headline(entry)}", *told(entry)]
    if len(entries) > MOST_TOLD:
        lines += ["", f"and {len(entries) - MOST_TOLD} more"]
    if notice.get("report"):
        lines += ["", f"Report: {notice['report']}"]
    return f"Reveal: {notice['title']}", "\n".join(lines).strip()


def headline(entry: Payload) -> str:
    """Return what an entry is, in one line."""
    return described_parts(entry["title"], entry["subsystem"], entry["metrics"])


def told(entry: Payload) -> list[str]:
    """Return what is told of an entry: when, the evidence, what to do."""
    times = "1 time" if entry["count"] == 1 else f"{entry['count']} times"
    state = "still on" if entry["state"] == OPEN else f"over at {entry['end']}"
    flapping = ", flapping" if entry["flapping"] else ""
    ran = f" Job {entry['job']}." if entry.get("job") else ""
    lines = [f"Began at {entry['first']}, came {times}{flapping}, {state}. Incident {entry['id']}.{ran}"]
    incident = entry.get("incident") or {}
    causes = incident.get("causes") or []
    if causes:
        cause = causes[0]
        lines += [f"- {sentence}" for sentence in cause["evidence"]]
        lines += [f"Note: {cause['caveat']}"] if cause.get("caveat") else []
        lines += [f"Suggested: {ACTIONS.get(entry['action'], entry['action'])}."] if entry["action"] else []
        lines += [f"What to do: {cause['fix']}"]
        lines += [f"$ {command}" for command in cause.get("commands", ())]
    elif incident:
        lines += ["No entry of the cause catalogue fits."]
    return lines


def make_channels(alerts: Mapping[str, Any]) -> list[Channel]:
    """Return the channels that settings name.

    Raises
    ------
    UsageError
        If an address is none.
    """
    channels: list[Channel] = [
        Alertmanager(_http("alerts.alertmanager", url)) for url in alerts.get("alertmanager", ())
    ]
    secret = str(alerts.get("webhook_secret") or "")
    channels += [Webhook(_http("alerts.webhooks", url), secret) for url in alerts.get("webhooks", ())]
    for url in alerts.get("notify", ()):
        if "://" not in url:
            raise UsageError("setting alerts.notify: an address of Apprise, scheme://…, is expected")
        channels.append(Notification(url))
    return channels
