"""The files of the Reveal telemetry dataset: tab-separated text, one run on one or two hosts a file.

Counts are per row, so they become rates; the disk counters of GPU hosts may be cumulative, which the first
rows of a file tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from reveal_core.errors import UsageError
from reveal_core.importing.counts import as_counts
from reveal_core.importing.dataset_meta import META_KEYS, descriptions, job_of, plain_file
from reveal_core.importing.dataset_names import (
    WHOLE,
    DatasetColumn,
    dataset_target,
    parse_column,
)
from reveal_core.importing.delimited import Delimited, Rows
from reveal_core.importing.findings import Findings
from reveal_core.importing.intervals import ONE_ROW, Intervals
from reveal_core.importing.names import Target, other_metric
from reveal_core.importing.streams import blocks, files_in, identity_of, opened
from reveal_core.importing.times import ISO, Times
from reveal_core.importing.types import Chunk, Floats, ImportedColumn, ImportOptions, Ints, Layout

SOURCE = "dataset"
WINDOW_S = 3.0
"""A run shorter than a window of the method's usual length cannot be scored by itself."""
_INTEL = ("Cycle_activity_stalls_l3_miss", "Hle_retired_commit")
_AMD = ("Ls_dc_accesses", "Ls_dispatch_ld_dispatch")


def read(source: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read a file of the dataset, or every text file of a folder; see `types.Reader`."""
    if options.zone is None:
        raise UsageError(
            f"{source}: the dataset's times are local and have no zone: say which with --timezone "
            "(for example --timezone Europe/London)"
        )
    paths = files_in(source, ("*.txt", "*.txt.gz", "*.txt.xz"))
    described = descriptions(source, findings)
    for path in paths:
        findings.where = str(path.relative_to(source)) if source.is_dir() else path.name
        try:
            yield from _Run(path, options, findings, described).chunks()
        except UsageError as error:
            if not source.is_dir():
                raise
            findings.skip(str(error))


@dataclass
class _Host:
    """The columns of one host in a file.

    ``places`` are of the gauges, then of the counters; ``forms`` and ``scales`` of the gauges.
    """

    layout: Layout
    gauge_places: list[int]
    forms: list[str]
    scales: Floats
    counter_places: list[int]
    counter_scales: list[float] = field(default_factory=list)


class _Run:
    """One file."""

    def __init__(
        self, path: Path, options: ImportOptions, findings: Findings, described: dict[str, dict[str, str]]
    ) -> None:
        self.path = path
        self.options = options
        self.findings = findings
        self.described = described.get(plain_file(path.name))
        self.rows = 0

    def chunks(self) -> Iterator[Chunk | Layout]:
        with opened(self.path) as file:
            header = file.readline(1 << 24).decode("utf-8", "replace").rstrip("\r\n")
            names, columns, ignored = self._columns(header)
            table = Delimited(names, "\t", self.findings, texts=(0,), ignored=ignored, quoted=False)
            times = Times(ISO, self.options.zone, self.findings)
            intervals = Intervals()
            hosts: list[_Host] = []
            for block in blocks(file):
                rows = table.parse(block)
                ts = times.ns(rows.texts[0], rows.line_of())
                since, usual = intervals.since_last(ts), intervals.usual(ts)
                if not rows.count:
                    continue
                if intervals.usual_s is None:
                    self.findings.skip(ONE_ROW)
                if not hosts:
                    hosts = self._layouts(columns, rows)
                self.rows += rows.count
                for host in hosts:
                    yield _chunk(host, rows, ts, since, usual)
            yield from (host.layout for host in hosts)
        self._compare(len(names) - 1, intervals)

    def _columns(self, header: str) -> tuple[list[str], dict[int, DatasetColumn], set[int]]:
        names = header.split("\t")
        if len(names) < 2 or names[0].strip():
            raise UsageError(
                f"{self.findings.where} is no file of the dataset: its header begins {header[:40]!r}"
            )
        columns: dict[int, DatasetColumn] = {}
        odd: dict[int, str] = {}
        ignored: set[int] = set()
        known: set[str] = set()
        for place, name in enumerate(names[1:], 1):
            if name in known:
                self.findings.skip(
                    "columns that the header names twice; the first is kept", item=f"column {name}"
                )
                ignored.add(place)
                continue
            known.add(name)
            column = parse_column(name)
            if column is None:
                odd[place] = name.strip() or f"column {place}"
            else:
                columns[place] = column
        hosts = {column.host for column in columns.values()}
        named = self._host_of_name()
        if hosts and named is not None and named not in hosts:
            self.findings.note("the host in a file's name is not that of its columns; the columns' holds")
        host = named if named is not None and (named in hosts or not hosts) else min(hosts, default="host")
        columns |= {place: DatasetColumn("", name, "", host, "") for place, name in odd.items()}
        return names, columns, ignored

    def _host_of_name(self) -> str | None:
        job = job_of(self.path.name)
        return job["host"] if job else None

    def _layouts(self, columns: dict[int, DatasetColumn], rows: Rows) -> list[_Host]:
        by_host: dict[str, dict[int, DatasetColumn]] = {}
        for place, column in columns.items():
            by_host.setdefault(column.host, {})[place] = column
        if self.options.host is not None and len(by_host) > 1:
            names = ", ".join(sorted(by_host))
            self.findings.note(f"--host is not used for files of several hosts ({names})")
        identity = identity_of(self.path)
        return [
            self._layout(host, own, rows, identity, len(by_host)) for host, own in sorted(by_host.items())
        ]

    def _layout(
        self, host: str, columns: dict[int, DatasetColumn], rows: Rows, identity: str, hosts: int
    ) -> _Host:
        cumulative = _cumulative(columns, rows)
        gauges: list[tuple[int, ImportedColumn, str, float]] = []
        counters: list[tuple[int, ImportedColumn, float]] = []
        taken: set[str] = set()
        per_cpu = {c.metric for c in columns.values() if c.family == "Turbostat" and c.instance != WHOLE}
        for place, column in columns.items():
            target, instance = dataset_target(column)
            if column.family == "Turbostat" and column.instance == WHOLE and column.metric in per_cpu:
                # The whole machine's mean beside the CPUs would count as one of them.
                target, column = None, replace(column, metric=f"whole.{column.metric}")
            if target is not None and target.form == "count" and place in cumulative:
                target = Target(target.metric, "counter", target.scale)
            if target is not None and column.metric == "IPC":
                target = replace(target, scale=self._ipc_scale(columns, place, rows))
            made, form, scale = self._column(column, target, instance, place in cumulative)
            if made.name in taken:
                made, form, scale = self._column(column, None, instance, place in cumulative)
            if made.name in taken:
                self.findings.skip("columns whose channel is there already", item=f"column {made.name}")
                continue
            taken.add(made.name)
            if form == "counter":
                counters.append((place, made, scale))
            else:
                gauges.append((place, made, form, scale))
        label = self.options.host if self.options.host is not None and hosts == 1 else host
        layout = Layout(
            label,
            identity,
            self._facts(columns, gauges),
            tuple(made for _, made, _, _ in gauges),
            tuple(made for _, made, _ in counters),
        )
        return _Host(
            layout,
            [place for place, *_ in gauges],
            [form for _, _, form, _ in gauges],
            np.array([scale for *_, scale in gauges]),
            [place for place, *_ in counters],
            [scale for *_, scale in counters],
        )

    def _column(
        self, column: DatasetColumn, target: Target | None, instance: str, cumulative: bool
    ) -> tuple[ImportedColumn, str, float]:
        family = (column.family or "CPU").removesuffix("_diff").lower()
        source = f"{SOURCE}.{family}"
        if target is not None:
            metric, scale = target.stored()
            return ImportedColumn(metric, instance, source), target.form, scale
        unit = "" if column.unit == "-" else column.unit
        form = "counter" if cumulative else "level"
        if column.family.endswith("_diff") and column.unit not in ("%", "-"):
            form = "count"
        elif column.family == "Perf" and column.unit == "count":
            form = "interval"
        metric = other_metric(
            family,
            column.metric,
            unit=f"{unit}/s" if form in ("count", "interval") else unit,
            subsystem=_SUBSYSTEM.get(family, ""),
            kind="counter" if form == "counter" else "gauge",
        )
        self.findings.unmapped(f"{column.family}:{column.metric}".lstrip(":"), metric.name)
        where = {WHOLE: ""}.get(column.instance, instance)
        return ImportedColumn(metric, where, source), form, 1.0

    def _ipc_scale(self, columns: dict[int, DatasetColumn], place: int, rows: Rows) -> float:
        """Return what instructions per cycle are multiplied with: Intel hosts give them in percent."""
        given = rows.numbers[place]
        parts = {c.metric: rows.numbers[p] for p, c in columns.items() if c.family == "Perf"}
        with np.errstate(divide="ignore", invalid="ignore"):
            if "Instructions" in parts and "Cycles" in parts:
                ratios = given / (parts["Instructions"] / parts["Cycles"])
            else:
                ratios = np.where(given > 10, 100.0, 1.0)  # no processor retires ten instructions a cycle
        ratios = ratios[np.isfinite(ratios)]
        if len(ratios) and abs(float(np.median(ratios)) - 100.0) < 1.0:
            self.findings.note("Perf:IPC is in percent on some hosts and was divided by 100 there")
            return 0.01
        if len(ratios) and abs(float(np.median(ratios)) - 1.0) > 0.01:
            self.findings.note("Perf:IPC does not agree with instructions and cycles; it is kept as it is")
        return 1.0

    def _facts(
        self, columns: dict[int, DatasetColumn], gauges: Sequence[tuple[int, ImportedColumn, str, float]]
    ) -> dict[str, Any]:
        perf = {c.metric for c in columns.values() if c.family == "Perf"}
        vendor = "Intel" if perf & set(_INTEL) else ("AMD" if perf & set(_AMD) else None)
        cpus = {made.instance for _, made, _, _ in gauges if made.metric.name in ("cpu.busy", "perf.busy")}
        gpus = sorted({c.instance for c in columns.values() if c.family == "GPU" and c.instance}, key=int)
        job = job_of(self.path.name) or {}
        described = {
            key: self.described[key] for key in META_KEYS if self.described and key in self.described
        }
        return {
            "cpu": {"model": vendor, "logical": len(cpus - {""}) or None},
            "gpus": [{"index": int(gpu), "name": f"gpu{gpu}"} for gpu in gpus],
            "job": {**{k: v for k, v in job.items() if k != "host"}, **described, "file": self.path.name},
            "imported": {"kind": "reveal-dataset", "file": self.path.name},
        }

    def _compare(self, width: int, intervals: Intervals) -> None:
        """Say where the metadata do not agree with the file, and that a run is too short for a window."""
        if self.described is not None:
            for key, found in (("n_rows", self.rows), ("n_cols", width)):
                if self.described.get(key, "") not in ("", str(found)):
                    self.findings.note(f"{key} of the metadata differs from the file's; the file's holds")
        seconds = self.rows * (intervals.usual_s or 0.0)
        if seconds < WINDOW_S:
            self.findings.note(f"a run is shorter than a window of {WINDOW_S:g} s: it cannot be scored alone")


_SUBSYSTEM = {
    "perf": "cpu",
    "turbostat": "cpu",
    "cpu": "cpu",
    "memory": "memory",
    "meminfo": "memory",
    "gpu": "gpu",
    "storage": "storage",
    "networkinterstat": "network",
    "networkprotocolcounts": "network",
    "networktcpretrans": "network",
}


def _cumulative(columns: dict[int, DatasetColumn], rows: Rows) -> set[int]:
    """Return the places of the family Storage if its counts are cumulative, as /proc/diskstats gives them.

    They are if none of them goes back in the first rows and some was above zero at the beginning: counts per
    row of a disk that works go up and down.
    """
    places = [p for p, c in columns.items() if c.family == "Storage" and "progress" not in c.metric]
    if not places or rows.count < 2:
        return set()
    values = np.stack([rows.numbers[place] for place in places])
    with np.errstate(invalid="ignore"):
        back = bool((np.diff(values, axis=1) < 0).any())
        begun = bool((values[:, 0] > 0).any() and (values[:, -1] > 0).any())
    return set(places) if begun and not back else set()


def _chunk(host: _Host, rows: Rows, ts: Ints, since: Floats, usual: Floats) -> Chunk:
    gauges = np.empty((len(host.gauge_places), rows.count), dtype=np.float32)
    per = {"count": 1.0 / since, "interval": 1.0 / usual}
    with np.errstate(over="ignore"):
        for row, (place, form, scale) in enumerate(
            zip(host.gauge_places, host.forms, host.scales, strict=True)
        ):
            values = rows.numbers[place]
            if form == "level":
                gauges[row] = values if scale == 1.0 else values * scale
            else:
                gauges[row] = values * (per[form] * scale)
    counters = np.empty((len(host.counter_places), rows.count), dtype=np.int64)
    for row, (place, scale) in enumerate(zip(host.counter_places, host.counter_scales, strict=True)):
        counters[row] = as_counts(rows.numbers[place], scale)
    return Chunk(host.layout, ts, gauges, counters)
