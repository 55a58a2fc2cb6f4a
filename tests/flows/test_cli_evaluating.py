"""``reveal evaluate`` on a small data set in the form of the public ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from flows.cli import main
from flows.commands.evaluating import put_section
from reveal_core.errors import UsageError

CONTRACT = {"ap", "auc", "vus_pr", "event_f1", "event_recall", "false_events_per_day"}
PER_DAY = 288


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return two servers of four days each, a fault on the second day that is judged."""
    target = tmp_path_factory.mktemp("asd")
    draw = np.random.default_rng(0)
    for number in (1, 2):
        values = 0.5 + draw.normal(scale=0.02, size=(4 * PER_DAY, 4))
        split = np.repeat([0, 1], 2 * PER_DAY)
        label = np.zeros(4 * PER_DAY, dtype=int)
        label[3 * PER_DAY : 3 * PER_DAY + 12] = 1
        values[label == 1, number] += 0.3
        columns = {f"m0{n + 1}": values[:, n].astype(np.float32) for n in range(4)}
        pl.DataFrame({"split": split, "label": label, **columns}).write_parquet(
            target / f"omi-{number}.parquet"
        )
    lines = ["entity,start,end_exclusive,anomaly_type,metrics"]
    lines += [f"omi-{n},{PER_DAY},{PER_DAY + 12},metric,m0{n + 1}" for n in (1, 2)]
    (target / "interpretation.csv").write_text("\n".join(lines) + "\n", encoding="ascii")
    return target


def test_every_detector_stands_beside_the_fusion(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "quality.md"
    report.write_text("# Quality\n\nBefore.\n", encoding="utf-8")
    command = ["evaluate", "--dataset", "asd", "--data", str(folder), "--markdown", str(report)]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["entities"], found["events"]) == (2, 2)
    assert list(found["detectors"])[-1] == "fusion"
    assert all(set(figures) >= CONTRACT for figures in found["detectors"].values())
    assert found["detectors"]["fusion"]["ap"] > 0.6
    assert found["detectors"]["fusion"]["event_recall"] == 1.0
    assert found["attribution"]["top1"] == 1.0
    assert found["attribution"]["subsystem_top1"] is None
    # A second run takes the place of the first in the file, and people get a table.
    assert main([*command, "--profile", "paper"]) == 0
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "mahalanobis_daily" in shown
    assert "Right of 2 labelled segments: first metric 1.000" in shown
    text = report.read_text(encoding="utf-8")
    assert text.startswith("# Quality\n\nBefore.\n\n<!-- evaluate asd default -->\nasd, profile default")
    assert text.count("| fusion |") == 2


ATTRIBUTION = {"top1", "top3", "hit100", "hit150", "subsystem_top1"}


def test_slow_nodes_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = 100.0 + np.random.default_rng(0).normal(scale=2.0, size=(75, 6))
    values[:, 3] *= 0.8
    minute, node = (axis.ravel() for axis in np.mgrid[0:75, 0:6])
    table = pl.DataFrame({"minute": minute, "node": node, "ipc": values.ravel(), "clock": 2.0})
    table.write_parquet(tmp_path / "job_x.parquet")
    report = tmp_path / "quality.md"
    command = ["evaluate", "--dataset", "emmy", "--data", str(tmp_path)]
    assert main([*command, "--markdown", str(report), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["dataset"], found["entities"], found["events"]) == ("emmy", 6, 0)
    assert all(set(figures) >= CONTRACT for figures in found["detectors"].values())
    assert set(found["attribution"]) >= ATTRIBUTION
    (job,) = found["jobs"]
    assert (job["metrics"], job["full_hours"], job["slow_on_top"]) == (["ipc"], 16, None)
    # No node of this job is known to be slow, so the one that is counts as a mistake.
    assert job["others_named"] == ["3"]
    assert job["healthy_node_minutes_named"] == 16
    assert main(command) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "peers_all_metrics" in shown
    assert "others named: 3, in 16 of their 96 node-minutes" in shown
    assert "<!-- evaluate emmy default -->" in report.read_text(encoding="utf-8")


def test_faults_in_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    busy = 10.0 + np.random.default_rng(0).normal(size=90)
    busy[40:44] += 50.0
    table = pl.DataFrame({"pod": "db-7-x", "ts": np.arange(90) * 60 + 1000, "cpu_rate_pct": busy})
    table.write_parquet(tmp_path / "2030-01-02_metrics.parquet")
    (tmp_path / "2030-01-02_faults.csv").write_text(
        "inject_ts,pod,fault,subsystem\n3390,db-7-x,cpu_consumed,cpu\n5000,db-7-x,network_delay,network\n"
    )
    report = tmp_path / "quality.md"
    command = ["evaluate", "--dataset", "nezha", "--data", str(tmp_path), "--markdown", str(report)]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["detectors"]) == ["cpu", "network", "fusion"]
    assert all(set(figures) >= CONTRACT for figures in found["detectors"].values())
    assert found["detectors"]["fusion"]["ap"] > 0.2
    assert found["attribution"]["subsystem_top1"] == 0.5
    (day,) = found["days"]
    assert day["named"]["cpu_consumed"] == {"cpu": 1, "network": 0, "none": 0}
    assert (day["latency"], day["free_named"]) == (False, 0)
    assert main(command) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "right for 1 of 1 faults of cpu, 0 of 1 of network; something named at 0 of" in shown
    assert "| 2030-01-02 | network_delay | 0 | 0 | 1 |" in report.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to evaluate: give --dataset NAME and --data DIR"),
        (["--dataset", "asd"], "nothing to evaluate"),
        (
            ["--dataset", "mnist", "--data", "."],
            "unknown data set 'mnist': choose from smd, asd, nab, emmy, nezha",
        ),
        (["--dataset", "asd", "--data", "/nowhere"], "/nowhere"),
        (["--dataset", "asd", "--data", ".", "--profile", "x"], "unknown profile 'x'"),
        (["--dataset", "emmy", "--data", ".", "--profile", "x"], "unknown profile 'x'"),
        (["--dataset", "emmy", "--data", ".", "--profile", "paper"], "emmy has no profile 'paper'"),
        (["--dataset", "nezha", "--data", ".", "--budget", "2"], "nezha has no alarm budget"),
        (["--dataset", "nezha", "--data", "/nowhere"], "/nowhere"),
        *(
            (["--dataset", "asd", "--data", ".", option, value], f"not a store: leave out {option}")
            for option, value in (
                ("--store", "x"),
                ("--host", "*"),
                ("--start", "-1h"),
                ("--end", "now"),
                ("--model", "x@champion"),
                ("--count", "40"),
            )
        ),
        (
            ["--dataset", "emmy", "--data", ".", "--host", "x", "--model", "y"],
            "leave out --host and --model",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_refused_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", *arguments]) == 2
    told = capsys.readouterr().err.strip()
    assert message in told
    assert "\n" not in told


def test_a_section_is_replaced_and_a_broken_mark_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    put_section(file, "a", "one")
    put_section(file, "b", "two")
    file.write_text(file.read_text(encoding="utf-8") + "After.\n", encoding="utf-8")
    put_section(file, "a", "three")
    assert file.read_text(encoding="utf-8") == (
        "<!-- a -->\nthree\n<!-- /a -->\n\n<!-- b -->\ntwo\n<!-- /b -->\nAfter.\n"
    )
    file.write_text("<!-- a -->\nthree\n", encoding="utf-8")
    with pytest.raises(UsageError, match="has no <!-- /a -->"):
        put_section(file, "a", "four")
    assert file.read_text(encoding="utf-8") == "<!-- a -->\nthree\n"
