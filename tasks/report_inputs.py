"""What a report is made from, read back from the store: hosts, what they share, what became of it before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from reveal_core.errors import UnavailableError
from reveal_core.timespec import parse_time
from tasks.planning import newest_facts, read_host

if TYPE_CHECKING:
    from reveal_core.incidents import FleetIncident, History, Incident
    from reveal_core.ledger import Ledger
    from reveal_core.model import RevealModel
    from reveal_core.report.types import HostInput, SourceNote, Trend
    from reveal_core.telemetry import Series, Telemetry
    from storage.store import Store

FEW_HOSTS = 16
"""Hosts without an incident whose telemetry is read: what each collected, and peers to compare with."""
TREND_DAYS = 7
"""Days of a report's trend: what a ledger keeps at hand (`reveal_core.attribute.tracking.KEPT`)."""


def host_inputs(target: Store, scored: Sequence[Mapping[str, Any]]) -> list[HostInput]:
    """Return what a report shows of hosts that were scored.

    Of many hosts without an incident only some are read, evenly spread over their names; of the others the
    report has scores and coverage. A report on a thousand hosts must not hold a thousand hosts' telemetry.

    Raises
    ------
    UnavailableError
        If the store cannot be reached, or scores or incidents are no longer there.
    """
    found = {result["host"]: _incidents(target, result) for result in scored}
    quiet = sorted(host for host, incidents in found.items() if not incidents)
    peers = {quiet[len(quiet) * n // FEW_HOSTS] for n in range(FEW_HOSTS)} if quiet else set()
    return [
        _host_input(
            target,
            result,
            found[result["host"]],
            whole=bool(found[result["host"]]) or result["host"] in peers,
        )
        for result in scored
    ]


def _incidents(target: Store, result: Mapping[str, Any]) -> list[Incident]:
    wanted = list(result["incidents"])
    found = [incident for incident in map(target.read_incident, wanted) if incident is not None]
    if len(found) < len(wanted):
        raise UnavailableError(
            f"store {target.url}: {len(wanted) - len(found)} incidents of {result['host']} are gone"
        )
    return found


def _host_input(
    target: Store, result: Mapping[str, Any], incidents: Sequence[Incident], *, whole: bool
) -> HostInput:
    from reveal_core.method import build_series
    from reveal_core.report.types import HostInput

    host, start, end = result["host"], parse_time(result["start"]), parse_time(result["end"])
    scores = target.read_scores(result["model"], host, start, end)
    if scores is None:
        raise UnavailableError(f"store {target.url}: scores of {host} by {result['model']} are gone")
    plan = {"host": host, "start": result["start"], "end": result["end"]}
    if not whole:
        return HostInput(
            host=host,
            series=empty_series(host),
            scores=scores,
            incidents=incidents,
            facts=newest_facts(target, host, start, end),
            start=start,
            end=end,
            quarantined=[item["key"] for item in result["quarantined"]],
        )
    read = read_host(target, plan, warm_up=True)
    return HostInput(
        host=host,
        series=build_series(read.telemetry),
        scores=scores,
        incidents=incidents,
        facts=read.telemetry.facts,
        start=start,
        end=end,
        sources=source_notes(read.telemetry),
        quarantined=[item["key"] for item in result["quarantined"]],
    )


def empty_series(host: str) -> Series:
    """Return a series without samples or channels, for a host of which only scores are shown."""
    import polars as pl

    from reveal_core.telemetry import Series

    return Series(host, pl.DataFrame(schema={"ts": pl.Datetime("ns", "UTC")}), {})


def source_notes(telemetry: Telemetry) -> list[SourceNote]:
    """Return what the collector could read on a host, and why it could not read the rest."""
    from reveal_core.report.types import SourceNote

    counts = Counter(channel.source for channel in telemetry.channels.values())
    absent = (telemetry.facts.get("collector") or {}).get("unavailable") or {}
    here = [SourceNote(name, True, "", count) for name, count in sorted(counts.items())]
    return here + [
        SourceNote(name, False, reason, 0) for name, reason in sorted(absent.items()) if name not in counts
    ]


def fleet_of(hosts: Sequence[HostInput]) -> tuple[FleetIncident, ...]:
    """Return the incidents that hosts of a report share."""
    from reveal_core.attribute.fleet import fleet_incidents

    incidents = [incident for host in hosts for incident in host.incidents]
    return fleet_incidents(incidents, [host.host for host in hosts])


def histories_of(target: Store, hosts: Sequence[HostInput], ledgers: Sequence[Ledger]) -> dict[str, History]:
    """Return what became of the incidents of a report before, by incident id."""
    from reveal_core.alerts import why_quiet
    from reveal_core.labels import newest

    silences = target.silences()
    labels = newest(target.labels([host.host for host in hosts if host.incidents]))
    found: dict[str, History] = {}
    for host, ledger in zip(hosts, ledgers, strict=True):
        for incident in host.incidents:
            entry = ledger.entry_of(incident.id)
            if entry is None:
                continue  # an old stretch that was scored again: its entry is long past
            label = labels.get((host.host, entry.fingerprint))
            found[incident.id] = replace(
                entry.history(incident.id),
                label=label.verdict if label else "",
                label_why=label.why if label else "",
                silenced=why_quiet(entry, labels, silences),
            )
    return found


def trend_of(ledgers: Sequence[Ledger], budget: float, end: datetime) -> Trend | None:
    """Return incidents of each of the last days beside what was judged and what is allowed.

    None where less than two days were judged: one day is no trend.
    """
    from reveal_core.report.types import Trend

    last = end.astimezone(UTC).date()
    days = [last - timedelta(days=back) for back in range(TREND_DAYS - 1, -1, -1)]
    begins = [datetime.combine(day, time(), UTC) for day in days]
    host_days = [
        sum(ledger.judged_s(since, since + timedelta(days=1)) for ledger in ledgers) / 86400.0
        for since in begins
    ]
    if sum(share > 0 for share in host_days) < 2:
        return None
    firsts = Counter(entry.first.astimezone(UTC).date() for ledger in ledgers for entry in ledger.entries)
    return Trend(
        days=tuple(days),
        counts=tuple(firsts[day] for day in days),
        host_days=tuple(host_days),
        budget=budget,
    )


def alarm_budget(fitted: RevealModel) -> float:
    """Return the incidents per host and day that a model's settings allow."""
    from reveal_core.profiles import profile_from

    return float(profile_from(fitted.profile).alarm_budget)
