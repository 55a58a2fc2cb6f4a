"""What a report is made from, read back from the store: hosts, what they share, what became of it before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from reveal_core.errors import NoTelemetryError, UnavailableError
from reveal_core.timespec import parse_time
from tasks.planning import NEWEST, newest_facts, read_host

if TYPE_CHECKING:
    from reveal_core.incidents import FleetIncident, History, Incident
    from reveal_core.ledger import Ledger
    from reveal_core.model import RevealModel
    from reveal_core.report.types import HostInput, SourceNote, Trend
    from reveal_core.telemetry import Series, Telemetry
    from storage.store import Store

FEW_HOSTS = 16
"""Hosts without an incident whose telemetry is read, for what each collected; and of those with and of those
without so many each are peers, that incidents of all hosts are compared with."""
_SAMPLE = timedelta(seconds=1)
"""More than lies between a host's last sample and the end of a range that holds it."""
MOST_DRAWN = 200
"""Hosts with an incident whose telemetry is read, for plots of it."""
TREND_DAYS = 7
"""Days of a report's trend: what a ledger keeps at hand (`reveal_core.attribute.tracking.KEPT`)."""


def host_inputs(target: Store, scored: Sequence[Mapping[str, Any]]) -> list[HostInput]:
    """Return what a report shows of hosts that were scored.

    Of hosts that `kept_metrics` leaves out the report has scores and coverage.

    Raises
    ------
    UnavailableError
        If the store cannot be reached, or scores or incidents are no longer there.
    """
    found = {result["host"]: _incidents(target, result) for result in scored}
    kept = kept_metrics(found)
    return [_host_input(target, result, found[result["host"]], kept.get(result["host"])) for result in scored]


def kept_metrics(found: Mapping[str, Sequence[Incident]]) -> dict[str, set[str]]:
    """Return the hosts whose telemetry a report reads, and of each the metrics that it keeps.

    Of many hosts without an incident some are read, evenly spread over their names, and of very many with one
    the worst. A peer keeps the metrics that any incident speaks of, another host those of its own incidents:
    what is held must not grow as hosts times incidents on a day on which everything goes wrong.

    Parameters
    ----------
    found
        The incidents of each host.
    """
    quiet = sorted(host for host, incidents in found.items() if not incidents)
    struck = sorted((host for host in found if found[host]), key=lambda host: (-_worst(found[host]), host))
    own = {host: {m.metric for one in found[host] for m in one.metrics} for host in struck[:MOST_DRAWN]}
    every = {metric for metrics in own.values() for metric in metrics}
    spread = [quiet[len(quiet) * n // FEW_HOSTS] for n in range(FEW_HOSTS)] if quiet else []
    return own | dict.fromkeys([*spread, *struck[:FEW_HOSTS]], every)


def _worst(incidents: Sequence[Incident]) -> float:
    return max(incident.score for incident in incidents)


def _incidents(target: Store, result: Mapping[str, Any]) -> list[Incident]:
    wanted = list(result["incidents"])
    found = [incident for incident in map(target.read_incident, wanted) if incident is not None]
    if len(found) < len(wanted):
        raise UnavailableError(
            f"store {target.url}: {len(wanted) - len(found)} incidents of {result['host']} are gone"
        )
    return found


def _host_input(
    target: Store, result: Mapping[str, Any], incidents: Sequence[Incident], metrics: Collection[str] | None
) -> HostInput:
    """Return a host with the series of some metrics; without telemetry where these are None."""
    from reveal_core.method import build_series
    from reveal_core.report.model import collected_of
    from reveal_core.report.types import HostInput

    host, start, end = result["host"], parse_time(result["start"]), parse_time(result["end"])
    if result.get("silent"):
        return _silent_input(target, result, incidents, start, end)
    scores = target.read_scores(result["model"], host, start, end)
    if scores is None:
        raise UnavailableError(f"store {target.url}: scores of {host} by {result['model']} are gone")
    known = HostInput(
        host=host,
        series=empty_series(host),
        scores=scores,
        incidents=incidents,
        facts=result["facts"],
        start=start,
        end=end,
        quarantined=[item["key"] for item in result["quarantined"]],
    )
    if metrics is None:
        return known
    read = read_host(target, {"host": host, "start": result["start"], "end": result["end"]}, warm_up=True)
    series = build_series(read.telemetry)
    sources = source_notes(read.telemetry)
    return replace(
        known,
        series=_part_of(series, metrics),
        sources=sources,
        collected=collected_of(series, sources, start, end),
    )


def _part_of(series: Series, metrics: Collection[str]) -> Series:
    """Return the channels of some metrics; of none, one channel, so that the host counts as read."""
    names = [name for name, channel in series.channels.items() if channel.metric in metrics]
    channels = {name: series.channels[name] for name in names or list(series.channels)[:1]}
    return replace(series, frame=series.frame.select("ts", *channels), channels=channels)


def _silent_input(
    target: Store, result: Mapping[str, Any], incidents: Sequence[Incident], start: datetime, end: datetime
) -> HostInput:
    """Return what a report shows of a host from which nothing came: that, and what it was."""
    from reveal_core.report.types import HostInput
    from reveal_core.scores import empty_scores

    host, last = result["host"], parse_time(result["last"])
    try:
        facts = newest_facts(target, host, last - NEWEST, last + _SAMPLE)
    except NoTelemetryError:  # what it was has been removed meanwhile
        facts = {}
    return HostInput(
        host=host,
        series=empty_series(host),
        scores=empty_scores(host),
        incidents=incidents,
        facts=facts,
        start=start,
        end=end,
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
