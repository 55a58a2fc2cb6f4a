"""The journal: everything is undone, by the owner or by whoever starts next, and nothing else is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lab_parts import REPOSITORY, until

from reveal_core.errors import UnavailableError
from reveal_core.lab.journal import UndoAction, UndoJournal, clean_up
from reveal_core.lab.place import lab_place
from reveal_core.lab.processes import Child, ProcessId, identify, wait_ready


def test_undo_restores_in_reverse_order(tmp_path: Path) -> None:
    setting = tmp_path / "setting"
    setting.write_text("first\n")
    journal = UndoJournal(lab_place(tmp_path / "state"))
    journal.change_file(setting, "second")
    journal.change_file(setting, "third")
    assert setting.read_text() == "third"
    assert journal.undo() == [f"restored {setting} to second", f"restored {setting} to first"]
    assert setting.read_text() == "first"
    assert not list((tmp_path / "state/journal").iterdir())


def test_a_setting_that_cannot_be_written_leaves_no_entry(tmp_path: Path) -> None:
    journal = UndoJournal(lab_place(tmp_path / "state"))
    with pytest.raises(OSError):
        journal.change_file(tmp_path, "value", restore="before")  # a directory
    assert journal.undo() == []
    assert not list((tmp_path / "state/journal").iterdir())


def test_what_cannot_be_undone_stays_and_the_rest_is_undone(tmp_path: Path) -> None:
    setting = tmp_path / "setting"
    setting.write_text("before")
    place = lab_place(tmp_path / "state")
    journal = UndoJournal(place)
    journal.change_file(setting, "after")
    journal.add(UndoAction("write", (str(tmp_path), "x"), "wrote to a directory"))
    with pytest.raises(OSError):
        journal.undo()
    assert setting.read_text() == "before"
    left = [json.loads(p.read_text())["what"] for p in place.journal_dir.iterdir()]
    assert left == ["wrote to a directory"]


def test_clean_up_undoes_the_dead_and_spares_the_living(tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        (tmp_path / name).write_text("before")
    state = tmp_path / "state"
    living = UndoJournal(lab_place(state))
    living.change_file(tmp_path / "mine", "after")
    script = (
        "import os, signal; from pathlib import Path\n"
        "from reveal_core.lab.journal import UndoJournal; from reveal_core.lab.place import lab_place\n"
        f"place = lab_place(Path({str(state)!r}))\n"
        f"UndoJournal(place).change_file(Path({str(tmp_path / 'theirs')!r}), 'after')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, check=False).returncode == -9
    assert (tmp_path / "theirs").read_text() == "after"
    assert clean_up(state) == [f"restored {tmp_path / 'theirs'} to before"]
    assert (tmp_path / "theirs").read_text() == "before"
    assert (tmp_path / "mine").read_text() == "after"
    assert clean_up(state) == []
    living.undo()


def test_settings_of_an_earlier_boot_are_forgotten_but_its_files_removed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    journal_dir = lab_place(state).journal_dir
    for name in ("setting", "scratch"):
        (tmp_path / name).write_text("now")
    for number, (kind, name, *more) in enumerate((("write", "setting", "old"), ("remove-file", "scratch"))):
        entry = {
            "kind": kind,
            "arguments": [str(tmp_path / name), *more],
            "what": name,
            "owner": [os.getpid(), identify(os.getpid()).start],
            "boot": "another boot",
        }
        (journal_dir / f"{number}.json").write_text(json.dumps(entry))
    assert clean_up(state) == ["scratch"]
    assert (tmp_path / "setting").read_text() == "now"
    assert not (tmp_path / "scratch").exists()
    assert not list(journal_dir.iterdir())


def test_a_recycled_pid_is_not_ended() -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        real = identify(bystander.pid)
        assert ProcessId(real.pid, real.start - 1).end() is False
        assert real.alive()
        assert real.end() is True
        assert not real.alive()


def test_a_child_leaves_with_its_parent_however_it_dies(tmp_path: Path) -> None:
    script = (
        "import os, signal; from pathlib import Path\n"
        "from reveal_core.lab.processes import Child, wait_ready\n"
        f"log = Path({str(tmp_path / 'log')!r})\n"
        "c = Child('reveal_core.lab.competitor', ['spin', '--copies', '3'], log); wait_ready([c])\n"
        "print(c.id.pid, c.id.start, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    child = ProcessId(*map(int, done.stdout.split()))
    until(lambda: not child.alive(), "the child is gone")


def test_a_child_that_fails_is_named_with_its_last_words(tmp_path: Path) -> None:
    child = Child("reveal_core.lab.competitor", ["spin", "--copies", "many"], tmp_path / "log")
    with pytest.raises(UnavailableError, match=r"competitor did not start: .*invalid int value: 'many'"):
        wait_ready([child])
    child.stop()


def test_a_state_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match=r"state directory .* cannot be used"):
        lab_place(tmp_path / "file/state")
