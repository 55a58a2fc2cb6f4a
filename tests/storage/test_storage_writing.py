from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem
from storage_parts import SECOND, T0, segment

import storage.backend
from reveal_core.errors import UnavailableError
from storage.backend import STALE_S, Backend
from storage.store import Store

WRITER = """
import sys
from datetime import UTC, datetime, timedelta
from reveal_core.segment import Segment
from storage.store import Store
store, size = Store(sys.argv[1]), int(sys.argv[2])
for n in range(10**6):
    start = datetime(2026, 11, 29, tzinfo=UTC) + timedelta(seconds=n % 40)
    store.put_segment(Segment("node-1", start, "b", n % 40, bytes([n % 40]) * size, 1, 1))
    print(n, flush=True)
"""


def files(store: Store) -> dict[str, bytes]:
    root = Path(store.url)
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_writing_twice_is_harmless(store: Store) -> None:
    one = segment()
    key = store.put_segment(one)
    assert store.put_segment(one) == key
    assert store.backend.read(key) == one.data
    assert store.backend.names(key.rpartition("/")[0]) == [key.rpartition("/")[2]]


def test_a_damaged_file_is_healed_by_writing_it_again(store: Store) -> None:
    one = segment()
    key = store.put_segment(one)
    store.backend.write(key, b"PAR1")
    store.put_segment(one)
    assert store.backend.read(key) == one.data


def test_odd_host_names_are_kept_apart(store: Store) -> None:
    names = ["../up", ".", "a/b", "a%2Fb", "rack 7", "näme", "*", "[x]", "host=1", "q?versionId=3"]
    for name in names:
        store.put_segment(segment(host=name))
    assert store.hosts() == sorted(names)
    for name in names:
        assert store.read_telemetry(name, T0, T0 + 10 * SECOND).telemetry.frame.height == 10


def test_importing_the_store_to_write_segments_stays_light() -> None:
    heavy = ("polars", "pyarrow", "pandas", "sklearn", "prefect", "mlflow")
    code = f"import sys; from storage.store import Store; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_killed_writer_leaves_no_half_file(tmp_path: Path) -> None:
    size = 3_000_000
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    store = Store(str(tmp_path / "store"))
    left_over = 0
    for _ in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, store.url, str(size)], stdout=subprocess.PIPE, cwd=Path.cwd()
        )
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(chance.uniform(0, 0.1))
        finally:
            writer.send_signal(signal.SIGKILL)
            writer.communicate()
        found = files(store)
        left_over += sum("/.tmp/" in name for name in found)
        final = {name: data for name, data in found.items() if "/.tmp/" not in name}
        assert final
        for name, data in final.items():
            number = int(name.removesuffix(".parquet").rpartition("-")[2])
            assert data == bytes([number]) * size, f"{name} is half written (seed {seed})"
    assert all("/.tmp/" in name or name.endswith(".parquet") for name in files(store))
    # Whatever a kill in mid-write left is invisible to readers.
    assert store.hosts() == ["node-1"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_nothing(
    local_store: Store, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(storage.backend.os, step, fail)
        with pytest.raises(UnavailableError, match=r"cannot write telemetry/.*: No space left on device$"):
            local_store.put_segment(segment())
    assert files(local_store) == {}


def test_an_interrupted_write_leaves_nothing(local_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(storage.backend.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        local_store.put_segment(segment())
    assert files(local_store) == {}


def test_old_leftovers_are_swept_and_young_ones_kept(local_store: Store) -> None:
    local_store.put_segment(segment())
    folder = Path(local_store.url, "telemetry", ".tmp")
    now = int(time.time())
    old, young, foreign = folder / f"{now - int(STALE_S) - 5}-1-a", folder / f"{now}-1-a", folder / "x"
    for path in (old, young, foreign):
        path.write_bytes(b"half")
    Store(local_store.url).put_segment(segment(sequence=1))  # another writer, or the same a minute later
    assert [path.exists() for path in (old, young, foreign)] == [False, True, True]
    assert local_store.hosts() == ["node-1"]
    assert local_store.read_telemetry("node-1", T0, T0.replace(hour=21)).quarantined == []


def test_a_store_within_a_folder_with_odd_letters(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "a [1]* ?b%20 ü"))
    key = store.put_segment(segment())
    assert os.path.isfile(os.path.join(store.url, key))
    assert store.hosts() == ["node-1"]


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store("./data")
    monkeypatch.chdir("/")
    store.put_segment(segment())
    assert store.url == str(tmp_path / "data")
    assert (tmp_path / "data" / "telemetry").is_dir()


class Renaming(LocalFileSystem):
    """Stands for a file server: files can be renamed, though not onto one that is there."""

    protocol = "renaming"
    local_file = False

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return str(path).removeprefix("renaming://")

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        if os.path.exists(path2):
            raise FileExistsError(path2)
        os.rename(path1, path2)


class Copying(Renaming):
    protocol = "copying"
    mv = AbstractFileSystem.mv

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return str(path).removeprefix("copying://")


@pytest.fixture
def file_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    # A backend asks for LocalFileSystem to tell a local folder; these are to be taken for something remote.
    monkeypatch.setattr(storage.backend, "LocalFileSystem", type("Nothing", (), {}))
    fsspec.register_implementation("renaming", Renaming, clobber=True)
    fsspec.register_implementation("copying", Copying, clobber=True)


@pytest.mark.usefixtures("file_servers")
def test_a_file_server_is_written_by_rename(tmp_path: Path) -> None:
    backend = Backend(f"renaming://{tmp_path}/store")
    for data in (b"one", b"two"):
        backend.write("telemetry/x", data)
        assert backend.read("telemetry/x") == data
    assert list((tmp_path / "store/telemetry/.tmp").iterdir()) == []


@pytest.mark.usefixtures("file_servers")
def test_a_store_that_cannot_rename_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="cannot be written atomically"):
        Backend(f"copying://{tmp_path}/store").write("telemetry/x", b"one")
    assert not (tmp_path / "store/telemetry/x").exists()
