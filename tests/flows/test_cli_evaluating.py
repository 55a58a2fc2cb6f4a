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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to evaluate: give --dataset NAME and --data DIR"),
        (["--dataset", "asd"], "nothing to evaluate"),
        (["--dataset", "mnist", "--data", "."], "unknown data set 'mnist': choose from smd, asd, nab"),
        (["--dataset", "asd", "--data", "/nowhere"], "/nowhere"),
        (["--dataset", "asd", "--data", ".", "--profile", "x"], "unknown profile 'x'"),
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
