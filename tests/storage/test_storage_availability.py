from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from storage_parts import T0, segment

from reveal_core.errors import UnavailableError
from storage.store import Store


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter (pytest's own is closed to them) and only its owner may write."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


def one_line(caught: pytest.ExceptionInfo[UnavailableError]) -> str:
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3
    return str(caught.value)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nosuch://x/y", "no file system is known for nosuch://"),
        ("sftp://me:secret@host/x", "needs the Python package paramiko"),
        ("gs://bucket/x", "needs the Python package gcsfs"),
        ("s3://", "names no bucket"),
        ("", "the URL is empty"),
    ],
)
def test_a_url_that_cannot_be_opened(url: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("paramiko", "gcsfs"):  # as on a machine that has neither
        monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(UnavailableError, match=says) as caught:
        Store(url)
    assert "secret" not in one_line(caught)


def test_a_new_store_can_be_written_and_then_read(store: Store) -> None:
    store.check(write=True)
    assert store.hosts() == []
    store.check()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"nowhere: does not exist$"):
        Store(str(tmp_path / "nowhere")).check()


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    store = Store(str(tmp_path / "file"))
    with pytest.raises(UnavailableError, match="is not a folder"):
        store.check()
    for action in (lambda: store.check(write=True), lambda: store.put_segment(segment()), store.hosts):
        with pytest.raises(UnavailableError) as caught:
            action()
        assert "file" in one_line(caught)
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("there", [True, False])
def test_no_right_to_write(open_folder: Path, request: pytest.FixtureRequest, there: bool) -> None:
    store = Store(str(open_folder / "store"))
    if there:
        store.put_segment(segment())
    open_folder.chmod(0o555)
    for path in open_folder.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    one = segment(sequence=1)
    request.getfixturevalue("powerless")
    for action in (lambda: store.check(write=True), lambda: store.put_segment(one)):
        with pytest.raises(UnavailableError, match="Permission denied") as caught:
            action()
        one_line(caught)
    if there:
        assert store.read_telemetry("node-1", T0, T0.replace(hour=21)).telemetry.frame.height == 10


def test_a_bad_file_stays_where_nothing_can_be_written(
    open_folder: Path, request: pytest.FixtureRequest
) -> None:
    store = Store(str(open_folder / "store"))
    store.put_segment(segment())
    bad = store.put_segment(segment(sequence=1))
    Path(store.url, bad).write_bytes(b"no parquet")
    for path in (open_folder, *open_folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    request.getfixturevalue("powerless")
    read = store.read_telemetry("node-1", T0, T0.replace(hour=21))
    assert read.telemetry.frame.height == 10
    assert [(q.key, q.moved) for q in read.quarantined] == [(bad, False)]
    assert "left in place" in read.quarantined[0].reason
    assert Path(store.url, bad).read_bytes() == b"no parquet"


def test_no_right_to_read(open_folder: Path, request: pytest.FixtureRequest) -> None:
    store = Store(str(open_folder / "store"))
    store.put_segment(segment())
    Path(store.url).chmod(0)
    request.addfinalizer(lambda: Path(store.url).chmod(0o755))
    request.getfixturevalue("powerless")
    for action in (store.check, store.hosts):
        with pytest.raises(UnavailableError, match="Permission denied") as caught:
            action()
        one_line(caught)


def test_a_bucket_that_is_not_there(s3_options: dict[str, Any]) -> None:
    store = Store("s3://no-such-bucket/prefix", s3_options)
    for action in (store.check, lambda: store.check(write=True), lambda: store.put_segment(segment())):
        with pytest.raises(UnavailableError, match="no-such-bucket") as caught:
            action()
        one_line(caught)


@pytest.mark.parametrize("prefix", ["", "/new/prefix"])
def test_an_empty_bucket_or_prefix_can_be_reached(
    s3_options: dict[str, Any], bucket: str, prefix: str
) -> None:
    Store(f"s3://{bucket}{prefix}", s3_options).check()


def test_an_endpoint_that_nobody_serves(s3_options: dict[str, Any]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nothing else can answer there
        port = taken.getsockname()[1]
        quick = {"connect_timeout": 1, "retries": {"max_attempts": 0}}
        options = {**s3_options, "endpoint_url": f"http://127.0.0.1:{port}", "config_kwargs": quick}
        store = Store("s3://bucket/x", options)
        store.backend.fs.retries = 1
        with pytest.raises(UnavailableError, match="cannot reach it") as caught:
            store.check()
        one_line(caught)


def test_the_endpoint_comes_from_the_environment(
    s3_endpoint: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "AWS_ENDPOINT_URL": s3_endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    store = Store(f"s3://{bucket}/from-environment", {"skip_instance_cache": True})
    store.put_segment(segment())
    assert store.hosts() == ["node-1"]


def test_two_stores_see_what_the_other_wrote(s3_options: dict[str, Any], bucket: str) -> None:
    one, other = (Store(f"s3://{bucket}/p", {**s3_options, "skip_instance_cache": True}) for _ in range(2))
    assert one.hosts() == other.hosts() == []
    one.put_segment(segment())
    assert other.hosts() == ["node-1"]
    other.put_segment(segment(host="node-2"))
    assert one.hosts() == ["node-1", "node-2"]
