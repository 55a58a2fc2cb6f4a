"""The segment builder: samples of a stretch of time become one Parquet file that explains itself."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from reveal_core.channels import Channel
from reveal_core.collect.columns import MISSING, Column, Columns
from reveal_core.segment import Segment, encode_metadata

if TYPE_CHECKING:
    Array = pa.Array[Any]
    Chunked = pa.ChunkedArray[Any]

_INT64_MAX = 2**63 - 1


def pack(row: list[int]) -> array[int]:
    """Return a row as 64-bit integers; one that does not fit is missing."""
    try:
        return array("q", row)
    except OverflowError:
        return array("q", [value if MISSING <= value <= _INT64_MAX else MISSING for value in row])


@dataclass
class Block:
    """What one source said during a segment.

    Attributes
    ----------
    columns
        The source's columns as they stood when the segment ended; None for a slot that nobody uses.
    gone
        Slots whose channel had gone by then.
    ticks
        Row of the segment of each read.
    pieces
        Packed rows of one width after another; a piece begins where channels were added.
    coverage
        Channel of the share of samples that were there, if it is wanted.
    """

    columns: list[Column | None] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    ticks: list[int] = field(default_factory=list)
    pieces: list[tuple[int, array[int]]] = field(default_factory=list)
    coverage: Channel | None = None

    def append(self, tick: int, row: list[int]) -> None:
        """Add a row of samples; a source that has no channel now adds nothing."""
        if not row:
            return
        packed = pack(row)
        if not self.pieces or self.pieces[-1][0] != len(row):
            self.pieces.append((len(row), packed))
        else:
            self.pieces[-1][1].extend(packed)
        self.ticks.append(tick)

    def seal(self, columns: Columns) -> None:
        """Keep the columns as they are now, and free the slots of channels that are gone."""
        self.columns = list(columns.slots)
        self.gone = columns.gone
        columns.end_segment()

    def matrix(self, rows: int) -> npt.NDArray[np.int64]:
        """Return the samples, a row per channel and a column per tick of the segment, `MISSING` where there
        is none.
        """
        samples = np.full((len(self.columns), rows), MISSING, dtype=np.int64)
        start = 0
        for width, piece in self.pieces:
            values = np.frombuffer(piece, dtype=np.int64).reshape(-1, width)
            samples[:width, self.ticks[start : start + len(values)]] = values.T
            start += len(values)
        return samples


@dataclass
class Batch:
    """A segment's samples before they are encoded.

    Attributes
    ----------
    host, boot, sequence, facts
        As in the segment's metadata.
    ts, mono
        Wall clock (UTC, ns since 1970) and time since boot (ns) of each tick.
    blocks
        The samples of each source.
    """

    host: str
    boot: str
    sequence: int
    facts: Mapping[str, Any]
    ts: array[int]
    mono: array[int]
    blocks: list[Block]


def arrow_array(
    values: npt.NDArray[np.int64] | npt.NDArray[np.float32], valid: npt.NDArray[np.bool_]
) -> Array:
    """Return values with nulls as an Arrow array.

    ``pyarrow.array`` would do too, but it imports pandas on the way, where that is installed: half a second
    and 60 MB.
    """
    type_ = pa.float32() if values.dtype == np.float32 else pa.int64()
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(type_, len(values), [bitmap, pa.py_buffer(values.tobytes())])


def encode_column(column: Column, samples: npt.NDArray[np.int64], whole: bool = False) -> Array:
    """Return a channel's samples as stored: counters int64, the others float32; null where missing or out of
    range.

    ``whole`` says that none is missing or negative, which spares most counters any further look.
    """
    metric = column.metric
    plain = metric.kind == "counter" and column.scale == 1.0 and not metric.minimum
    if whole and plain and metric.maximum is None:
        return pa.Array.from_buffers(pa.int64(), len(samples), [None, pa.py_buffer(samples.tobytes())])
    valid = samples != MISSING
    if metric.kind == "counter":
        scaled: npt.NDArray[Any] = samples if column.scale == 1.0 else samples * int(column.scale)
        low: float | None = metric.minimum if metric.minimum is not None else 0
    else:
        scaled = samples * column.scale
        low = metric.minimum
    if low is not None:
        valid &= scaled >= low
    if metric.maximum is not None:
        valid &= scaled <= metric.maximum
    values = np.where(valid, scaled, 0)  # what stands under a null costs bytes unless it is always the same
    return arrow_array(values if metric.kind == "counter" else values.astype(np.float32), valid)


def encode_table(
    names: Sequence[str], arrays: Sequence[Array | Chunked], metadata: Mapping[bytes, bytes]
) -> bytes:
    """Return columns as a Parquet file.

    Integers are delta-encoded and floats byte-stream-split, which takes a third of Parquet's default (see
    docs/architecture.md); dictionaries and statistics of samples would only add weight.
    """
    schema = pa.schema([pa.field(name, values.type) for name, values in zip(names, arrays, strict=True)])
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        use_dictionary=False,
        write_statistics=["ts"],
        store_schema=False,  # Arrow's own copy of the schema: 40 % of the bytes, and half of the time
        column_encoding={
            field.name: "BYTE_STREAM_SPLIT" if pa.types.is_floating(field.type) else "DELTA_BINARY_PACKED"
            for field in schema
        },
    ) as writer:
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        writer.add_key_value_metadata({key.decode(): value.decode() for key, value in metadata.items()})
    return sink.getvalue().to_pybytes()


def encode_batch(batch: Batch) -> Segment:
    """Return a batch as a segment.

    Wide: ``ts``, ``mono``, then a column per channel.
    """
    rows = len(batch.ts)
    names = ["ts", "mono"]
    arrays: list[Array | Chunked] = [
        pa.Array.from_buffers(pa.timestamp("ns", tz="UTC"), rows, [None, pa.py_buffer(batch.ts)]),
        pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(batch.mono)]),
    ]
    channels: list[Channel] = []
    for block in batch.blocks:
        samples = block.matrix(rows)
        present = samples != MISSING
        any_present = present.any(axis=1)
        whole = np.asarray((samples >= 0).all(axis=1))  # what is missing is negative too
        for slot, column in enumerate(block.columns):
            if column is None or (slot in block.gone and not any_present[slot]):
                continue
            names.append(column.channel.name)
            channels.append(column.channel)
            arrays.append(encode_column(column, samples[slot], bool(whole[slot])))
        if block.coverage is not None:
            names.append(block.coverage.name)
            channels.append(block.coverage)
            arrays.append(_coverage(block, present, rows))
    metadata = encode_metadata(
        host=batch.host, boot=batch.boot, sequence=batch.sequence, facts=batch.facts, channels=channels
    )
    return Segment(
        host=batch.host,
        start=datetime.fromtimestamp(batch.ts[0] // 1000 / 1e6, UTC),
        boot=batch.boot,
        sequence=batch.sequence,
        data=encode_table(names, arrays, metadata),
        rows=rows,
        columns=len(channels),
    )


def _coverage(block: Block, present: npt.NDArray[np.bool_], rows: int) -> Array:
    """Return the share of a source's living channels that gave a value at each of its reads, in percent."""
    living = [s for s, column in enumerate(block.columns) if column is not None and s not in block.gone]
    share = np.zeros(rows)
    read = np.zeros(rows, dtype=bool)
    read[block.ticks] = bool(living)
    if living:
        share = 100.0 * present[living].mean(axis=0)
    return arrow_array(share.astype(np.float32), read)
