"""The claims beside what is measured: of a recording that is there, and what was not asked for."""

from __future__ import annotations

import json
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from flows.cli import main
from reveal_core.errors import UsageError
from reveal_core.evaluate.claims import CLAIMS
from tasks import benching, reproducing
from tasks.reproducing import GROUPS, LEAST_RUN_S, reproduce


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, make_store) -> str:
    path = tmp_path_factory.mktemp("recorded") / "store"
    return str(
        make_store(path, hosts=["training-1", "training-2", "serving-1", "serving-2"], seconds=LEAST_RUN_S)
    )


@pytest.mark.slow
def test_a_recording_is_measured_and_the_rest_is_said_to_be_missing(
    recorded: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "reproduction.md"
    page.write_text("# Ours\n")
    line = ["reproduce", "--recorded", recorded, "--only", "recording", "--markdown", str(page), "--json"]
    code = main(line)
    told = capsys.readouterr()
    assert code == 0, told.err
    rows = json.loads(told.out)
    assert [set(row) for row in rows] == [{"claim", "paper", "here", "how"}] * len(CLAIMS)
    here = {claim.id: row["here"] for claim, row in zip(CLAIMS, rows, strict=True)}
    assert here["channels"] == "19"
    assert here["metrics"] == "13"
    before, after = (float(here[name].split()[0]) for name in ("bytes-before", "bytes-after"))
    assert 0.0 < after < before
    assert here["stable"].endswith("pairs, 2 runs each")
    assert here["cpu-100ms"] == here["cases"] == "not measured"
    assert here["subsystems"] == "-"
    assert "| channels of a host | over 700 | 19 |" in page.read_text()
    table = [line for line in page.read_text().splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in table} == {5}
    assert {claim for claims in GROUPS.values() for claim in claims} <= {claim.id for claim in CLAIMS}


@pytest.mark.parametrize(
    ("hosts", "said"), [(["a-1"], "a has one run, two at least are compared"), ([], "it holds no telemetry")]
)
def test_a_store_that_is_no_recording(tmp_path: Path, make_store, hosts: list[str], said: str) -> None:
    path = make_store(tmp_path / "store", hosts=hosts, seconds=20)
    path.mkdir(exist_ok=True)
    with pytest.raises(UsageError, match=said):
        reproduce(tmp_path, runs=2, run_s=10.0, only=["recording"], store=str(path))


def test_runs_that_nothing_could_be_learned_from_are_refused_before_they_are_recorded(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--run 39 s is too short: at least 40 s"):
        reproduce(tmp_path, runs=10, run_s=LEAST_RUN_S - 1.0)
    assert not any(tmp_path.iterdir())


def test_speed_and_cost_of_the_collector_are_what_the_benches_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benching, "wide_host_cost", partial(benching.wide_host_cost, 2, 16, 8))
    monkeypatch.setattr(benching, "Workload", lambda _folder: nullcontext())  # it takes half a minute to rest
    for name, value in {"HOUR_S": 330.0, "CHANNELS": 40, "COLLECTED_S": 0.5}.items():
        monkeypatch.setattr(reproducing, name, value)
    rows = reproduce(tmp_path, runs=2, run_s=LEAST_RUN_S, only=["speed", "collector"])
    here = {claim.id: row["here"] for claim, row in zip(CLAIMS, rows, strict=True)}
    # So little is done that a hundredth of a second may be more than it takes.
    assert all(float(here[name].removesuffix(" s")) >= 0.0 for name in GROUPS["speed"])
    assert all(float(here[name].removesuffix(" % of a core")) > 0.0 for name in GROUPS["collector"])


def test_a_part_that_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose from collector, recording, speed, cases"):
        reproduce(tmp_path, runs=2, run_s=10.0, only=["everything"])
