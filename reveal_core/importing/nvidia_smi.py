"""Logs of ``nvidia-smi --query-gpu=… --format=csv -l`` and of ``nvidia-smi dmon``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from reveal_core.importing.cells import name_and_unit
from reveal_core.importing.dmon import read_dmon
from reveal_core.importing.findings import Findings
from reveal_core.importing.mapping import ColumnMapping, Form, TableMapping
from reveal_core.importing.names import PREFIX, plain_name
from reveal_core.importing.nvidia_names import NO_VALUES, WORDS, nvidia_target
from reveal_core.importing.streams import opened
from reveal_core.importing.tabular import Style, read_files, read_text_table
from reveal_core.importing.types import Chunk, ImportOptions, Layout

_INSTANCES = ("uuid", "gpu_uuid", "index", "pci.bus_id", "gpu_bus_id")
"""Columns that tell GPUs apart, the best first."""
_IDENTITIES = (
    "driver_version",
    "count",
    "name",
    "serial",
    "uuid",
    "index",
    "vbios_version",
    "inforom.img",
    "inforom.oem",
    "inforom.ecc",
    "inforom.pwr",
    "compute_cap",
    "clocks_event_reasons.supported",
    "clocks_event_reasons.active",
    "clocks_throttle_reasons.supported",
    "clocks_throttle_reasons.active",
    "hostname",
)
"""What a GPU is, and sums of flags that have columns of their own: no samples."""


def read(source: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read a log, or those of a folder; see `types.Reader`."""

    def one(path: Path) -> Iterator[Chunk | Layout]:
        with opened(path) as file:
            first = file.readline(1 << 16)
        if first.lstrip().startswith(b"#"):
            return read_dmon(path, options, findings, "nvidia-smi")
        return read_text_table(path, STYLE, options, findings)

    return read_files(source, ("*.csv", "*.log", "*.txt", "*.csv.gz", "*.csv.xz"), findings, one)


def gpu_name(text: str) -> str:
    """Return the instance of a GPU as the collector names it: the beginning of its UUID, else ``gpu0``.

    >>> gpu_name("GPU-3d4f9b3a-1111-2222-3333-444455556666"), gpu_name("0")
    ('GPU-3d4f9b3a', 'gpu0')
    """
    bare = text.strip()
    if bare.isdigit():
        return f"gpu{bare}"
    return "-".join(bare.split("-")[:2]) if bare.startswith(("GPU-", "MIG-")) else bare


def mapping_of(names: Sequence[str], said: TableMapping) -> TableMapping:
    """Return the mapping of a log's columns, with what a person said of time and host."""
    bare = {name: name_and_unit(name) for name in names}
    by_field = {field: name for name, (field, _) in bare.items()}
    columns: dict[str, ColumnMapping] = {}
    ignored = set(said.ignore)
    for name, (field, unit) in bare.items():
        target = nvidia_target(field, unit)
        if target is not None:
            columns[name] = ColumnMapping(metric=target.metric, form=_form(target.form), scale=target.scale)
        elif field in _IDENTITIES or field.startswith(("pci.", "vgpu_", "platform.", "fabric.")):
            ignored.add(name)
        else:
            own = f"{PREFIX}.nvidia-smi.{plain_name(field)}"
            columns[name] = ColumnMapping(metric=own, unit=unit, subsystem="gpu")
    instance = next((by_field[field] for field in _INSTANCES if field in by_field), None)
    host = said.host
    if host.column is None and host.name is None and "hostname" in by_field:
        host = host.model_copy(update={"column": by_field["hostname"]})
    skipped = ignored & set(names) - {instance, host.column}
    return said.model_copy(
        update={
            "columns": {**{n: c for n, c in columns.items() if n != instance}, **said.columns},
            "ignore": sorted(skipped),
            "instance_column": said.instance_column or instance,
            "host": host,
        }
    )


def _form(form: str) -> Form:
    return "counter" if form == "counter" else "level"


STYLE = Style("nvidia-smi", mapping_of, WORDS, NO_VALUES, gpu_name)
