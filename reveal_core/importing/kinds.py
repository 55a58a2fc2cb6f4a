"""Every kind of source that can be imported, in one visible list: a module each.

What is asked of a server is no kind of these: `tasks.prometheus_importing` has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reveal_core.errors import UsageError
from reveal_core.importing import (
    dmon,
    nvidia_smi,
    otlp,
    perf_stat,
    reveal_dataset,
    sadf,
    stats_collect,
    tabular,
    turbostat,
)
from reveal_core.importing.findings import Findings
from reveal_core.importing.types import Chunk, ImportOptions, Layout, Reader


@dataclass(frozen=True)
class Kind:
    """A kind of source.

    Attributes
    ----------
    name
        What it is called on the command line.
    source
        What SOURCE is.
    read
        Its reader.
    maps
        Whether a mapping file can say what its columns are.
    """

    name: str
    source: str
    read: Reader
    maps: bool = False


KINDS: tuple[Kind, ...] = (
    Kind("reveal-dataset", "a run, or folders of them, of the Reveal telemetry dataset", reveal_dataset.read),
    Kind("csv", "a table as delimited text, or a folder of such", tabular.read_csv, maps=True),
    Kind("parquet", "a table as Parquet, or a folder of such", tabular.read_parquet, maps=True),
    Kind("nvidia-smi", "a log of nvidia-smi --query-gpu --format=csv or of nvidia-smi dmon", nvidia_smi.read),
    Kind("dcgmi", "a log of dcgmi dmon", dmon.read),
    Kind("sadf", "the output of sadf -j, from recordings of sar", sadf.read),
    Kind("turbostat", "a log of turbostat", turbostat.read),
    Kind("perf", "a log of perf stat -I", perf_stat.read),
    Kind("stats-collect", "raw logs of stats-collect, a folder for each host", stats_collect.read),
    Kind("otlp", "OTLP JSON of the OpenTelemetry collector's host metrics, or a folder of such", otlp.read),
)


SERVERS = ("prometheus",)
"""What is asked of a server."""


def kind_of(name: str) -> Kind:
    """Return a kind by its name.

    Raises
    ------
    UsageError
        If there is none of that name.
    """
    for kind in KINDS:
        if kind.name == name:
            return kind
    known = [*(kind.name for kind in KINDS), *SERVERS]
    raise UsageError(f"there is no kind {name!r} to import: choose from {', '.join(known)}")


def read_source(
    kind: Kind, source: Path, options: ImportOptions, findings: Findings
) -> Iterator[Chunk | Layout]:
    """Read a source.

    Raises
    ------
    UsageError
        If it is not there, or of no use as this kind.
    """
    if options.mapping is not None and not kind.maps:
        raise UsageError(f"--mapping is of no use for {kind.name}: its columns are known by name")
    if not source.exists():
        raise UsageError(f"{source} is not there")
    return kind.read(source, options, findings)
