from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from storage.store import Store

CREDENTIALS = {"key": "testing", "secret": "testing", "client_kwargs": {"region_name": "eu-west-1"}}


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_options(s3_endpoint: str) -> dict[str, Any]:
    return {**CREDENTIALS, "endpoint_url": s3_endpoint}


@pytest.fixture
def bucket(s3_options: dict[str, Any]) -> str:
    import s3fs

    name = f"reveal-{secrets.token_hex(6)}"
    s3fs.S3FileSystem(**s3_options).mkdir(name)
    return name


@pytest.fixture(params=["local", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A new, empty store of each kind."""
    if request.param == "local":
        return Store(str(tmp_path / "store"))
    if request.param == "memory":
        return Store(f"memory://{secrets.token_hex(6)}")
    options = request.getfixturevalue("s3_options")
    return Store(f"s3://{request.getfixturevalue('bucket')}/some/prefix", options)


@pytest.fixture
def local_store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture
def powerless() -> Iterator[None]:
    """Lose root's right to write everywhere, for the time of a test."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
