"""``reveal maintain`` on the command line."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from synthetic_telemetry import synthetic_columns, synthetic_segment

from flows.cli import main
from flows.settings import load_settings
from reveal_core.retention import Retention
from storage.layout import floor_hour
from storage.store import Store


@pytest.fixture
def aged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a minute of telemetry that is five hours old, and the same a year old."""
    monkeypatch.chdir(tmp_path)
    store = Store(str(tmp_path / "store"))
    now = floor_hour(datetime.now(UTC))
    columns = synthetic_columns(60.0, (), 0)
    for hours in (5, 365 * 24):
        for number in range(6):
            part = {name: values[100 * number : 100 * (number + 1)] for name, values in columns.items()}
            start = now - timedelta(hours=hours) + timedelta(seconds=10 * number)
            store.put_segment(synthetic_segment("node-1", start, part, number))
    return tmp_path / "store"


def tree(path: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        digest.update(str(file.relative_to(path)).encode())
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()


def test_a_dry_run_says_what_a_run_does_and_changes_nothing(
    aged: Path, capsys: pytest.CaptureFixture
) -> None:
    before = tree(aged)
    assert main(f"maintain --store {aged} --dry-run --json".split()) == 0
    rehearsed = json.loads(capsys.readouterr().out)
    assert main(f"maintain --store {aged} --dry-run".split()) == 0
    told = capsys.readouterr().out
    assert tree(aged) == before
    assert main(f"maintain --store {aged} --json".split()) == 0
    done = json.loads(capsys.readouterr().out)
    assert rehearsed == {**done, "dry_run": True}
    assert set(done) == {"removed", "compacted", "downsampled", "orphans", "kept", "dry_run"}
    assert done["removed"][0]["kind"] == "telemetry"
    assert done["removed"][0]["count"] == 6
    assert (done["compacted"]["segments"], done["compacted"]["into"]) == (6, 1)
    assert "This would be done; nothing was changed." in told
    assert "telemetry: 6 files past their age" in told
    assert "telemetry: 6 files merged into 1" in told
    assert main(f"maintain --store {aged}".split()) == 0
    assert capsys.readouterr().out == "Nothing was to be done.\n"


def test_ages_are_settings(
    aged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("REVEAL_RETENTION__TELEMETRY", "forever")
    monkeypatch.setenv("REVEAL_RETENTION__RAW", "2h")
    monkeypatch.setenv("REVEAL_RETENTION__UNJUDGED", "1s")
    assert main(f"maintain --store {aged} --host node-* --json".split()) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["downsampled"]["segments"], done["downsampled"]["into"]) == (12, 2)
    assert done["removed"][0]["count"] == 0
    assert main(f"maintain --store {aged} --host rack-1".split()) == 2
    assert "no host 'rack-1' in store" in capsys.readouterr().err
    monkeypatch.setenv("REVEAL_RETENTION__RAW", "soon")
    assert main(f"maintain --store {aged}".split()) == 2
    said = capsys.readouterr().err
    assert "REVEAL_RETENTION__RAW" in said
    assert "'soon' is not a duration" in said


def test_settings_and_what_they_stand_for_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Retention.parse(load_settings().retention.plain()) == Retention()
