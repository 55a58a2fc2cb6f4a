"""What a report says in words: headlines and names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from itertools import zip_longest

from reveal_core.formatting import counted, format_band, format_range, format_time, format_value
from reveal_core.incidents import OPEN, STRAGGLER, FleetIncident, Incident, MetricEvidence
from reveal_core.report.types import HostReport
from reveal_core.titles import NOUNS, lower_first
from reveal_core.titles import metric_title as metric_title

SUBSYSTEM_NAMES = {"cpu": "CPU", "gpu": "GPU", "memory": "memory", "network": "network", "storage": "storage"}
LITTLE_COVERAGE = 0.9
"""Below this share of samples, "nothing unusual" is said with its coverage."""
_NAMESPACED = ("tcp", "tcpext", "udp", "udplite", "ip", "ipext", "icmp", "sockstat")
_PARTS = {"mean": "mean over instances", "imbalance": "highest above the mean"}
_CORES = ("cpu", "sched", "softirq", "softnet", "irq")


def subsystem_name(subsystem: str) -> str:
    """Return a subsystem as it stands within a sentence: ``CPU``, ``network``."""
    return SUBSYSTEM_NAMES.get(subsystem, subsystem)


def instance_noun(metric: str) -> str:
    """Return what an instance of a metric is: ``core``, ``GPU``, ``disk``; ``instance`` where it has no name.

    >>> instance_noun("cpu.busy"), instance_noun("ib.rate"), instance_noun("irq.device")
    ('core', 'port', 'instance')
    """
    return NOUNS.get(metric.partition(".")[0], "instance")


def instance_phrase(metric: str, instance: str) -> str:
    """Return where a metric was measured, as the end of a phrase; ``""`` where it has no instance.

    Examples
    --------
    >>> instance_phrase("tcp.RetransSegs", "reveal-lab"), instance_phrase("irq.device", "virtio1-req.0:cpu0")
    ('of namespace reveal-lab', 'of virtio1-req.0 on cpu0')
    """
    if not instance:
        return ""
    family = metric.partition(".")[0]
    holder, colon, part = instance.rpartition(":")
    if family in _CORES:
        return f"of {holder} on {part}" if colon else f"on {instance}"
    if family in _NAMESPACED:
        return "of the host's own namespace" if instance == "host" else f"of namespace {instance}"
    if family == "net":
        return f"on interface {part} in namespace {holder}" if colon else f"on interface {instance}"
    if family == "cgroup":
        return f"of cgroup {instance}"
    if family == "disk":
        return f"on disk {instance}"
    return f"on {instance}" if family == "numa" else f"of {instance}"


def incident_headline(incident: Incident) -> str:
    """Return what an incident's foremost metric did, as a sentence with units.

    The foremost is the first of the incident's own subsystem, of any where none is; among the first three,
    one whose plain value moved goes before a mean, an imbalance or a spread, which say less to a person. Of a
    host that is out of step with its peers it is said how it stands among them.
    """
    if incident.cause == STRAGGLER and incident.causes[0].evidence:
        return incident.causes[0].evidence[0].partition(": ")[0]
    own = [metric for metric in incident.metrics if metric.subsystem == incident.subsystem]
    foremost = (own or list(incident.metrics))[:3]
    if not foremost:
        return f"Unusual {subsystem_name(incident.subsystem)} activity; no single metric stands out"
    return metric_sentence(next((metric for metric in foremost if not quantity(metric)), foremost[0]))


def quantity(metric: MetricEvidence) -> str:
    """Return what of a metric moved where it is not the plain value of its instance, such as ``spread``."""
    part = _PARTS.get(metric.part, "")
    statistic = "" if metric.statistic == "level" else metric.statistic
    return ", ".join(word for word in (statistic, part) if word)


def metric_sentence(metric: MetricEvidence) -> str:
    """Return what a metric did: ``… rose to 310 /s (normal 0 to 2 /s)``."""
    where = instance_phrase(metric.metric, metric.instance)
    if metric.part == "mean":
        where = f"over all instances{', most ' + where if where else ''},"
    elif metric.part == "imbalance":
        where = f"{where} above the mean".lstrip()
    title = metric_title(metric.metric)
    words = [metric.statistic.capitalize(), "of", lower_first(title)]
    subject = " ".join(filter(None, [*(words if metric.statistic != "level" else [title]), where]))
    verb = "fell" if metric.direction == "down" else "rose"
    band = format_band(metric.normal_low, metric.normal_high, metric.unit)
    return f"{subject} {verb} to {format_value(metric.value, metric.unit)} (normal {band})"


def report_headline(
    hosts: Sequence[HostReport], start: datetime, end: datetime, fleet: Sequence[FleetIncident] = ()
) -> str:
    """Return what a report says, in one plain sentence."""
    place = f"on {hosts[0].host}" if len(hosts) == 1 else f"on {counted(len(hosts), 'host')}"
    span = format_range(start, end)
    incidents = sorted((i for host in hosts for i in host.incidents), key=lambda i: i.number)
    windows = sum(host.windows for host in hosts)
    if not incidents:
        if not windows:
            return f"Nothing could be judged {place}: no telemetry from {span}"
        seen = sum((host.coverage or 0.0) * host.windows for host in hosts) / windows
        silent = sum(not host.windows for host in hosts)
        limits = [f"with {100 * seen:.0f} % of the telemetry there"] if seen < LITTLE_COVERAGE else []
        limits += [f"with no telemetry of {silent} of them"] if silent else []
        return f"Nothing unusual {place} from {span}" + (f", {' and '.join(limits)}" if limits else "")
    struck = {i.incident.host for i in incidents}
    if len(hosts) > 1:
        place = (
            f"on {next(iter(struck))}" if len(struck) == 1 else f"on {len(struck)} of {len(hosts):,} hosts"
        )
    first = incidents[0].incident
    where = f" on {first.host}" if len(struck) > 1 else ""
    fault = f"{_article(subsystem_name(first.subsystem))} {subsystem_name(first.subsystem)} fault"
    if len(incidents) == 1:
        cause = f", most likely {lower_first(first.causes[0].title)}" if first.causes else ""
        still = ", still open" if first.state == OPEN else ""
        return f"1 incident {place} at {format_time(first.start, day=True)} UTC: {fault}{cause}{still}"
    if fleet:
        widest = max(fleet, key=lambda shared: len(shared.hosts))
        told = f"{lower_first(widest.title)} on {fleet_place(widest)}"
    else:
        told = f"first {fault}{where} at {format_time(first.start)}"
    still_open = sum(i.incident.state == OPEN for i in incidents)
    return (
        f"{counted(len(incidents), 'incident')} {place} between {_span_of(incidents_span(hosts))}: {told}"
        + (f"; {still_open} still open" if still_open else "")
    )


def fleet_place(shared: FleetIncident) -> str:
    """Return where an incident of the fleet is: ``14 hosts of rack-7-*``."""
    return counted(len(shared.hosts), "host") + (f" of {shared.where}" if shared.where else "")


def incidents_span(hosts: Sequence[HostReport]) -> tuple[datetime, datetime]:
    """Return when the first incident begins and the last ends."""
    found = [i.incident for host in hosts for i in host.incidents]
    return min(i.start for i in found), max(i.end for i in found)


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts names as people do.

    >>> sorted(["cpu10", "cpu2", "node-1"], key=natural)
    ['cpu2', 'cpu10', 'node-1']
    """
    words = re.split("[0-9]+", name)
    # Of numbers without leading zeros the longer is the larger, however long they are.
    numbers = [part.lstrip("0") for part in re.findall("[0-9]+", name)]
    pairs = zip_longest(words, numbers, fillvalue="")
    return tuple(key for word, number in pairs for key in ((0, word), (len(number), number)))


def _span_of(span: tuple[datetime, datetime]) -> str:
    start, end = span
    days = start.date() != end.date()
    if not days and (end - start).total_seconds() >= 60:
        return f"{start:%H:%M} and {end:%H:%M} UTC"
    return f"{format_time(start, day=days)} and {format_time(end, day=days)} UTC"


def _article(noun: str) -> str:
    return "an" if noun[:1].lower() in "aeiou" else "a"
