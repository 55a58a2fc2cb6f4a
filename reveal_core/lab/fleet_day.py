"""The hours before a simulated fleet's telemetry: as many places as in a day, with little in each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta

import numpy as np

from reveal_core.lab.fleet import Fleet, Member
from reveal_core.lab.fleet_copies import Copied
from reveal_core.lab.fleet_samples import HostSamples
from reveal_core.segment import Segment

SECONDS = 1.0
"""Length of each of these segments, or one sample where these are further apart."""


def sparse_hours(fleet: Fleet, hours: int) -> Iterator[Segment]:
    """Yield a short segment of every host for each of the hours before a fleet's telemetry.

    A store that holds them has the folders and the names of one that was written to all the time, which is
    what a reader lists; only what lies in them is small. They are of an earlier boot, and all hosts of a
    class have the same values.

    Parameters
    ----------
    fleet
        The fleet.
    hours
        How many hours, back from the one in which its telemetry, with the history, begins.
    """
    plan, donor = fleet.plan, fleet.donor
    begin = plan.start - timedelta(seconds=plan.history_s)
    first = begin.replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours)
    start_ns = round(plan.start.timestamp() * 1e6) * 1000
    per_second = 1000 / donor.period_ms
    for place, (host_class, table) in enumerate(fleet.tables.items()):
        members = [member for member in fleet.members if member.host_class == host_class]
        known = [(member.name, _boot(fleet, place, member), fleet.facts(member)) for member in members]
        samples = HostSamples(donor, table, (plan.seed, place, 0, 2))
        for hour in range(hours):
            since = (first + timedelta(hours=hour) - plan.start).total_seconds()
            row, rows = round(since * per_second), max(1, round(SECONDS * per_second))
            name, boot, facts = known[0]
            segment = samples.segment(
                samples.chunk(row, rows),
                start_ns,
                row,
                host=name,
                boot=boot,
                sequence=hour,
                facts={**facts, "boot_id": boot},
            )
            yield segment
            copied = Copied(segment)
            for name, boot, facts in known[1:]:
                yield copied.as_host(name, boot, {**facts, "boot_id": boot})


def _boot(fleet: Fleet, place: int, member: Member) -> str:
    """Return the identity of a host's earlier boot."""
    identity = np.random.default_rng((fleet.plan.seed, place, member.number, 3))
    return str(uuid.UUID(bytes=identity.bytes(16)))
