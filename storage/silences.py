"""Silences and labels at rest: a small file for each silence, and one for each host's labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from pydantic import TypeAdapter

from reveal_core.labels import Label
from reveal_core.silences import Silence
from storage.backend import Backend
from storage.documents import to_json
from storage.layout import LABELS, SILENCES, labels_key, parse_host_part, silence_key, unquote_name
from storage.typed import read_typed


@cache
def _silence() -> TypeAdapter[Silence]:
    return TypeAdapter(Silence)


@cache
def _labels() -> TypeAdapter[tuple[Label, ...]]:
    return TypeAdapter(tuple[Label, ...])


def put_silence(backend: Backend, silence: Silence) -> str:
    """Store a silence, replacing one of the same id; return its key."""
    key = silence_key(silence.id)
    backend.write(key, to_json(silence.to_dict()))
    return key


def read_silences(backend: Backend) -> list[Silence]:
    """Return every silence, past ones too, by start."""
    names = [name for name in backend.names(SILENCES) if name.endswith(".json")]
    keys = [f"{SILENCES}/{n}" for n in names if unquote_name(n.removesuffix(".json")) is not None]
    found = backend.each(lambda key: read_typed(backend, key, _silence()), keys)
    return sorted((s for s in found if s is not None), key=lambda silence: (silence.start, silence.id))


def put_label(backend: Backend, label: Label) -> str:
    """Store what a person said of an incident, in place of what was said of it before; return the key."""
    key = labels_key(label.host)
    known = {other.incident: other for other in read_typed(backend, key, _labels()) or ()}
    known[label.incident] = label
    ordered = sorted(known.values(), key=lambda other: (other.at, other.incident))
    backend.write(key, to_json([other.to_dict() for other in ordered]))
    return key


def label_hosts(backend: Backend) -> list[str]:
    """Return the hosts of whose incidents people said something, sorted."""
    names = [name for name in backend.names(LABELS) if name.endswith(".json")]
    return sorted(h for h in (parse_host_part(n.removesuffix(".json")) for n in names) if h is not None)


def read_labels(backend: Backend, hosts: Sequence[str]) -> list[Label]:
    """Return what was said of the incidents of hosts, in the order in which it was said."""
    found = backend.each(lambda host: read_typed(backend, labels_key(host), _labels()) or (), hosts)
    return sorted((label for labels in found for label in labels), key=lambda label: label.at)
