"""What the names and the metadata files of the Reveal telemetry dataset say of a run."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from reveal_core.importing.findings import Findings
from reveal_core.importing.streams import opened

META_KEYS = ("phase", "mode", "model", "task", "dataset", "model_task", "workload")
_FILE = re.compile(
    r"(?P<phase>train|infer|data)_(?P<model>.+?)for(?P<task>[^_]+)_(?P<dataset>.+)_"
    r"(?P<start>\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2})_(?P<host>[^_]+)"
)
_PHASES = {"train": "train", "infer": "infer", "data": "fine-tuning"}
_META = ("meta_gpu.csv", "meta_cpu.csv")
_PACKED = re.compile(r"\.(gz|xz|bz2)$")


def job_of(name: str) -> dict[str, str] | None:
    """Return what a file's name says of the job, with ``start`` and ``host``; None for another kind of name.

    >>> job_of("infer_VGG16forImageClassification_CIFAR10_2025-05-11T12-27-13_nserver07.txt")["task"]
    'ImageClassification'
    """
    found = _FILE.fullmatch(plain_file(name).removesuffix(".txt"))
    return None if found is None else {**found.groupdict(), "phase": _PHASES[found["phase"]]}


def plain_file(name: str) -> str:
    """Return the name of a file as it was before it was compressed."""
    return _PACKED.sub("", name)


def descriptions(source: Path, findings: Findings) -> dict[str, dict[str, str]]:
    """Return the rows of the metadata files by name of the file that they describe.

    They are looked for in a folder and the two above it. Folders of the dataset may be spelt in two ways, so
    only the name of a file counts.
    """
    folders = [source, *source.parents[:2]] if source.is_dir() else list(source.parents[:3])
    found: dict[str, dict[str, str]] = {}
    for path in sorted({folder / name for folder in folders for name in _META}):
        if not path.is_file():
            continue
        with opened(path) as file:
            text = file.read().decode("utf-8", "replace")
        rows = csv.DictReader(text.splitlines())
        if not {"source_file", "n_rows"} <= set(rows.fieldnames or ()):
            findings.skip("metadata without the columns source_file and n_rows", item=path.name)
            continue
        for row in rows:
            found[Path(row["source_file"] or "").name] = {k: v or "" for k, v in row.items() if k is not None}
    return found
