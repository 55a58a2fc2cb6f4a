"""The stages of judging what is new: what has arrived, which hosts are silent, what is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from reveal_core.arrivals import NewStretch, Watermark, new_stretches
from reveal_core.errors import NoTelemetryError, UsageError
from reveal_core.incidents import iso
from reveal_core.timespec import parse_time
from tasks.planning import NEWEST, hardware_class, iso_end, newest_facts

if TYPE_CHECKING:
    from storage.store import Store

AHEAD = timedelta(minutes=5)
"""A host's clock may be so far ahead of ours."""


def plan_arrivals(
    store: str,
    *,
    host: str,
    reach_s: float,
    silent_s: float,
    forget_s: float,
    now: str | None = None,
) -> dict[str, Any]:
    """Looking for new telemetry.

    Parameters
    ----------
    store
        Root of the store.
    host
        A host's label, or a shell pattern over labels.
    reach_s
        How far back segments are looked for, s: one that arrives later is not judged.
    silent_s
        A host whose newest sample is older is silent, s.
    forget_s
        A host that has been silent for longer is not waited for any longer, s.
    now
        ISO 8601; the present if not given.

    Returns
    -------
    dict
        ``now``; ``rounds``: lists of plans to be judged one after another, each with at most one plan for a
        host (``host``, ``start``, ``end``, ``precedes``, ``follows``, ``segments``, and ``hardware_class``
        where it is known), the newest telemetry of every host in the last; ``silent`` and ``forgotten``:
        hosts (``host``, ``last``) without telemetry; ``hosts``: how many are known.

    Raises
    ------
    UsageError
        If the store holds no telemetry and never did, or none of such a host.
    UnavailableError
        If the store cannot be reached.
    """
    from storage.store import Store

    source = Store(store)
    source.check()
    until = parse_time(now) if now is not None else datetime.now(UTC)
    marks = source.watermarks()
    found = source.arrivals(host, until - timedelta(seconds=reach_s), until + AHEAD, marks)
    known = sorted({*found, *(name for name in marks if fnmatchcase(name, host))})
    if not known:
        _say_why_nothing(source, store, host, reach_s)
    stretches = {name: new_stretches(arrivals, NEWEST) for name, arrivals in found.items()}
    silent, forgotten = [], []
    for name in known:
        last = _last(stretches.get(name, ()), marks.get(name))
        quiet_s = (until - last).total_seconds()
        if quiet_s > forget_s:
            forgotten.append({"host": name, "last": iso(last)})
        elif quiet_s > silent_s:
            silent.append({"host": name, "last": iso(last)})
    return {
        "now": iso(until),
        "rounds": _rounds(stretches),
        "silent": silent,
        "forgotten": forgotten,
        "hosts": len(known),
    }


def _say_why_nothing(source: Store, store: str, host: str, reach_s: float) -> None:
    names = source.hosts()
    if not names:
        raise UsageError(
            f"store {store} holds no telemetry yet: reveal collect --store {store} puts some there"
        )
    if not any(fnmatchcase(name, host) for name in names):
        raise UsageError(f"no host {host!r} in store {store}: it holds {', '.join(names[:8])}")
    raise UsageError(
        f"no telemetry of {host!r} in store {store} is of the last {reach_s / 60:g} minutes: "
        "reveal score --start and --end judge what is older"
    )


def _last(stretches: Sequence[NewStretch], mark: Watermark | None) -> datetime:
    """Return the time of a host's newest sample, as far as it was looked at."""
    times = [stretch.end for stretch in stretches] + ([mark.until] if mark is not None else [])
    return max(times)


def _rounds(stretches: Mapping[str, Sequence[NewStretch]]) -> list[list[dict[str, Any]]]:
    """Return plans by round: of each host in order of time, and of all hosts the newest in the last."""
    count = max(map(len, stretches.values()), default=0)
    rounds: list[list[dict[str, Any]]] = [[] for _ in range(count)]
    for host, parts in stretches.items():
        for number, part in enumerate(parts, count - len(parts)):
            rounds[number].append(_plan(host, part))
    return rounds


def _plan(host: str, part: NewStretch) -> dict[str, Any]:
    segments = [[boot, number, iso(start), iso_end(end)] for boot, number, start, end in part.segments]
    plan = {
        "host": host,
        "start": iso(part.start),
        "end": iso_end(part.end),
        "precedes": part.precedes,
        "follows": part.follows,
        "segments": segments,
    }
    if part.facts is not None:  # read already: the class need not be looked up again
        plan["hardware_class"] = hardware_class(part.facts)
    return plan


def note_silent(
    store: str,
    *,
    silent: list[dict[str, str]],
    forgotten: list[dict[str, str]],
    silent_s: float,
    now: str,
) -> list[dict[str, Any]]:
    """Noting silent hosts.

    Parameters
    ----------
    store
        Root of the store.
    silent, forgotten, now
        From `plan_arrivals`.
    silent_s
        As `plan_arrivals` takes it.

    Returns
    -------
    list of dict
        Of each silent host what `tasks.scoring.score_hosts` returns of one that was scored, with ``silent``,
        ``last`` (time of its last sample) and ``hardware_class``, ``""`` where its telemetry is gone.

    Raises
    ------
    UnavailableError
        If the store cannot be reached or written.
    """
    from reveal_core.attribute.silence import end_silence, note_silence, silent_incident
    from storage.store import Store

    target = Store(store)
    until = parse_time(now)
    results = []
    for item in silent:
        host, last = item["host"], parse_time(item["last"])
        incident = silent_incident(host, last, until, patience_s=silent_s)
        target.put_incident(incident)
        before = target.ledger(host)
        after = note_silence(before, incident)
        if after != before:
            target.put_ledger(after)
        results.append(
            {
                "host": host,
                "start": iso(max(last, until - NEWEST)),
                "end": now,
                "last": item["last"],
                "model": "",
                "windows": 0,
                "incidents": [incident.id],
                "quarantined": [],
                "notes": [],
                "regime": None,
                "skipped": "",
                "silent": True,
                "hardware_class": _class_of(target, host, last),
            }
        )
    for item in forgotten:
        before = target.ledger(item["host"])
        after = end_silence(before, until)
        if after != before:
            target.put_ledger(after)
    return results


def _class_of(target: Store, host: str, last: datetime) -> str:
    try:
        return hardware_class(newest_facts(target, host, last - NEWEST, last + timedelta(seconds=1)))
    except NoTelemetryError:
        return ""


def commit_arrivals(
    store: str, *, plans: list[dict[str, Any]], forgotten: Sequence[Mapping[str, str]] = ()
) -> int:
    """Noting what was judged.

    Called once a report says what came of it: whoever is killed before has it judged again by the next run,
    which changes nothing.

    Parameters
    ----------
    store
        Root of the store.
    plans
        From `plan_arrivals`, of the hosts that were judged.
    forgotten
        Hosts that are not waited for any longer.

    Returns
    -------
    int
        Of how many segments it is noted.

    Raises
    ------
    UnavailableError
        If the store cannot be reached or written.
    """
    from storage.store import Store

    target = Store(store)
    marks = dict(target.watermarks())
    noted = 0
    for plan in plans:
        segments = [
            (boot, int(number), parse_time(start), parse_time(end))
            for boot, number, start, end in plan["segments"]
        ]
        mark = marks.get(plan["host"]) or Watermark(segments[0][2])
        marks[plan["host"]] = mark.after(segments)
        noted += len(segments)
    for item in forgotten:
        marks.pop(item["host"], None)
    if plans or forgotten:
        target.put_watermarks(marks)
    return noted


def judged_plan(plan: Mapping[str, Any], window_s: float) -> dict[str, Any]:
    """Return a plan whose range holds every window that new telemetry is in.

    A window that reaches into what is new from before, or that was judged when only what follows was there,
    is judged again with all of it. A plan of a range that somebody asked for stays as it is.
    """
    if "follows" not in plan:
        return dict(plan)
    width, none = timedelta(seconds=window_s), timedelta(0)
    start = parse_time(plan["start"]) - (width if plan["precedes"] else none)
    end = parse_time(plan["end"]) + (width if plan["follows"] else none)
    return {**plan, "start": iso(start), "end": iso_end(end)}


def judged_runs(starts: Sequence[datetime], ends: Sequence[datetime]) -> Iterable[tuple[datetime, datetime]]:
    """Yield the stretches that windows cover without a hole, given where they start and end, in order."""
    begin = until = None
    for start, end in zip(starts, ends, strict=True):
        if begin is None or until is None or start >= until:
            if begin is not None and until is not None:
                yield begin, until
            begin = start
        until = end
    if begin is not None and until is not None:
        yield begin, until
