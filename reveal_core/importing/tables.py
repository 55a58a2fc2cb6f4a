"""Tables of anybody, wide or long, as chunks: what CSV, Parquet and the logs of nvidia-smi have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reveal_core.channels import split_name
from reveal_core.collect.columns import MISSING
from reveal_core.importing.counts import as_counts
from reveal_core.importing.findings import Findings
from reveal_core.importing.intervals import ONE_ROW, Intervals
from reveal_core.importing.mapping import TableMapping, stored_as
from reveal_core.importing.names import PREFIX, known_metric
from reveal_core.importing.types import NO_TIME, Chunk, Floats, ImportedColumn, ImportOptions, Ints, Layout

DEFAULT_HOST = "imported"


@dataclass(frozen=True)
class Part:
    """A piece of a table.

    Attributes
    ----------
    ts
        Times of the rows, `NO_TIME` where there is none.
    texts
        Columns of text by name: hosts, instances, metric names.
    numbers
        Columns of numbers by name, float64 or int64.
    """

    ts: Ints
    texts: Mapping[str, Sequence[str]]
    numbers: Mapping[str, Floats | Ints]


@dataclass
class _Slot:
    column: ImportedColumn
    form: str
    scale: float


@dataclass
class _HostState:
    """What is known of a host so far: its channels, and when each instance was seen last."""

    slots: dict[tuple[str, str], _Slot | None] = field(default_factory=dict)
    intervals: dict[str, Intervals] = field(default_factory=dict)
    layout: Layout | None = None
    names: set[str] = field(default_factory=set)
    gauge_rows: dict[tuple[str, str], int] = field(default_factory=dict)
    counter_rows: dict[tuple[str, str], int] = field(default_factory=dict)


class TableReader:
    """Makes chunks of the parts of one table.

    Parameters
    ----------
    kind
        For the names of columns that the catalogue does not know.
    identity
        Of the file.
    mapping, options, findings
        What was said of the table, and who is told what is left out.
    file
        Its name, for the facts.
    instance_of
        Changes what an instance column says into the instance's name.
    """

    def __init__(
        self,
        kind: str,
        identity: str,
        mapping: TableMapping,
        options: ImportOptions,
        findings: Findings,
        *,
        file: str,
        instance_of: Callable[[str], str] = str,
    ) -> None:
        self.kind = kind
        self.identity = identity
        self.mapping = mapping
        self.options = options
        self.findings = findings
        self.facts: dict[str, Any] = {"imported": {"kind": kind, "file": file}}
        if mapping.job:
            self.facts["job"] = mapping.job
        self.instance_of = instance_of
        self.hosts: dict[str, _HostState] = {}

    def chunks(self, part: Part) -> Iterator[Chunk | Layout]:
        """Yield the chunks of a part, one a host, and layouts that have ended."""
        for host, rows in self._by_host(part).items():
            state = self.hosts.setdefault(host, _HostState())
            rows = rows[part.ts[rows] != NO_TIME]
            before = state.layout
            ts = part.ts[rows]
            texts = {name: [column[row] for row in rows] for name, column in part.texts.items()}
            numbers = {name: column[rows] for name, column in part.numbers.items()}
            samples = (
                self._long(state, ts, texts, numbers)
                if self.mapping.long
                else self._wide(state, ts, texts, numbers)
            )
            if before is not None and state.layout is None:
                yield before  # channels have come up that it lacks
            chunk = self._chunk(host, state, ts, samples)
            if chunk is not None:
                yield chunk

    def layouts(self) -> Iterator[Layout]:
        """Yield the layouts that are open, now that the table has ended."""
        yield from (state.layout for state in self.hosts.values() if state.layout is not None)

    def _by_host(self, part: Part) -> dict[str, Ints]:
        column = self.mapping.host.column
        if column is not None and self.options.host is not None:
            self.findings.note(f"--host is not used: column {column} names the hosts")
        if column is None:
            name = self.options.host or self.mapping.host.name or DEFAULT_HOST
            return {name: np.arange(len(part.ts))}
        rows: dict[str, list[int]] = {}
        nameless = 0
        for row, text in enumerate(part.texts[column]):
            if text:
                rows.setdefault(f"{self.mapping.host.prefix}{text}", []).append(row)
            else:
                nameless += 1
        if nameless:
            self.findings.skip(f"rows without a host in column {column}", count=nameless)
        return {host: np.array(found) for host, found in rows.items()}

    def _wide(
        self,
        state: _HostState,
        ts: Ints,
        texts: Mapping[str, Sequence[str]],
        numbers: Mapping[str, Floats | Ints],
    ) -> list[tuple[_Slot, tuple[str, str], Ints, Floats | Ints]]:
        """Return for each channel its rows and values."""
        found = []
        for instance, rows in self._instances(texts, len(ts)).items():
            since = state.intervals.setdefault(instance, Intervals()).since_last(ts[rows])
            for name, values in numbers.items():
                slot = self._slot(state, name, instance)
                if slot is not None:
                    told = self._told(values[rows], slot, since)
                    found.append((slot, (name, instance), rows, told))
        return found

    def _instances(self, texts: Mapping[str, Sequence[str]], count: int) -> dict[str, Ints]:
        column = self.mapping.instance_column
        if column is None or column not in texts:
            return {"": np.arange(count)}
        rows: dict[str, list[int]] = {}
        for row, text in enumerate(texts[column]):
            rows.setdefault(self.instance_of(text) if text else "", []).append(row)
        return {instance: np.array(found) for instance, found in rows.items()}

    def _long(
        self,
        state: _HostState,
        ts: Ints,
        texts: Mapping[str, Sequence[str]],
        numbers: Mapping[str, Floats | Ints],
    ) -> list[tuple[_Slot, tuple[str, str], Ints, Floats | Ints]]:
        long = self.mapping.long
        assert long is not None
        instances = texts.get(self.mapping.instance_column or "", [""] * len(ts))
        rows: dict[tuple[str, str], list[int]] = {}
        nameless = 0
        for row, (name, instance) in enumerate(zip(texts[long.metric], instances, strict=True)):
            if name:
                rows.setdefault((name, self.instance_of(instance) if instance else ""), []).append(row)
            else:
                nameless += 1
        if nameless:
            self.findings.skip(f"rows without a name in column {long.metric}", count=nameless)
        found = []
        for (name, instance), listed in rows.items():
            if name in self.mapping.ignore:
                continue
            slot = self._slot(state, name, instance)
            if slot is None:
                continue
            places = np.array(listed)
            since = state.intervals.setdefault(f"{name}\0{instance}", Intervals()).since_last(ts[places])
            told = self._told(numbers[long.value][places], slot, since)
            found.append((slot, (name, instance), places, told))
        return found

    def _told(self, values: Floats | Ints, slot: _Slot, since: Floats) -> Floats | Ints:
        """Return values as they are stored; a count becomes a rate."""
        if slot.form == "counter":
            return as_counts(values, slot.scale)
        plain: Floats = values.astype(np.float64)
        if values.dtype.kind == "i":
            plain[values == MISSING] = np.nan
        if slot.form != "count":
            return plain * slot.scale
        if np.isnan(since).any():
            self.findings.skip(ONE_ROW)
        return plain * slot.scale / since

    def _slot(self, state: _HostState, name: str, instance: str) -> _Slot | None:
        key = name, instance
        if key in state.slots:
            return state.slots[key]
        mapped = self.mapping.columns.get(name)
        bare, own = name, instance
        if mapped is None and not known_metric(name):
            metric, part = split_name(name)  # a table in Reveal's own names: cpu.user/cpu0
            if part and known_metric(metric):
                bare, own = metric, part
        elif mapped is not None:
            own = instance or mapped.instance
        metric_, form, scale = stored_as(self.kind, bare, mapped)
        column = ImportedColumn(metric_, own, self.kind)
        if metric_.name.startswith(f"{PREFIX}."):
            self.findings.unmapped(name, metric_.name)
        slot: _Slot | None = _Slot(column, form, scale)
        if column.name in state.names:
            self.findings.skip("columns whose channel another column has already", item=f"column {name}")
            slot = None
        else:
            state.names.add(column.name)
            state.layout = None
        state.slots[key] = slot
        return slot

    def _chunk(
        self,
        host: str,
        state: _HostState,
        ts: Ints,
        samples: Sequence[tuple[_Slot, tuple[str, str], Ints, Floats | Ints]],
    ) -> Chunk | None:
        if not samples:
            return None
        if state.layout is None:
            known = {key: slot for key, slot in state.slots.items() if slot is not None}
            gauges = [key for key, slot in known.items() if slot.form != "counter"]
            counters = [key for key, slot in known.items() if slot.form == "counter"]
            state.gauge_rows = {key: row for row, key in enumerate(gauges)}
            state.counter_rows = {key: row for row, key in enumerate(counters)}
            state.layout = Layout(
                host,
                self.identity,
                {**facts_of([slot.column for slot in known.values()]), **self.facts},
                tuple(known[key].column for key in gauges),
                tuple(known[key].column for key in counters),
            )
        moments, where = np.unique(ts, return_inverse=True) if self._folds else (ts, np.arange(len(ts)))
        levels = np.full((len(state.gauge_rows), len(moments)), np.nan, dtype=np.float32)
        counts = np.full((len(state.counter_rows), len(moments)), MISSING, dtype=np.int64)
        clashes = 0
        for slot, key, rows, values in samples:
            target = where[rows]
            if slot.form == "counter":
                row = counts[state.counter_rows[key]]
                clashes += _put(row, target, values, row != MISSING, values != MISSING)
            else:
                level = levels[state.gauge_rows[key]]
                clashes += _put(level, target, values, ~np.isnan(level), ~np.isnan(values))
        if clashes:
            self.findings.skip(
                "samples of a time and channel that had one already; the first is kept", count=clashes
            )
        return Chunk(state.layout, moments, levels, counts)

    @property
    def _folds(self) -> bool:
        """Whether several rows of the table make one row of samples."""
        return self.mapping.long is not None or self.mapping.instance_column is not None


def _put(row: np.ndarray, target: Ints, values: Floats | Ints, there: np.ndarray, present: np.ndarray) -> int:
    """Put values into a row, the first for each place; return how many found no room."""
    _, first = np.unique(target[present], return_index=True)
    chosen = np.flatnonzero(present)[first]
    free = ~there[target[chosen]]
    row[target[chosen[free]]] = values[chosen[free]]
    return int(present.sum()) - int(free.sum())


def facts_of(columns: Sequence[ImportedColumn]) -> dict[str, object]:
    """Return what the channels of a host say of its hardware."""
    cpus = {c.instance for c in columns if c.instance.startswith("cpu") and c.metric.subsystem == "cpu"}
    gpus = sorted({c.instance for c in columns if c.metric.subsystem == "gpu" and c.instance})
    return {
        "cpu": {"model": None, "logical": len(cpus) or None},
        "gpus": [{"index": number, "name": name} for number, name in enumerate(gpus)],
    }
