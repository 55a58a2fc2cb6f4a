"""A fleet that does not exist, made from the recording of one host: many hosts of mixed hardware classes.

Every host follows the recording at a phase, with levels, rates and noise of its own, and some have a fault
whose time, place and kind are known. So one machine can try and measure what is meant for thousands. What a
fleet has in common (a job on many hosts, a switch, a time of day) is not simulated, and its hosts are more
alike than real ones: how often Reveal is right is not to be read from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from reveal_core.errors import UsageError
from reveal_core.evaluate.matching import LATE_S
from reveal_core.evaluate.replayed import Placed
from reveal_core.lab.fleet_classes import DEFAULT_CLASSES, HostClass, Place, channel_table, parse_classes
from reveal_core.lab.fleet_copies import Copied
from reveal_core.lab.fleet_donor import Donor
from reveal_core.lab.fleet_faults import SIZES, STRUCK_METRICS, narrowed, plantable, truth
from reveal_core.lab.fleet_samples import HostSamples
from reveal_core.segment import Segment

CHUNK_S = 300.0
"""So much of a host is in memory at once."""
CALM_S = 30.0
"""Healthy time before a fault and after it, within the chunk that it lies in."""
FAULT_S = (10.0, 30.0)
"""Bounds of a fault's length."""
LEAST_S = CALM_S + FAULT_S[0] + max(CALM_S, LATE_S)
"""A simulation in which a fault has room is at least this long."""


@dataclass(frozen=True)
class FleetPlan:
    """What is simulated.

    Attributes
    ----------
    hosts
        How many, spread evenly over the classes.
    start
        First sample of the main part, UTC, to within a sampling period.
    seconds
        Length of the main part.
    classes
        Hardware classes.
    faulty
        Share of the hosts that get a fault, 0 to 1; above 0 at least one does.
    seed
        Of everything random.
    channels
        Channels of a host, at most.
    segment_s
        Length of a segment.
    history_s, history_hosts
        So many hosts of each class, which get no fault, have so much telemetry before ``start`` too, to learn
        from.
    distinct
        Healthy hosts of each class whose values are their own. Further ones have the values of one of these,
        under a name, a boot and a machine id of their own: encoding is most of the work.
    """

    hosts: int
    start: datetime
    seconds: float = 300.0
    classes: tuple[HostClass, ...] = parse_classes(DEFAULT_CLASSES)
    faulty: float = 0.05
    seed: int = 0
    channels: int = 700
    segment_s: float = 60.0
    history_s: float = 0.0
    history_hosts: int = 3
    distinct: int = 24

    def __post_init__(self) -> None:
        if self.hosts < len(self.classes):
            raise UsageError(f"{self.hosts} hosts cannot be of {len(self.classes)} classes")
        if not 0.0 <= self.faulty <= 1.0:
            raise UsageError(f"a share of {self.faulty:g} hosts with a fault: it lies between 0 and 1")
        if min(self.seconds, self.segment_s) <= 0 or self.history_s < 0:
            raise UsageError("a simulation and its segments must be longer than zero")
        if self.segment_s > CHUNK_S:
            raise UsageError(f"segments of {self.segment_s:g} s are too long: at most {CHUNK_S:g} s")
        if self.faulty and self.seconds < LEAST_S:
            raise UsageError(f"{self.seconds:g} s are too short for a fault: at least {LEAST_S:g} s")
        if min(self.distinct, self.channels, self.history_hosts) < 1 or self.seed < 0:
            raise UsageError("channels, distinct and history hosts are 1 or more, the seed 0 or more")

    @property
    def learned_from(self) -> int:
        """Hosts of each class that have a history; they get no fault."""
        return self.history_hosts if self.history_s else 0


@dataclass(frozen=True)
class Member:
    """A host of the fleet.

    Attributes
    ----------
    name
        Its label.
    host_class, number
        Its class, and its number among the hosts of this class, from 0.
    fault
        What is planted; None for a healthy host.
    like
        Number of the host of its class whose values it has; None for values of its own.
    """

    name: str
    host_class: HostClass
    number: int
    fault: Placed | None = None
    like: int | None = None


class Fleet:
    """The hosts of a plan, made from a recording.

    Parameters
    ----------
    donor
        The recording.
    plan
        What is simulated.

    Attributes
    ----------
    tables
        Channels of each class.
    members
        The hosts, by class and number.

    Raises
    ------
    UsageError
        If a segment would hold no sample, or a fault is to be planted and the recording has no channel that
        any shows in, or no host is left that is not learned from.
    """

    def __init__(self, donor: Donor, plan: FleetPlan) -> None:
        if min(plan.seconds, plan.segment_s) * 1000 < donor.period_ms:
            raise UsageError(
                f"{min(plan.seconds, plan.segment_s):g} s are less than lies between two samples of "
                f"{donor.host}: {donor.period_ms / 1000:g} s"
            )
        self.donor = donor
        self.plan = plan
        self.tables: dict[HostClass, tuple[Place, ...]] = {
            one: channel_table(donor, one, plan.channels, STRUCK_METRICS) for one in plan.classes
        }
        self.members = self._members()

    def _members(self) -> tuple[Member, ...]:
        plan = self.plan
        rng = np.random.default_rng((plan.seed, plan.hosts))
        width = max(4, len(str(plan.hosts)))
        hosts = [
            Member(f"{one.name}-{number:0{width}d}", one, number)
            for place, one in enumerate(plan.classes)
            for number in range(len(range(place, plan.hosts, len(plan.classes))))
        ]
        struck = self._drawn(hosts, rng)
        members = [
            replace(host, fault=self._fault(host, rng)) if place in struck else host
            for place, host in enumerate(hosts)
        ]
        return tuple(self._like(members))

    def _drawn(self, hosts: list[Member], rng: np.random.Generator) -> set[int]:
        """Return the places of the hosts that get a fault."""
        plan = self.plan
        if not plan.faulty:
            return set()
        free = [place for place, host in enumerate(hosts) if host.number >= plan.learned_from]
        if not free:
            raise UsageError(
                f"no host is left to plant a fault on: {plan.history_hosts} of each class are learned from"
            )
        count = min(max(1, round(plan.faulty * plan.hosts)), len(free))
        return {int(place) for place in rng.choice(free, count, replace=False)}

    def _fault(self, host: Member, rng: np.random.Generator) -> Placed:
        channels = [place.column.channel for place in self.tables[host.host_class]]
        faults = plantable(channels)
        if not faults:
            raise UsageError(f"{self.donor.host} has no channel that a planted fault would show in")
        fault = narrowed(faults[int(rng.integers(len(faults)))], channels, rng)
        chunks = [chunk for chunk in self._chunks(0.0, self.plan.seconds) if chunk[1] >= LEAST_S]
        begin, length = chunks[int(rng.integers(len(chunks)))]
        room = length - 2 * CALM_S
        seconds = round(float(rng.uniform(FAULT_S[0], min(FAULT_S[1], room))), 1)
        onset = round(begin + CALM_S + float(rng.uniform(0.0, max(room - seconds, 0.0))), 1)
        size = round(float(rng.uniform(*SIZES)), 3)
        start = self.plan.start + timedelta(seconds=onset)
        return Placed(fault, start, start + timedelta(seconds=seconds), size)

    def _like(self, members: list[Member]) -> Iterator[Member]:
        """Yield the members, healthy ones beyond the distinct ones of their class with whom they are like."""
        own: dict[HostClass, list[int]] = {one: [] for one in self.plan.classes}
        for member in members:
            known = own[member.host_class]
            if member.fault is not None:
                yield member
            elif len(known) < max(self.plan.distinct, self.plan.learned_from):
                known.append(member.number)
                yield member
            else:
                yield replace(member, like=known[member.number % len(known)])

    def _chunks(self, begin: float, end: float) -> list[tuple[float, float]]:
        """Return beginning and length of each chunk of a range, s since the start, in whole segments."""
        step = CHUNK_S // self.plan.segment_s * self.plan.segment_s
        begins = np.arange(begin, end, step).tolist()
        return [(at, min(step, end - at)) for at in begins]

    @property
    def shared(self) -> int:
        """How many hosts have the values of another one."""
        return sum(member.like is not None for member in self.members)

    def faults(self) -> list[dict[str, Any]]:
        """Return the truth, in order of time, as a file of faults has it."""
        found = [
            truth(member.fault, member.name, [p.column.channel for p in self.tables[member.host_class]])
            for member in self.members
            if member.fault is not None
        ]
        return sorted(found, key=lambda fault: (fault["start"], fault["host"]))

    def facts(self, member: Member) -> dict[str, Any]:
        """Return what a host is."""
        place = self.plan.classes.index(member.host_class)
        identity = np.random.default_rng((self.plan.seed, place, member.number, 1))
        return member.host_class.facts(self.donor, member.name, identity)

    def segments(self) -> Iterator[Segment]:
        """Yield the segments of every host; those that share values follow each other."""
        alike: dict[tuple[HostClass, int], list[Member]] = {}
        for member in self.members:
            if member.like is not None:
                alike.setdefault((member.host_class, member.like), []).append(member)
        for member in self.members:
            if member.like is not None:
                continue
            others = [
                (other.name, self.facts(other)) for other in alike.get((member.host_class, member.number), ())
            ]
            for segment, main in self._own_segments(member):
                yield segment
                if others and main:
                    copied = Copied(segment)
                    for name, facts in others:
                        yield copied.as_host(name, facts["boot_id"], facts)

    def _own_segments(self, member: Member) -> Iterator[tuple[Segment, bool]]:
        """Yield a host's segments, and whether each is of the main part."""
        plan, facts = self.plan, self.facts(member)
        samples = HostSamples(
            self.donor,
            self.tables[member.host_class],
            (plan.seed, plan.classes.index(member.host_class), member.number),
        )
        start_ns = round(plan.start.timestamp() * 1e6) * 1000
        per_second = 1000 / self.donor.period_ms
        history = plan.history_s if member.number < plan.learned_from else 0.0
        step = round(plan.segment_s * per_second)
        sequence = 0
        for begin, seconds in [*self._chunks(-history, 0.0), *self._chunks(0.0, plan.seconds)]:
            first, rows = round(begin * per_second), round(seconds * per_second)
            if not rows:
                continue  # less than a sample is left of the range
            chunk = samples.chunk(first, rows)
            fault = member.fault
            if fault is not None and 0.0 <= (fault.onset - plan.start).total_seconds() - begin < seconds:
                samples.strike(chunk, start_ns, first, fault)
            for at in range(0, rows, step):
                segment = samples.segment(
                    chunk[:, at : at + step],
                    start_ns,
                    first + at,
                    host=member.name,
                    boot=facts["boot_id"],
                    sequence=sequence,
                    facts=facts,
                )
                sequence += 1
                yield segment, begin >= 0.0
