"""Healthy windows to learn from, of any length of history in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from reveal_core.errors import NoTelemetryError, UsageError
from reveal_core.incidents import iso
from reveal_core.timespec import parse_time
from tasks.planning import read_host

if TYPE_CHECKING:
    from reveal_core.incidents import Incident
    from reveal_core.profiles import Profile
    from reveal_core.windows import Windows
    from storage.store import Store

PIECE = timedelta(minutes=10)
"""Read at once: long enough for several cycles of a job, short enough for memory."""
MOST_WINDOWS = 21_600
"""Six hours at a window a second, over all hosts of a class: what is learned from in a few hundred MiB."""

MOST_HOSTS = 36
"""Of a class with more some are drawn: as many as give a whole piece each."""

Plan = Mapping[str, str]
P = TypeVar("P")


def healthy_windows(
    source: Store,
    plans: Sequence[Plan],
    profile: Profile,
    *,
    seed: int,
    without_incidents: bool,
    most: int = MOST_WINDOWS,
) -> tuple[list[Windows], dict[str, str]]:
    """Return windows of hosts to learn from, piece by piece in order of time, host after host.

    Parameters
    ----------
    source, plans
        The store, and host and range of each, from `tasks.planning`.
    profile
        Settings of the method.
    seed
        Of where pieces lie in a history that is too long to be taken whole.
    without_incidents
        Whether to leave out windows that lie in incidents of the store, but in those of a kind that a person
        called false.
    most
        About how many windows at most, over all hosts.

    Returns
    -------
    windows : list of Windows
        Of a history of at most ``most`` windows over all hosts everything. Of a longer one, days or weeks,
        pieces of `PIECE` spread evenly over it, each at a random place of its stretch, so that every hour of
        the day has its share.
    left_out : dict of str to str
        Hosts that nothing can be learned from, and why: they have no telemetry in their range, or most of it
        lies in incidents. There are as many others at least.

    Raises
    ------
    UsageError
        If nothing can be learned from more than half of the hosts: then somebody has to say which time was
        healthy.
    UnavailableError
        If the store cannot be reached.
    """
    share = max(1, most // len(plans))
    found: list[Windows] = []
    left_out: dict[str, str] = {}
    failures: list[UsageError] = []
    for number, plan in enumerate(plans):
        rng = np.random.default_rng((seed, number))
        try:
            found += list(_of_host(source, plan, profile, share, rng, without_incidents))
        except UsageError as error:
            failures.append(error)
            left_out[plan["host"]] = str(error)
    if 2 * len(failures) > len(plans):
        raise failures[0]
    return found, left_out


def sample_hosts(plans: Sequence[P], seed: int, most: int = MOST_HOSTS) -> list[P]:
    """Return the hosts to look at for their class: all, or ``most`` drawn with the seed, in order."""
    if len(plans) <= most:
        return list(plans)
    chosen = np.random.default_rng(seed).choice(len(plans), most, replace=False)
    return [plans[place] for place in sorted(chosen.tolist())]


def _of_host(
    source: Store,
    plan: Plan,
    profile: Profile,
    most: int,
    rng: np.random.Generator,
    without_incidents: bool,
) -> Iterator[Windows]:
    from reveal_core.method import build_series, build_windows

    start, end = parse_time(plan["start"]), parse_time(plan["end"])
    incidents = _troubles(source, plan["host"], start, end) if without_incidents else []
    seen = left = 0
    nothing: NoTelemetryError | None = None
    for since, until in pieces(start, end, timedelta(seconds=most * profile.stride_s), rng):
        piece = {"host": plan["host"], "start": iso(since), "end": iso(until)}
        try:
            telemetry = read_host(source, piece, warm_up=since > start).telemetry
        except NoTelemetryError as error:
            nothing = error  # the host was off for a while
            continue
        windows = build_windows(build_series(telemetry), profile, since, until)
        frame = windows.frame.filter(windows.frame["coverage"] > 0.0)
        seen += frame.height
        for incident in incidents:
            frame = frame.filter((frame["end"] <= incident.start) | (frame["start"] >= incident.end))
        left += frame.height
        if frame.height:
            yield replace(windows, frame=frame)
    if not seen and nothing is not None:
        raise nothing
    if 2 * left < seen:
        raise UsageError(
            f"{seen - left} of {seen} windows of {plan['host']} from {plan['start']} to {plan['end']} lie in "
            "incidents: say which time was healthy with reveal fit"
        )


def _troubles(source: Store, host: str, start: datetime, end: datetime) -> list[Incident]:
    """Return a host's incidents but those that a person called false: what raised them is healthy."""
    from reveal_core.labels import newest

    labels = newest(source.labels([host])).values()
    false = {label.fingerprint for label in labels if label.verdict == "false"}
    return [i for i in source.read_incidents(start, end, host) if i.fingerprint not in false]


def pieces(
    start: datetime, end: datetime, most: timedelta, rng: np.random.Generator
) -> list[tuple[datetime, datetime]]:
    """Return the pieces of a history to read, in order of time; together at most about ``most``.

    A history that is short enough is cut into pieces without gaps. A longer one is cut into as many equal
    stretches as there may be pieces, and each gives one piece from a random place of it, on whole seconds.
    """
    whole = end - start
    if whole <= most:
        count = max(1, -(-whole // PIECE))
        edges = [start + PIECE * number for number in range(count)]
        return list(zip(edges, [*edges[1:], end], strict=True))
    stretch = whole / max(1, most // PIECE)
    found = []
    for number in range(max(1, most // PIECE)):
        room = max(0.0, (stretch - PIECE).total_seconds())
        begin = start + stretch * number + timedelta(seconds=int(rng.uniform(0.0, room)))
        found.append((begin, min(begin + PIECE, end)))
    return found
