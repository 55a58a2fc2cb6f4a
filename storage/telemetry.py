"""Reading telemetry: segments of whatever columns become one table of one host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import polars as pl

from reveal_core.channels import Channel
from reveal_core.errors import NoTelemetryError, UsageError
from reveal_core.incidents import iso
from reveal_core.telemetry import BOOT_COLUMN, Telemetry
from storage.backend import Backend
from storage.decode import TIME_COLUMNS, Columns, DecodedFile, DecodedSegment, decode_file, to_ns
from storage.hosts import extent, hosts
from storage.layout import SegmentName, to_utc
from storage.quarantine import Quarantined, put_aside
from storage.segments import LISTINGS, needed, restless

_FILES_AT_ONCE = 32
_HOSTS_NAMED = 10


@dataclass(frozen=True)
class TelemetryRead:
    """What a read found.

    Attributes
    ----------
    telemetry
        The samples; see `reveal_core.telemetry.Telemetry`.
    segments
        Keys of the files that hold at least one of them.
    quarantined
        Files that could not be read.
    notes
        One line for each channel whose type, kind or unit differs between segments.
    """

    telemetry: Telemetry
    segments: list[str]
    quarantined: list[Quarantined]
    notes: list[str] = field(default_factory=list)


def read_telemetry(
    backend: Backend, host: str, start: datetime, end: datetime, columns: Columns | None = None
) -> TelemetryRead:
    """Return one host's samples of [start, end); see `storage.store.Store.read_telemetry`."""
    if to_utc(start) >= to_utc(end):
        raise UsageError(f"the time range from {start.isoformat()} to {end.isoformat()} is empty")
    files, bad = _read_files(backend, host, start, end, columns)
    decoded = parts_of(files)
    if not decoded:
        raise NoTelemetryError(_why_nothing(backend, host, start, end, bad))
    return _combine(host, decoded, bad)


def _read_files(
    backend: Backend, host: str, start: datetime, end: datetime, columns: Columns | None
) -> tuple[dict[SegmentName, DecodedFile], list[Quarantined]]:
    """Return what the files of a range hold of it, and those that could not be read.

    Maintenance may merge files while they are read. Where one is gone that was listed, what there is now is
    listed again, so that no sample is missed.
    """
    files: dict[SegmentName, DecodedFile] = {}
    bad: dict[str, Quarantined] = {}
    gone: set[SegmentName] = set()
    for _ in range(LISTINGS):
        listing = needed(backend, host, start, end)
        strange = [key for key in listing.misnamed if key not in bad]
        for key, data in zip(strange, backend.each(backend.read, strange), strict=True):
            if data is not None:
                bad[key] = put_aside(backend, key, data, "its name is not a segment's")
        before = len(gone)
        wanted = [name for name in listing.segments if name not in files and name.key not in bad]
        for first in range(0, len(wanted), _FILES_AT_ONCE):
            names = wanted[first : first + _FILES_AT_ONCE]
            found = backend.each(lambda name: backend.read(name.key), names)
            for name, data in zip(names, found, strict=True):
                if data is None:
                    gone.add(name)
                    continue
                try:
                    file = decode_file(data, name, columns)
                except ValueError as error:
                    bad[name.key] = put_aside(backend, name.key, data, str(error))
                    continue
                files[name] = _within(file, to_ns(start), to_ns(end))
        # What is listed again and gone again, as a link to nowhere, is not there the next time either.
        if len(gone) == before:
            return files, list(bad.values())
    raise restless(backend, host)


def _within(file: DecodedFile, low: int, high: int) -> DecodedFile:
    """Return a file with the samples of [low, high), in ns since 1970, and the parts that have some."""
    time = pl.col("ts").to_physical()
    parts = []
    for identity, segment in file.parts:
        frame = segment.frame
        first_ns, last_ns = frame.select(time.min().alias("first"), time.max().alias("last")).row(0)
        if first_ns is None or last_ns < low or first_ns >= high:
            continue
        if first_ns < low or last_ns >= high:
            frame = _between(frame, low, high)
        if frame.height:
            parts.append((identity, replace(segment, frame=frame)))
    return replace(file, parts=parts)


def _between(frame: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """Return the rows of [low, high), in ns since 1970; without copying them if they are in order."""
    times = frame.get_column("ts").to_physical()
    if not times.is_sorted():
        return frame.filter((times >= low) & (times < high))
    first, last = np.searchsorted(times.to_numpy(), (low, high))
    return frame.slice(int(first), int(last - first))


def parts_of(files: Mapping[SegmentName, DecodedFile]) -> list[tuple[str, DecodedSegment]]:
    """Return the segments of files in order of time, each once, with the key of the file that holds it.

    Until maintenance has removed what it merged or down-sampled, and longer if it was killed, a segment lies
    there twice. By itself and merged it is the same, so either will do; what was down-sampled takes the place
    of what it stands for.
    """
    owners: dict[tuple[str, int, int], list[SegmentName]] = {}
    for name, file in files.items():
        for identity in file.replaces:
            owners.setdefault((name.boot, *identity), []).append(name)
    outdone = {
        one
        for names in owners.values()
        if len(names) > 1
        for one in names
        if any(files[one].replaces < files[other].replaces for other in names)
    }
    found: dict[tuple[int, str, int, bool], tuple[str, DecodedSegment]] = {}
    for name in sorted(files):
        if name in outdone:
            continue
        for (start_ms, sequence), segment in files[name].parts:
            if name.downsampled or (name.boot, start_ms, sequence) not in owners:
                found.setdefault(
                    (start_ms, name.boot, sequence, name.downsampled),
                    (name.key, segment),
                )
    return [found[place] for place in sorted(found)]


def _why_nothing(backend: Backend, host: str, start: datetime, end: datetime, bad: list[Quarantined]) -> str:
    """Say in one line why there is nothing to read."""
    lost = f" ({len(bad)} files cannot be read; the first is {bad[0].key}: {bad[0].reason})" if bad else ""
    known = hosts(backend)
    if not known:
        return f"store {backend.shown} holds no telemetry{lost}"
    if host not in known:
        more = f" and {len(known) - _HOSTS_NAMED} more" if len(known) > _HOSTS_NAMED else ""
        names = ", ".join(known[:_HOSTS_NAMED])
        return f"store {backend.shown} has no telemetry of host {host!r}{lost}; it has {names}{more}"
    asked = f"from {_moment(start)} to {_moment(end)}"
    there = extent(backend, host)
    has = "none that can be read" if there is None else f"from {_moment(there[0])} to {_moment(there[1])}"
    return f"store {backend.shown} has no telemetry of host {host!r} {asked}{lost}; it has {has}"


def _moment(time: datetime) -> str:
    return iso(to_utc(time))


def _combine(host: str, decoded: list[tuple[str, DecodedSegment]], bad: list[Quarantined]) -> TelemetryRead:
    notes: dict[str, str] = {}
    channels: dict[str, Channel] = {}
    types: dict[str, pl.DataType] = {}
    before: tuple[Mapping[str, Channel], Mapping[str, pl.DataType]] | None = None
    for _, segment in decoded:
        if before == (segment.channels, segment.types):
            continue  # as most are; it says nothing that the one before has not said
        before = segment.channels, segment.types
        for name, channel in segment.channels.items():
            known = channels.get(name)
            if known is not None and (known.kind, known.unit) != (channel.kind, channel.unit):
                notes[name] = (
                    f"{name}: {known.kind} in {known.unit or 'no unit'} in older segments, {channel.kind} in"
                    f" {channel.unit or 'no unit'} in newer ones; described as in the newest"
                )
            channels[name] = channel
        for name, dtype in segment.types.items():
            first = types.setdefault(name, dtype)
            if first is dtype or first == dtype:
                continue
            types[name] = pl.Float64()
            if first.is_integer() or dtype.is_integer():
                notes.setdefault(
                    name, f"{name}: integers in some segments, fractions in others; read as Float64"
                )
    frames = [
        segment.frame.cast({n: types[n] for n, dtype in segment.types.items() if types[n] is not dtype})
        for _, segment in decoded
    ]
    boots = {boot: number for number, boot in enumerate(dict.fromkeys(s.boot for _, s in decoded))}
    if len(boots) > 1:  # counters of one boot say nothing about those of another
        frames = [
            frame.with_columns(pl.lit(boots[segment.boot], pl.Int32).alias(BOOT_COLUMN))
            for frame, (_, segment) in zip(frames, decoded, strict=True)
        ]
    frame = _one_row_each(pl.concat(frames, how="diagonal"))
    heads = [*TIME_COLUMNS, BOOT_COLUMN] if len(boots) > 1 else [*TIME_COLUMNS]
    order = [*heads, *(name for name in frame.columns if name not in heads)]
    telemetry = Telemetry(host, frame.select(order), channels, decoded[-1][1].facts)
    keys = list(dict.fromkeys(key for key, _ in decoded))
    return TelemetryRead(telemetry, keys, bad, [notes[name] for name in sorted(notes)])


def _one_row_each(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows sorted, one for each time: where several share one, each channel's first value."""
    times = frame.get_column("ts")
    if np.all(np.diff(times.to_physical().to_numpy()) > 0):
        return frame
    twice = times.is_duplicated()
    if twice.any():
        merged = frame.filter(twice).group_by("ts").agg(pl.all().drop_nulls().first())
        frame = pl.concat([frame.filter(~twice), merged.select(frame.columns)])
    return frame.sort("ts")
