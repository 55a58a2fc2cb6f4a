"""``reveal evaluate --injected`` on a small store: a registered model, a profile, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.cli import main

COMMAND = ["evaluate", "--injected", "--count", "3", "--store"]


def test_a_registered_model_is_judged_on_the_telemetry_of_its_host(
    fitted_store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(fitted_store.path)
    page = tmp_path / "quality.md"
    assert main([*COMMAND, store, "--markdown", str(page), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["hosts"][0]["host"] == "node-1"
    assert found["model"] == f"{fitted_store.model['model']}@1"
    assert found["summary"]["injected"] == len(found["faults"]) == 3
    # The burst that this recording holds is its own.
    assert found["summary"]["own_incidents"] == found["summary"]["false_incidents"] == 1
    assert found["faults"][0]["host"] == "node-1"
    assert "model learned from part of this range" in found["notes"][0]
    text = page.read_text(encoding="utf-8")
    assert f"<!-- evaluate injected {found['model']} -->" in text
    assert "| all | 3 |" in text


def test_a_profile_is_fitted_on_the_first_part_and_judged_on_the_rest(
    fitted_store, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*COMMAND, str(fitted_store.path), "--profile", "default", "--end", "2026-11-29T20:01:58"]
    assert main([*command, "--start", "2026-11-29T20:00:00", "--count", "9"]) == 2
    assert "47 s of telemetry are too short to inject into" in capsys.readouterr().err
    assert main([*COMMAND, str(fitted_store.path), "--profile", "default", "--count", "9"]) == 0
    shown = capsys.readouterr().out
    assert "profile default on node-1, 2026-11-29T20:01:47.940Z" in shown
    assert "subsystem first" in shown
    assert "6 perturbations fit into the range, not 9" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dataset", "smd", "--data", "."], "leave out --dataset and --data"),
        (["--dataset", "smd"], "judges a store's telemetry: leave out --dataset"),
        (["--budget", "2"], "judges a store's telemetry: leave out --budget"),
        (["--model", "x", "--profile", "default"], "leave out --model or --profile"),
        (["--host", "nobody"], "no host 'nobody'"),
        (["--model", "nope"], "no model nope@champion"),
        (["--profile", "nope"], "unknown profile 'nope'"),
        (["--start", "-1h", "--end", "-2h"], "before it starts"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_one_line(
    fitted_store, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, str(fitted_store.path), *arguments]) == 2
    told = capsys.readouterr().err.strip()
    assert said in told
    assert "\n" not in told
