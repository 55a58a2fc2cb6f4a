"""Reading telemetry: segments of whatever columns become one table of one host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import polars as pl

from reveal_core.channels import Channel
from reveal_core.errors import NoTelemetryError, UsageError
from reveal_core.incidents import iso
from reveal_core.telemetry import BOOT_COLUMN, Telemetry
from storage.backend import Backend
from storage.decode import TIME_COLUMNS, DecodedSegment, decode_segment, to_ns
from storage.hosts import extent, hosts
from storage.layout import to_utc
from storage.quarantine import Quarantined, put_aside
from storage.segments import needed

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
        Keys of the segments that hold at least one of them.
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
    backend: Backend, host: str, start: datetime, end: datetime, columns: Sequence[str] | None = None
) -> TelemetryRead:
    """Return one host's samples of [start, end); see `storage.store.Store.read_telemetry`."""
    if to_utc(start) >= to_utc(end):
        raise UsageError(f"the time range from {start.isoformat()} to {end.isoformat()} is empty")
    listing = needed(backend, host, start, end)
    reason = "its name is not a segment's"
    misnamed = zip(listing.misnamed, backend.each(backend.read, listing.misnamed), strict=True)
    bad = [put_aside(backend, key, data, reason) for key, data in misnamed if data is not None]
    low, high = to_ns(start), to_ns(end)
    time = pl.col("ts").to_physical()
    decoded: list[tuple[str, DecodedSegment]] = []
    for first in range(0, len(listing.segments), _FILES_AT_ONCE):
        keys = [name.key for name in listing.segments[first : first + _FILES_AT_ONCE]]
        for key, data in zip(keys, backend.each(backend.read, keys), strict=True):
            if data is None:  # moved or removed by somebody else since it was listed
                continue
            try:
                segment = decode_segment(data, columns)
            except ValueError as error:
                bad.append(put_aside(backend, key, data, str(error)))
                continue
            frame = segment.frame
            first_ns, last_ns = frame.select(time.min().alias("first"), time.max().alias("last")).row(0)
            if first_ns is None or last_ns < low or first_ns >= high:
                continue
            if first_ns < low or last_ns >= high:
                frame = frame.filter((time >= low) & (time < high))
            if frame.height:
                decoded.append((key, replace(segment, frame=frame)))
    if not decoded:
        raise NoTelemetryError(_why_nothing(backend, host, start, end, bad))
    return _combine(host, decoded, bad)


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
    for _, segment in decoded:
        for name, channel in segment.channels.items():
            known = channels.get(name)
            if known is not None and (known.kind, known.unit) != (channel.kind, channel.unit):
                notes[name] = (
                    f"{name}: {known.kind} in {known.unit or 'no unit'} in older segments, {channel.kind} in"
                    f" {channel.unit or 'no unit'} in newer ones; described as in the newest"
                )
            channels[name] = channel
        for name, dtype in segment.frame.schema.items():
            first = types.setdefault(name, dtype)
            if first == dtype:
                continue
            types[name] = pl.Float64()
            if first.is_integer() or dtype.is_integer():
                notes.setdefault(
                    name, f"{name}: integers in some segments, fractions in others; read as Float64"
                )
    frames = [
        segment.frame.cast({n: types[n] for n, dtype in segment.frame.schema.items() if types[n] != dtype})
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
    return TelemetryRead(telemetry, [key for key, _ in decoded], bad, [notes[name] for name in sorted(notes)])


def _one_row_each(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows sorted, one for each time: where several share one, each channel's first value."""
    twice = frame.get_column("ts").is_duplicated()
    if twice.any():
        merged = frame.filter(twice).group_by("ts").agg(pl.all().drop_nulls().first())
        frame = pl.concat([frame.filter(~twice), merged.select(frame.columns)])
    return frame.sort("ts")
