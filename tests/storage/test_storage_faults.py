"""A real S3 server that fails as such servers do: slow, busy, gone in the middle, credentials too old."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from faulty_server import Answer, Delay, Fault, FaultyServer, Reset
from storage_parts import T0, segment

from reveal_core.errors import UnavailableError
from storage.store import Store

QUICK = {"connect_timeout": 5, "retries": {"max_attempts": 1}}
"""One try more than the first; s3fs has tries of its own around these."""


@pytest.fixture
def faulty(s3_endpoint: str) -> Iterator[FaultyServer]:
    server = FaultyServer(s3_endpoint)
    yield server
    server.close()


@pytest.fixture
def remote(faulty: FaultyServer, s3_options: dict[str, Any], bucket: str) -> Store:
    """A store with a segment, behind a server that may fail."""
    options = {"endpoint_url": faulty.url, "config_kwargs": QUICK, "skip_instance_cache": True}
    store = Store(f"s3://{bucket}/some", {**s3_options, **options})
    store.backend.fs.retries = 2
    store.put_segment(segment())
    return store


def first(times: int, fault: Reset | Answer) -> Fault:
    """Let so many requests fail and no more."""
    seen = count()
    return lambda _method, _path: fault if next(seen) < times else None


def always(fault: Reset | Answer) -> Fault:
    return lambda _method, _path: fault


BUSY = Answer(503, "SlowDown")
EXPIRED = Answer(403, "ExpiredToken")


def rows(store: Store) -> int:
    return store.read_telemetry("node-1", T0, T0.replace(hour=21)).telemetry.frame.height


@pytest.mark.parametrize("fault", [BUSY, Answer(500, "InternalError"), Reset(), Reset(after=True)])
def test_what_fails_once_is_tried_again(remote: Store, faulty: FaultyServer, fault) -> None:
    faulty.fault = first(1, fault)
    assert remote.hosts() == ["node-1"]
    faulty.fault = first(1, fault)
    assert rows(remote) == 10
    faulty.fault = first(1, fault)
    remote.put_segment(segment(host="node-2"))
    assert remote.hosts() == ["node-1", "node-2"]


def test_a_slow_server_is_waited_for(remote: Store, faulty: FaultyServer) -> None:
    faulty.fault = lambda _method, _path: Delay(0.2)
    assert rows(remote) == 10


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (BUSY, "SlowDown|reduce your request rate|503"),
        (Reset(), "[Cc]onnect"),
        (EXPIRED, "[Ee]xpired"),
    ],
)
@pytest.mark.parametrize("action", ["read", "write"])
def test_what_fails_for_good_is_told_in_one_line_and_costs_nothing(
    remote: Store, faulty: FaultyServer, fault: Reset | Answer, said: str, action: str
) -> None:
    actions: dict[str, Callable[[], object]] = {
        "read": lambda: rows(remote),
        "write": lambda: remote.put_segment(segment(host="node-2")),
    }
    faulty.fault = always(fault)
    with pytest.raises(UnavailableError, match=said) as caught:
        actions[action]()
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("store s3://")
    faulty.fault = None
    assert remote.hosts() == ["node-1"]
    assert rows(remote) == 10


def test_a_put_that_is_cut_short_leaves_nothing_or_the_whole(remote: Store, faulty: FaultyServer) -> None:
    for number, after in enumerate((False, True), 2):
        faulty.fault = lambda method, _path, after=after: Reset(after) if method == "PUT" else None
        with pytest.raises(UnavailableError):
            remote.put_segment(segment(host=f"node-{number}"))
        faulty.fault = None
    assert remote.hosts() == ["node-1", "node-3"]
    read = remote.read_telemetry("node-3", T0, T0.replace(hour=21))
    assert (read.telemetry.frame.height, read.quarantined) == (10, [])


def test_a_bucket_that_vanishes(remote: Store, bucket: str) -> None:
    fs = remote.backend.fs
    fs.rm(bucket, recursive=True)
    with pytest.raises(UnavailableError, match="does not exist"):
        remote.check()
    with pytest.raises(UnavailableError, match=bucket):
        remote.put_segment(segment())
