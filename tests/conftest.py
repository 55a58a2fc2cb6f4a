"""What several folders of tests share: small, synthetic, but valid telemetry in a store."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from synthetic_telemetry import PERIOD_S, SYNTHETIC_START, Span, synthetic_columns, synthetic_segment

from reveal_core.incidents import iso
from storage.store import Store

# A busy machine is no failure: nothing is timed in a test.
settings.register_profile("reveal", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("reveal")

StoreMaker = Callable[..., Path]


@pytest.fixture(scope="session")
def make_store() -> StoreMaker:
    """Return a function that fills a store with synthetic telemetry and returns its path."""

    def make(
        path: Path,
        hosts: Sequence[str] = ("node-1",),
        seconds: float = 180.0,
        bursts: Sequence[Span] = ((120.0, 128.0),),
        facts: dict | None = None,
    ) -> Path:
        store = Store(str(path))
        for seed, host in enumerate(hosts):
            columns = synthetic_columns(seconds, bursts, seed)
            rows = len(next(iter(columns.values())))
            for sequence, begin in enumerate(range(0, rows, 600)):
                part = {name: values[begin : begin + 600] for name, values in columns.items()}
                start = SYNTHETIC_START + timedelta(seconds=begin * PERIOD_S)
                store.put_segment(synthetic_segment(host, start, part, sequence, facts))
        return path

    return make


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may reach a server or read settings that the person who runs it has configured."""
    for name in (
        "PREFECT_API_URL",
        "MLFLOW_TRACKING_URI",
        "REVEAL_STORE",
        "REVEAL_CONFIG",
        "REVEAL_MLFLOW__URI",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_PROFILES_PATH", os.devnull)


@dataclass(frozen=True)
class FittedStore:
    """A store of one host with an incident, and the MLflow database that holds its fitted model."""

    path: Path
    tracking_uri: str
    model: dict[str, Any]


@pytest.fixture(scope="session")
def fitted_store(tmp_path_factory: pytest.TempPathFactory, make_store: StoreMaker) -> FittedStore:
    """Return a store whose hardware class has a champion; tests may add to it, not take away."""
    from flows.environment import prepare_environment
    from flows.pipelines import fit_detectors
    from tasks.runner import DirectRunner

    prepare_environment()
    path = make_store(tmp_path_factory.mktemp("fitted") / "store")
    uri = f"sqlite:///{path / 'mlflow.db'}"
    models = fit_detectors(
        DirectRunner(),
        store=str(path),
        tracking_uri=uri,
        host="*",
        start=None,
        end=iso(SYNTHETIC_START + timedelta(seconds=110)),
        profile="default",
        overrides={},
        seed=0,
        promote=False,
    )
    return FittedStore(path, uri, models[0])


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a Prefect server, the demo's; all tests share it, for it takes 15 s to start."""
    from flows.demo_parts import answers, start_prefect

    folder = tmp_path_factory.mktemp("prefect")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", "set by the server's start, unset here")
        server, api = start_prefect(folder)
        try:
            until = time.monotonic() + 120
            while not answers(f"{api}/health"):
                server.check()
                assert time.monotonic() < until
                time.sleep(0.2)
            yield api
        finally:
            if "flows.prefect_flows" in sys.modules:
                sys.modules["flows.prefect_flows"].drain()
            server.stop()
    assert (folder / "prefect" / "prefect.db").stat().st_size > 0
