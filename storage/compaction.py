"""Compaction: small segments that follow each other become one file, which reads as they did.

A merged file tells which of its rows are those of which segment, so it is taken apart again when it is read,
and a segment that lies there twice for a while is read once. It is written before what it holds is removed,
and a file is removed only when another one holds all of it and more. So a kill at any moment, a second
maintenance, or a segment that comes late or once more, costs no sample and shows none twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from reveal_core.channels import Channel
from reveal_core.collect.segments import encode_table
from reveal_core.segment import PARTS_KEY, Identity, SegmentPart, encode_metadata, encode_parts
from storage.backend import Backend
from storage.decode import TIME_COLUMNS, DecodedFile, DecodedSegment, decode_file, to_ns
from storage.files import files_below
from storage.layout import (
    LONGEST_SEGMENT,
    SegmentName,
    floor_hour,
    host_folder,
    parse_segment_key,
    segment_key,
)
from storage.rewriting import Rewritten, StoredSegment, loaded, stored_segments

SPAN = timedelta(minutes=15)
"""Segments that begin in the same quarter of an hour become one file: few files, and ten minutes of a host
are in two of them."""
SMALL_BYTES = 8 << 20
"""A file of this size stays as it is."""
MERGED_BYTES = 16 << 20
"""At most so much becomes one file: it is held in memory with what it was made from."""

_LONGEST_NAME = 200
_LONGEST_NS = LONGEST_SEGMENT // timedelta(microseconds=1) * 1000
Judged = Callable[[SegmentName], bool | None]
"""Tells whether a run that judges what is new has judged a segment; None for one that it may yet come to."""


@dataclass(frozen=True)
class Group:
    """What is merged together.

    Attributes
    ----------
    members
        Segments that follow each other. A single one has nothing to be merged with.
    leftovers
        Segments that the name of a member says are in it already.
    """

    members: tuple[StoredSegment, ...]
    leftovers: tuple[StoredSegment, ...]


def plan_groups(stored: Iterable[StoredSegment], judged: Judged) -> list[Group]:
    """Return what can be merged of the segments of one host that begin in the same hour.

    Segments follow each other if they are of the same boot and the number of each comes after that of the one
    before. What was judged is not merged with what was not, nor what may yet be judged with anything: names
    tell what is new.
    """
    raw = sorted(one for one in stored if not one.name.downsampled)
    merged = [one.name for one in raw if one.name.last_sequence != one.name.sequence]
    outer = [one for one in raw if not any(_holds(name, one.name) for name in merged)]
    runs: list[list[StoredSegment]] = []
    for one in sorted(outer, key=lambda one: (one.name.boot, one)):
        if runs and _goes_on(runs[-1], one, judged):
            runs[-1].append(one)
        else:
            runs.append([one])
    groups = []
    for run in runs:
        names = [member.name for member in run]
        leftovers = tuple(one for one in raw if any(_holds(name, one.name) for name in names))
        if len(run) > 1 or leftovers:
            groups.append(Group(tuple(run), leftovers))
    return groups


def _holds(outer: SegmentName, inner: SegmentName) -> bool:
    """Tell by their names whether a segment is among those that were merged into another."""
    return (
        outer.key != inner.key
        and outer.boot == inner.boot
        and outer.start <= inner.start
        and inner.last_start <= outer.last_start
        and outer.sequence <= inner.sequence
        and inner.last_sequence <= outer.last_sequence
    )


def _goes_on(run: Sequence[StoredSegment], one: StoredSegment, judged: Judged) -> bool:
    first, last = run[0].name, run[-1].name
    return (
        one.name.boot == last.boot
        and one.name.sequence == last.last_sequence + 1
        and one.name.start > last.last_start
        and _quarter(one.name.start) == _quarter(first.start)
        and max(run[-1].bytes, one.bytes) < SMALL_BYTES
        and sum(member.bytes for member in run) + one.bytes <= MERGED_BYTES
        and judged(one.name) is not None
        and judged(one.name) == judged(last)
        and len(first.key.rpartition("/")[2]) <= _LONGEST_NAME
    )


def _quarter(time: datetime) -> int:
    return (time - floor_hour(time)) // SPAN


def compact_hour(
    backend: Backend, host: str, hour: datetime, judged: Judged, *, dry_run: bool = False
) -> Rewritten:
    """Merge small segments of one host that begin in an hour.

    Parameters
    ----------
    backend, host, hour
        Where; the hour begins at ``hour``, UTC.
    judged
        As `plan_groups` takes it.
    dry_run
        Say what would become of them, and change nothing.

    Raises
    ------
    UnavailableError
        If the store cannot be read or written.
    """
    done = Rewritten()
    for group in plan_groups(stored_segments(files_below(backend, host_folder(hour, host))), judged):
        done += _merge(backend, group, dry_run)
    return done


@dataclass
class _Chunk:
    """Files that become one.

    Attributes
    ----------
    members, parts
        The files, and the segments in them.
    types
        Of their columns.
    begin, until
        Time of their first and their last sample, ns since 1970; None where they cannot be merged.
    """

    members: list[StoredSegment]
    parts: list[tuple[Identity, DecodedSegment]]
    types: dict[str, pl.DataType]
    begin: int | None
    until: int | None

    def takes(self, other: _Chunk) -> bool:
        """Tell whether another one's segments can follow in the same file."""
        if self.begin is None or self.until is None or other.begin is None or other.until is None:
            return False
        return (
            self.until < other.begin
            and other.until - to_ns(self.members[0].name.start) <= _LONGEST_NS
            and all(self.types.get(name, dtype) == dtype for name, dtype in other.types.items())
        )

    def add(self, other: _Chunk) -> None:
        """Take another one's segments."""
        self.members += other.members
        self.parts += other.parts
        self.types |= other.types
        self.until = other.until


def _chunk(one: StoredSegment, file: DecodedFile) -> _Chunk:
    types: dict[str, pl.DataType] = {}
    times: list[int] = []
    plain = True
    for _, segment in file.parts:
        types |= segment.frame.schema
        stamps = segment.frame.get_column("ts").to_physical()
        times += [int(stamps.min()), int(stamps.max())] if len(stamps) else []  # type: ignore[arg-type]
        plain &= segment.boot == one.name.boot
        plain &= segment.frame.columns == [*TIME_COLUMNS, *segment.channels]
    # Others than those that Reveal writes may be readable all the same; they stay as they are.
    known = plain and bool(times)
    return _Chunk(
        [one], list(file.parts), types, min(times) if known else None, max(times) if known else None
    )


def _merge(backend: Backend, group: Group, dry_run: bool) -> Rewritten:
    notes: list[str] = []
    read = dict(loaded(backend, (*group.members, *group.leftovers), notes))
    done = Rewritten(notes=tuple(notes))
    if any(member not in read for member in group.members):
        return done  # somebody else was here; the next run finds what there is then
    chunks: list[_Chunk] = []
    for member in group.members:
        new = _chunk(member, read[member])
        if chunks and chunks[-1].takes(new):
            chunks[-1].add(new)
        else:
            chunks.append(new)
    for chunk in chunks:
        held = {identity for identity, _ in chunk.parts}
        gone = [
            one
            for one in group.leftovers
            if one in read and held.issuperset(identity for identity, _ in read[one].parts)
        ]
        size = 0
        if len(chunk.members) > 1:
            key, data = _encode(chunk)
            if not _reads_the_same(key, data, chunk):
                first = chunk.members[0].name.key
                done += Rewritten(
                    notes=(f"{first} and {len(chunk.members) - 1} after it do not read the same when merged",)
                )
                continue
            if not dry_run:
                backend.write(key, data)
            gone += chunk.members
            size = len(data)
        if not dry_run:
            backend.each(backend.remove, [one.name.key for one in gone])
        done += Rewritten(len(gone), sum(one.bytes for one in gone), int(size > 0), size)
    return done


def _encode(chunk: _Chunk) -> tuple[str, bytes]:
    """Return key and content of the file that a chunk becomes."""
    first, last = chunk.members[0].name, chunk.members[-1].name
    frame = pl.concat([segment.frame for _, segment in chunk.parts], how="diagonal", rechunk=True)
    channels: dict[str, Channel] = {}
    for _, segment in chunk.parts:
        channels |= segment.channels
    metadata = encode_metadata(
        host=first.host,
        boot=first.boot,
        sequence=first.sequence,
        facts=chunk.parts[-1][1].facts,
        channels=[channels[name] for name in frame.columns if name not in TIME_COLUMNS],
    )
    metadata[PARTS_KEY] = encode_parts(
        [
            SegmentPart(identity, segment.frame.height, segment.facts, tuple(segment.channels.values()))
            for identity, segment in chunk.parts
        ]
    )
    ends = last.last_start, last.last_sequence
    key = segment_key(first.host, first.start, first.boot, first.sequence, last=ends)
    return key, encode_table(frame.columns, frame.to_arrow().columns, metadata)


def _reads_the_same(key: str, data: bytes, chunk: _Chunk) -> bool:
    """Make sure that nothing is lost before anything is removed."""
    name = parse_segment_key(key)
    if name is None:
        return False
    again = decode_file(data, name).parts
    return len(again) == len(chunk.parts) and all(
        identity == known
        and segment.frame.schema == was.frame.schema
        and segment.frame.equals(was.frame)
        and list(segment.channels.items()) == list(was.channels.items())
        and (segment.facts, segment.boot) == (was.facts, was.boot)
        for (identity, segment), (known, was) in zip(again, chunk.parts, strict=True)
    )
