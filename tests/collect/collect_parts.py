"""What the tests of the collector share."""

from __future__ import annotations

import lzma
import shutil
from pathlib import Path

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.source import Source

REPOSITORY = Path(__file__).parents[2]
HOST_TREE = REPOSITORY / "tests/fixtures/host_tree"
SHARED = REPOSITORY.parent / "shared"


def copy_tree(target: Path) -> Path:
    """Return a copy of the captured host that a test may change."""
    return Path(shutil.copytree(HOST_TREE, target / "root"))


def open_source(kind: type[Source], root: Path, period_ms: int = 100) -> Source:
    """Return a source that was found, opened and read once."""
    source = kind(root, Columns(kind.name, period_ms, load_catalog(), load_left_out()))
    assert source.probe() is None
    source.open()
    source.read()
    return source


def values(source: Source) -> dict[str, int | None]:
    """Return the latest sample of each channel; None where it is missing."""
    columns = source.columns
    gone = columns.gone
    return {
        column.channel.name: None if columns.row[slot] == MISSING else columns.row[slot]
        for slot, column in enumerate(columns.slots)
        if column is not None and slot not in gone
    }


def read(source: Source) -> dict[str, int | None]:
    """Read a source again and return its samples."""
    source.read()
    return values(source)


def write(root: Path, relative: str, text: str) -> Path:
    """Write a file of a tree, with its folders."""
    path = root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


class FakeClock:
    """A clock that moves only when somebody sleeps, or by what a test says the work took.

    ``work_ns`` is taken at each asking for the wall clock, which happens once a tick.
    """

    def __init__(self, work_ns: list[int] | None = None) -> None:
        self.now = 1_000_000_000
        self.wall_offset = 1_764_000_000_000_000_000
        self.work = list(work_ns or [])

    def monotonic_ns(self) -> int:
        return self.now

    def boot_ns(self) -> int:
        return self.now + 5

    def wall_ns(self) -> int:
        wall = self.now + self.wall_offset
        if self.work:
            self.now += self.work.pop(0)
        return wall

    def sleep(self, seconds: float) -> None:
        self.now += max(1, round(seconds * 1e9))


def unpack_ttar(archive: Path, target: Path) -> None:
    """Unpack a tree in ttar's text form: ``Path: P``, then ``Lines: N`` and N lines, or ``SymlinkTo: T``."""
    with lzma.open(archive, "rt", encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().split("\n")
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        if line.startswith("Directory: "):
            (target / line[11:]).mkdir(parents=True, exist_ok=True)
        elif line.startswith("Path: "):
            path = target / line[6:]
            path.parent.mkdir(parents=True, exist_ok=True)
            head = lines[position]
            position += 1
            if head.startswith("SymlinkTo: "):
                path.symlink_to(head[11:])
                continue
            count = int(head.removeprefix("Lines: "))
            text = "".join(f"{text}\n" for text in lines[position : position + count]).replace(
                "NULLBYTE", "\0"
            )
            path.write_bytes(text.removesuffix("EOF\n").encode("utf-8", "surrogateescape"))
            position += count
