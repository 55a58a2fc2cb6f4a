"""The object store goes away in the middle of a run, as when its server is killed, and comes back."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from faulty_server import FaultyServer, Reset
from interrupted_runs import assert_as_undisturbed, command, fill, newest_start, run
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

from reveal_core.errors import UnavailableError
from storage.store import Store

BUCKET = "outage"


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyServer]:
    """An S3 server that this process and its children use; it keeps what it has while it is away."""
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    front = FaultyServer(f"http://{host}:{port}")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": front.url,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "1",  # nobody comes back while it is tried again
        }.items():
            patch.setenv(name, value)
        S3FileSystem.clear_instance_cache()  # one made before has another address
        Store(f"s3://{BUCKET}").backend.fs.mkdir(BUCKET)
        yield front
        S3FileSystem.clear_instance_cache()
    front.close()
    moto.stop()


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "after"),
    [
        ("/scores/", False),
        ("/scores/", True),
        ("/incidents/", True),
        ("/ledger/host", False),
        ("/reports/", True),
        ("judged.json", False),
    ],
)
def test_a_run_that_loses_its_store_is_made_good_by_the_next(
    fitted_store, server: FaultyServer, moment: str, after: bool
) -> None:
    start = newest_start()
    label = f"{fitted_store.model['model']}@{fitted_store.model['version']}"
    environment = {**os.environ, "MLFLOW_TRACKING_URI": fitted_store.tracking_uri}
    name = f"{moment.strip('/').replace('/', '-')}-{after}"
    cut, whole = (fill(f"s3://{BUCKET}/{name}/{kind}", start) for kind in ("cut", "whole"))
    away = []

    def fault(method: str, path: str) -> Reset | None:
        if away:
            return Reset()
        if method == "PUT" and "/cut/" in path and moment in path:
            away.append(path)
            return Reset(after)
        return None

    server.fault = fault
    done = subprocess.run(
        command(cut), env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    assert away, "it never came to that"
    assert done.returncode == UnavailableError.exit_code, done.stderr
    assert done.stdout == ""
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"reveal: store s3://{BUCKET}/{name}/cut"), done.stderr
    server.fault = None
    found = [run(store, environment) for store in (cut, whole)]
    assert len(found[1]["incidents"]) == 1
    if moment != "judged.json":
        assert [i["id"] for i in found[0]["incidents"]] == [i["id"] for i in found[1]["incidents"]]
    assert_as_undisturbed(cut, whole, label, start)
