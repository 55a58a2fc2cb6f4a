"""What merging and down-sampling have in common: stored segments, reading them, and counts of what became."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from storage.backend import Backend
from storage.decode import DecodedFile, decode_file
from storage.files import StoredFile
from storage.layout import SegmentName, parse_segment_key
from storage.quarantine import put_aside

_AT_ONCE = 8


@dataclass(frozen=True, order=True)
class StoredSegment:
    """A segment's name, the size of its file in bytes, and when that was written, UTC."""

    name: SegmentName
    bytes: int
    written: datetime = field(compare=False)


@dataclass(frozen=True)
class Rewritten:
    """What became of segments.

    Attributes
    ----------
    segments, bytes_before
        Files that others took the place of, and their size.
    into, bytes_after
        Files that were written for them, and their size.
    notes
        What could not be done, one line each.
    """

    segments: int = 0
    bytes_before: int = 0
    into: int = 0
    bytes_after: int = 0
    notes: tuple[str, ...] = ()

    def __add__(self, other: Rewritten) -> Rewritten:
        return Rewritten(
            self.segments + other.segments,
            self.bytes_before + other.bytes_before,
            self.into + other.into,
            self.bytes_after + other.bytes_after,
            self.notes + other.notes,
        )


def stored_segments(files: Iterable[StoredFile]) -> list[StoredSegment]:
    """Return the segments among files, sorted by time."""
    named = ((parse_segment_key(file.key), file) for file in files)
    found = (StoredSegment(name, file.bytes, file.written) for name, file in named if name is not None)
    return sorted(found)


def loaded(
    backend: Backend, segments: Sequence[StoredSegment], notes: list[str]
) -> Iterator[tuple[StoredSegment, DecodedFile]]:
    """Yield what files hold, in order, but those that are gone; one that cannot be read goes to quarantine.

    Parameters
    ----------
    backend, segments
        Which, and where. A few are in memory at a time.
    notes
        Is told of those that cannot be read, a line each.
    """
    for first in range(0, len(segments), _AT_ONCE):
        some = segments[first : first + _AT_ONCE]
        for one, data in zip(some, backend.each(backend.read, [one.name.key for one in some]), strict=True):
            if data is None:
                continue
            try:
                file = decode_file(data, one.name)
            except ValueError as error:
                put_aside(backend, one.name.key, data, str(error))
                notes.append(f"{one.name.key} cannot be read: {error}")
                continue
            yield one, file
