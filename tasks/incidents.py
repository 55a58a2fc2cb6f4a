"""What is known of incidents, from the ledgers, and what people say of them."""

from __future__ import annotations

import getpass
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.incidents import OPEN, iso
from reveal_core.labels import VERDICTS, Label, newest
from reveal_core.timespec import parse_time

if TYPE_CHECKING:
    from reveal_core.ledger import Entry
    from storage.store import Store


def list_incidents(
    store: str, *, host: str, start: str | None, end: str | None, only_open: bool
) -> list[dict[str, Any]]:
    """Return the incidents of hosts that touch a range, the newest first.

    Parameters
    ----------
    store
        Root of the store.
    host
        A host's label, or a shell pattern.
    start, end
        The range; without bounds where None.
    only_open
        Whether to leave out those that are over.

    Returns
    -------
    list of dict
        Fields of `reveal_core.ledger.Entry`, and ``label``, ``label_why`` and ``silenced``.

    Raises
    ------
    UsageError
        If a time cannot be read.
    UnavailableError
        If the store cannot be reached.
    """
    source = _open(store)
    hosts = [name for name in source.ledger_hosts() if fnmatchcase(name, host)]
    since, until = _time(start), _time(end)
    entries = source.read_entries(hosts, since, until)
    shown = [entry for entry in entries if not only_open or entry.state == OPEN]
    return _told_of(source, sorted(shown, key=lambda entry: (entry.end, entry.id), reverse=True))


def show_incident(store: str, incident: str) -> dict[str, Any]:
    """Return all that is known of an incident.

    Returns
    -------
    dict
        Fields of the contract's incident, and ``history``: its entry as `list_incidents` returns it, None
        where no run of scoring made it.

    Raises
    ------
    UsageError
        If there is no such incident.
    """
    source = _open(store)
    found = source.read_incident(incident)
    if found is None:
        raise UsageError(f"store {store} has no incident {incident!r}")
    entry = _entry_of(source, found.host, incident)
    return {**found.to_dict(), "history": _told_of(source, [entry])[0] if entry is not None else None}


def label_incident(store: str, incident: str, *, verdict: str, why: str) -> dict[str, Any]:
    """Keep what a person says of an incident.

    Parameters
    ----------
    store
        Root of the store.
    incident
        Its id; of any of its comings.
    verdict
        One of `reveal_core.labels.VERDICTS`.
    why
        The reason, for whoever asks later.

    Returns
    -------
    dict
        The label.

    Raises
    ------
    UsageError
        If there is no such incident or verdict.
    UnavailableError
        If the store cannot be reached or written.
    """
    if verdict not in VERDICTS:
        raise UsageError(f"an incident is {', '.join(VERDICTS[:-1])} or {VERDICTS[-1]}, not {verdict!r}")
    target = _open(store, write=True)
    found = target.read_incident(incident)
    if found is None:
        raise UsageError(f"store {store} has no incident {incident!r}")
    entry = _entry_of(target, found.host, incident)
    label = Label(
        host=found.host,
        incident=entry.id if entry is not None else found.id,
        fingerprint=entry.fingerprint if entry is not None else found.fingerprint,
        verdict=verdict,  # type: ignore[arg-type]  # one of VERDICTS, looked at above
        start=entry.first if entry is not None else found.start,
        end=entry.end if entry is not None else found.end,
        subsystem=entry.subsystem if entry is not None else found.subsystem,
        cause=entry.cause if entry is not None else found.cause,
        by=getpass.getuser(),
        at=datetime.now(UTC),
        why=why,
    )
    target.put_label(label)
    return label.to_dict()


def summarise(store: str, *, host: str, start: str | None, end: str | None) -> dict[str, Any]:
    """Return how many incidents there were and how many of them people found to be right.

    Returns
    -------
    dict
        ``hosts``, ``host_days`` (judged), ``incidents``, ``per_host_day``; ``labelled`` (how many by
        verdict), ``precision`` (real and known ones of all labelled, None without any),
        ``false_per_host_day``, and ``causes``: for each cause how many, and how many by verdict. A number
        that cannot be told is None.
    """
    source = _open(store)
    hosts = [name for name in source.ledger_hosts() if fnmatchcase(name, host)]
    since, until = _time(start), _time(end)
    ledgers = source.ledgers(hosts)
    low = since or datetime.min.replace(tzinfo=UTC)
    high = until or datetime.max.replace(tzinfo=UTC)
    host_days = sum(ledger.judged_s(low, high) for ledger in ledgers) / 86400.0
    entries = [e for e in source.read_entries(hosts, since, until) if low <= e.first < high]
    labels = {(label.host, label.incident): label.verdict for label in source.labels(hosts)}
    verdicts = [labels.get((entry.host, entry.id), "") for entry in entries]
    counts = Counter(verdicts)
    labelled = {verdict: counts[verdict] for verdict in VERDICTS}
    total = sum(labelled.values())
    causes: dict[str, Counter[str]] = {}
    for entry, verdict in zip(entries, verdicts, strict=True):
        causes.setdefault(entry.cause, Counter())[verdict] += 1
    return {
        "hosts": len(hosts),
        "host_days": host_days,
        "incidents": len(entries),
        "per_host_day": len(entries) / host_days if host_days else None,
        "labelled": labelled,
        "precision": (labelled["real"] + labelled["known"]) / total if total else None,
        "false_per_host_day": labelled["false"] / host_days if host_days else None,
        "causes": [
            {
                "cause": cause,
                "incidents": sum(found.values()),
                **{verdict: found[verdict] for verdict in VERDICTS},
            }
            for cause, found in sorted(causes.items(), key=lambda item: (-sum(item[1].values()), item[0]))
        ],
    }


def write_truth(store: str, path: Path, *, host: str) -> int:
    """Write what people called real as a file of faults, as ``reveal compare --faults`` takes it.

    Returns
    -------
    int
        How many faults it holds.

    Raises
    ------
    UsageError
        If nobody has called an incident real.
    UnavailableError
        If the file cannot be written.
    """
    labels = [
        label for label in _open(store).labels() if label.verdict == "real" and fnmatchcase(label.host, host)
    ]
    if not labels:
        raise UsageError(f"no incident of {host!r} in store {store} is labelled real")
    faults = [
        {
            "name": label.cause or label.incident,
            "subsystem": label.subsystem,
            "start": iso(label.start),
            "end": iso(label.end),
            "causes": [label.cause] if label.cause else [],
            "host": label.host,
        }
        for label in sorted(labels, key=lambda label: (label.start, label.host))
    ]
    try:
        path.write_text(json.dumps(faults, indent=1), encoding="utf-8")
    except OSError as error:
        raise UnavailableError(f"{path} cannot be written: {error.strerror}") from error
    return len(faults)


def _open(store: str, *, write: bool = False) -> Store:
    from storage.store import Store

    source = Store(store)
    source.check(write=write)
    return source


def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text is not None else None


def _entry_of(source: Store, host: str, incident: str) -> Entry | None:
    return next((entry for entry in source.read_entries([host]) if entry.has(incident)), None)


def _told_of(source: Store, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return entries as plain values, with what people said and whether anybody is told."""
    from reveal_core.alerts import why_quiet

    silences = source.silences()
    labels = newest(source.labels(sorted({entry.host for entry in entries})))
    rows = []
    for entry in entries:
        label = labels.get((entry.host, entry.fingerprint))
        rows.append(
            {
                **entry.to_dict(),
                "label": label.verdict if label else "",
                "label_why": label.why if label else "",
                "silenced": why_quiet(entry, labels, silences),
            }
        )
    return rows
