"""The spool: nothing acknowledged is lost while a store is away, and the disk is not filled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.errors import UnavailableError
from reveal_core.segment import Segment
from storage import spool as module
from storage.spool import Spool, Uploader
from storage.store import Store

START = datetime(2026, 11, 30, 12, tzinfo=UTC)


def segment(number: int, size: int = 100) -> Segment:
    """Return a segment; only its name and length matter here."""
    start = START + timedelta(minutes=number)
    data = bytes([number % 256]) * size
    return Segment(host="node-1", start=start, boot="b", sequence=number, data=data, rows=1, columns=1)


class Away:
    """A store that can be away, slow, or never answer."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(str(folder))
        self.away = False
        self.free = threading.Event()
        self.free.set()
        self.written: list[str] = []
        self.real = self.store.backend.write
        self.store.backend.write = self.write  # type: ignore[method-assign]

    def write(self, key: str, data: bytes) -> None:
        self.free.wait()
        if self.away:
            raise UnavailableError("store s3://bucket: cannot write: 503")
        self.real(key, data)
        self.written.append(key)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(module, "LAST_RETRY_S", 0.05)


@pytest.mark.usefixtures("quick")
def test_what_waited_goes_out_in_order_when_the_store_is_back(tmp_path: Path) -> None:
    target = Away(tmp_path / "store")
    target.away = True
    spool = Spool(tmp_path / "spool")
    stored: list[str] = []
    uploader = Uploader(spool, target.store, lambda key, _size: stored.append(key))
    keys = [spool.add(segment(number)) for number in range(5)]
    uploader.notify()
    wait_for(lambda: uploader.problem is not None)
    assert len(spool) == 5
    assert not stored
    target.away = False
    wait_for(lambda: len(spool) == 0)
    assert stored == target.written == keys
    assert uploader.finish(5) == 0
    assert not list((tmp_path / "spool").rglob("*.parquet"))
    assert uploader.problem is None


def test_a_later_process_brings_away_what_an_earlier_one_left(tmp_path: Path) -> None:
    keys = [Spool(tmp_path / "spool").add(segment(number)) for number in range(3)]
    again = Spool(tmp_path / "spool")
    assert len(again) == 3
    assert again.size == 300
    target = Away(tmp_path / "store")
    assert Uploader(again, target.store, lambda _key, _size: None).finish(10) == 0
    assert target.written == keys


def test_a_store_that_never_answers_keeps_nobody_from_ending(tmp_path: Path) -> None:
    target = Away(tmp_path / "store")
    target.free.clear()
    spool = Spool(tmp_path / "spool")
    uploader = Uploader(spool, target.store, lambda _key, _size: None)
    spool.add(segment(1))
    uploader.notify()
    assert uploader.finish(0.2) == 1
    assert len(list((tmp_path / "spool").rglob("*.parquet"))) == 1
    target.free.set()


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(1, 400), min_size=1, max_size=30))
def test_it_keeps_to_its_bound_and_gives_up_the_oldest(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    spool = Spool(tmp_path_factory.mktemp("spool"), max_bytes=1000)
    keys = [spool.add(segment(number, size)) for number, size in enumerate(sizes)]
    on_disk = sorted(path for path in spool.folder.rglob("*.parquet"))
    assert sum(path.stat().st_size for path in on_disk) == spool.size <= 1000
    kept = [str(path.relative_to(spool.folder)) for path in on_disk]
    assert kept == keys[len(keys) - len(kept) :]
    assert spool.given_up == len(keys) - len(kept)
    if spool.given_up:
        assert spool.size + sizes[spool.given_up - 1] > 1000


def test_a_spool_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="file"):
        Spool(tmp_path / "file")
