"""Down-sampling: old telemetry at one sample in 10 s, a hundredth of the rows that an agent collects.

A down-sampled segment tells which segments it stands for, so that a reader takes it in their place from the
moment that it is there, and never both. Like a merged one it is written before they are removed, and what it
holds follows from what it stands for: a kill, or a second maintenance, costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import polars as pl

from reveal_core.channels import Channel
from reveal_core.collect.segments import encode_table
from reveal_core.features.pace import PACE_METRICS
from reveal_core.segment import REPLACES_KEY, Identity, encode_metadata, encode_replaced
from storage.backend import Backend
from storage.decode import EPOCH, TIME_COLUMNS, DecodedSegment, decode_segment, to_ns
from storage.files import files_below
from storage.layout import LONGEST_SEGMENT, SegmentName, host_folder, segment_key
from storage.rewriting import Rewritten, StoredSegment, loaded, stored_segments

PERIOD_MS = 10_000
_EVERY = "10s"
_STEP = "__step"
_AS_WAS = "__as_was/"
_MOST_CELLS = 20_000_000
"""So many samples are down-sampled at once: each time costs a second where there are a thousand channels."""
_LONGEST_NS = LONGEST_SEGMENT // timedelta(microseconds=1) * 1000

Place = tuple[str, int, int]
"""Boot, start in ms and number of a segment of one host."""


def down_sampled(frame: pl.DataFrame, kinds: Mapping[str, str]) -> pl.DataFrame:
    """Return samples at one row for each 10 s of UTC that has some.

    A row is at the time of the last sample in its 10 s. A counter is what it was last, so no count is lost; a
    gauge is its mean; a state is what it was last.

    Parameters
    ----------
    frame
        ``ts``, ``mono``, then channels, as a segment has them.
    kinds
        Kind of each channel.

    Examples
    --------
    >>> import datetime as dt
    >>> start = dt.datetime(2026, 11, 29, tzinfo=dt.timezone.utc)
    >>> ts = [start + dt.timedelta(seconds=s) for s in (0, 5, 10)]
    >>> frame = pl.DataFrame({"ts": ts, "mono": [0, 5, 10], "c": [1, 3, 4], "g": [1.0, 2.0, 5.0]})
    >>> down_sampled(frame, {"c": "counter", "g": "gauge"}).drop("ts").rows()
    [(5, 3, 1.5), (10, 4, 5.0)]
    """
    columns = [name for name in frame.columns if name not in TIME_COLUMNS]
    gauges = [name for name in columns if kinds[name] == "gauge"]
    others = [name for name in columns if kinds[name] != "gauge"]
    # Where samples are missing the last one is carried on to the last row, which is taken if there was one:
    # a plain mean, last or count of a group takes Polars a hundredth of the time of anything else.
    gaps = [name for name in others if 0 < frame[name].null_count() < frame.height]
    found = (
        frame.sort("ts", maintain_order=True)
        .with_columns(
            *(pl.col(name).cast(pl.Float64) for name in gauges),
            *(pl.col(name).forward_fill() for name in gaps),
            *(pl.col(name).alias(f"{_AS_WAS}{name}") for name in gaps),
        )
        .group_by(pl.col("ts").dt.truncate(_EVERY).alias(_STEP), maintain_order=True)
        .agg(
            *(pl.col(name).last() for name in (*TIME_COLUMNS, *others)),
            *(pl.col(name).mean() for name in gauges),
            *(pl.col(f"{_AS_WAS}{name}").count() for name in gaps),
        )
    )
    fractions = [name for name in gauges if frame.schema[name].is_float()]
    return found.with_columns(
        *(pl.col(name).cast(frame.schema[name]) for name in fractions),
        *(pl.when(pl.col(f"{_AS_WAS}{name}") > 0).then(pl.col(name)).alias(name) for name in gaps),
    ).select(frame.columns)


@dataclass
class _Run:
    """Segments that follow each other, down-sampled as they come, so that few are in memory at once.

    Attributes
    ----------
    name
        Of the file of the first.
    boot, facts, channels, types
        As their metadata has them, of the newest.
    identities
        The segments.
    until
        Time of the last sample, ns since 1970.
    done
        Rows that are finished.
    waiting, cells
        Segments that are down-sampled together once they hold many samples.
    """

    name: SegmentName
    boot: str
    until: int = 0
    facts: dict[str, object] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)
    types: dict[str, pl.DataType] = field(default_factory=dict)
    identities: list[Identity] = field(default_factory=list)
    done: list[pl.DataFrame] = field(default_factory=list)
    waiting: list[pl.DataFrame] = field(default_factory=list)
    cells: int = 0

    @property
    def start(self) -> datetime:
        """When the first segment begins, as its name has it."""
        return EPOCH + timedelta(milliseconds=self.identities[0][0])

    def takes(self, name: SegmentName, identity: Identity, segment: DecodedSegment) -> bool:
        """Tell whether a segment can follow in the same file."""
        times = segment.frame.get_column("ts").to_physical()
        start_ms, number = self.identities[-1]
        return (
            (name.boot, segment.boot) == (self.name.boot, self.boot)
            and identity[1] == number + 1
            and identity[0] > start_ms
            and int(times.min()) > self.until  # type: ignore[arg-type]
            and int(times.max()) - to_ns(self.start) <= _LONGEST_NS  # type: ignore[arg-type]
            and all(self.types.get(column, dtype) == dtype for column, dtype in segment.frame.schema.items())
            and all(
                self.channels.get(column, channel).kind == channel.kind
                for column, channel in segment.channels.items()
            )
        )

    def add(self, identity: Identity, segment: DecodedSegment) -> None:
        """Take a segment."""
        # What tells how the host was sampled is over once it is sampled evenly.
        channels = {n: c for n, c in segment.channels.items() if c.metric not in PACE_METRICS}
        frame = segment.frame.select(*TIME_COLUMNS, *channels)
        self.identities.append(identity)
        self.until = max(self.until, int(frame.get_column("ts").to_physical().max()))  # type: ignore[arg-type]
        self.facts = segment.facts
        self.channels |= channels
        self.types |= segment.frame.schema
        self.waiting.append(frame)
        self.cells += frame.height * frame.width
        if self.cells >= _MOST_CELLS:
            self._sample()

    def _sample(self, *, final: bool = False) -> None:
        """Down-sample what waits; of its last 10 s more may come, unless it is ``final``."""
        frame = pl.concat(self.waiting, how="diagonal")
        step = pl.col("ts").dt.truncate(_EVERY)
        whole = frame if final else frame.filter(step < step.max())
        self.waiting = [] if final else [frame.filter(step == step.max())]
        self.cells = 0
        if whole.height:
            kinds = {name: channel.kind for name, channel in self.channels.items()}
            self.done.append(down_sampled(whole, kinds))

    def encode(self) -> tuple[str, bytes, pl.DataFrame]:
        """Return key and content of the file that they become, and its table."""
        self._sample(final=True)
        frame = pl.concat(self.done, how="diagonal", rechunk=True)
        channels = [self.channels[name] for name in frame.columns if name not in TIME_COLUMNS]
        slow = [replace(channel, period_ms=max(PERIOD_MS, channel.period_ms)) for channel in channels]
        first, last = self.identities[0], self.identities[-1]
        metadata = encode_metadata(
            host=self.name.host, boot=self.boot, sequence=first[1], facts=self.facts, channels=slow
        )
        metadata[REPLACES_KEY] = encode_replaced(self.identities)
        ends = EPOCH + timedelta(milliseconds=last[0]), last[1]
        key = segment_key(
            self.name.host,
            self.start,
            self.name.boot,
            first[1],
            last=ends if len(self.identities) > 1 else None,
            downsampled=True,
        )
        return key, encode_table(frame.columns, frame.to_arrow().columns, metadata), frame


def downsample_hour(backend: Backend, host: str, hour: datetime, *, dry_run: bool = False) -> Rewritten:
    """Down-sample the segments of one host that begin in an hour.

    Parameters
    ----------
    backend, host, hour
        Where; the hour begins at ``hour``, UTC.
    dry_run
        Say what would become of them, and change nothing.

    Raises
    ------
    UnavailableError
        If the store cannot be read or written.
    """
    stored = stored_segments(files_below(backend, host_folder(hour, host)))
    raw = [one for one in stored if not one.name.downsampled]
    if not raw:
        return Rewritten()
    notes: list[str] = []
    slow = {
        one: frozenset((one.name.boot, *identity) for identity in file.replaces)
        for one, file in loaded(backend, [one for one in stored if one.name.downsampled], notes)
    }
    covered: set[Place] = {place for places in slow.values() for place in places}
    runs, sources = _sample(backend, raw, covered, notes)
    written = 0
    into = 0
    for run in runs:
        key, data, frame = run.encode()
        if not decode_segment(data).frame.equals(frame):
            notes.append(f"{run.name.key} and what follows it do not read as they were down-sampled")
            continue
        if not dry_run:
            backend.write(key, data)
        into += 1
        written += len(data)
        covered |= {(run.name.boot, *identity) for identity in run.identities}
    gone = [one for one, places in sources if places <= covered]
    # Of two that stand for the same, as two maintenances at once may have made them, the larger one stays.
    gone += [one for one, held in slow.items() if held and any(held < other for other in slow.values())]
    if not dry_run:
        backend.each(backend.remove, [one.name.key for one in gone])
    return Rewritten(len(gone), sum(one.bytes for one in gone), into, written, tuple(notes))


def _sample(
    backend: Backend, raw: list[StoredSegment], covered: set[Place], notes: list[str]
) -> tuple[list[_Run], list[tuple[StoredSegment, frozenset[Place]]]]:
    """Return the runs of segments that no file stands for yet, and which segments each file holds."""
    runs: dict[str, list[_Run]] = {}
    sources = []
    seen = set(covered)
    for one, file in loaded(backend, raw, notes):
        sources.append((one, frozenset((one.name.boot, *identity) for identity, _ in file.parts)))
        for identity, segment in file.parts:
            place = (one.name.boot, *identity)
            if place in seen or not segment.frame.height:
                continue
            seen.add(place)
            mine = runs.setdefault(one.name.boot, [])
            if not mine or not mine[-1].takes(one.name, identity, segment):
                mine.append(_Run(one.name, segment.boot))
            mine[-1].add(identity, segment)
    return [run for mine in runs.values() for run in mine], sources
