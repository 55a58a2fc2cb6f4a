"""A journal of undo actions: written to disk before something is changed, taken out once it has been undone.

One small file per action, so that several processes can hold actions at once and a crash loses none. What a
killed process left behind is undone by `clean_up`, which every start of the lab calls first.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from reveal_core.errors import UnavailableError
from reveal_core.lab.cgroups import remove_cgroup
from reveal_core.lab.clock import set_offset
from reveal_core.lab.control import request_loss, request_stall
from reveal_core.lab.network import (
    delete_link,
    delete_loss_table,
    delete_namespace,
    forget_tracked,
    raise_link,
    set_receive_steering,
    unlimit_rate,
)
from reveal_core.lab.place import LabPlace, lab_place
from reveal_core.lab.processes import ProcessId, bind, boot_id, identify


@dataclass(frozen=True)
class UndoAction:
    """How to undo one change.

    Attributes
    ----------
    kind
        One of the keys of `undo_kinds`.
    arguments
        What that kind needs, as text.
    what
        The result in words, for the person who reads it: "restored vm.nr_hugepages to 0".
    """

    kind: str
    arguments: tuple[str, ...]
    what: str


def _write(path: str, value: str) -> None:
    with suppress(FileNotFoundError):  # its device or cgroup is gone, and the setting with it
        Path(path).write_text(value, encoding="ascii")


def _end_process(pid: str, start: str) -> None:
    ProcessId(int(pid), int(start)).end()


def _remove_file(path: str) -> None:
    Path(path).unlink(missing_ok=True)


def _remove_tree(path: str) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(path)


def _end_loss(path: str) -> None:
    _end_effect(request_loss, Path(path))


def _end_stall(path: str) -> None:
    _end_effect(request_stall, Path(path))


def _end_effect(request: Callable[[Path, float, float], None], path: Path) -> None:
    if path.exists():
        with suppress(UnavailableError):  # a rank that does not answer is gone, or ends it by itself in time
            request(path, 0.0, 0.0)


def _continue_process(pid: str, start: str) -> None:
    process = ProcessId(int(pid), int(start))
    if process.alive():
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)


def _set_affinity(pid: str, start: str, cores: str) -> None:
    process = ProcessId(int(pid), int(start))
    if process.alive():
        bind(process, set(map(int, cores.split(","))))


def _set_clock(offset_ns: str) -> None:
    set_offset(int(offset_ns))


def undo_kinds() -> dict[str, Callable[..., None]]:
    """Return every kind of undo action, and what performs it; performing one twice is harmless."""
    return {
        "write": _write,
        "end-process": _end_process,
        "remove-file": _remove_file,
        "remove-tree": _remove_tree,
        "remove-cgroup": remove_cgroup,
        "delete-namespace": delete_namespace,
        "delete-link": delete_link,
        "delete-loss-table": delete_loss_table,
        "receive-steering": set_receive_steering,
        "end-loss": _end_loss,
        "end-stall": _end_stall,
        "continue-process": _continue_process,
        "set-affinity": _set_affinity,
        "unlimit-rate": unlimit_rate,
        "forget-tracked": forget_tracked,
        "raise-link": raise_link,
        "set-clock": _set_clock,
    }


_LASTING = ("remove-file", "remove-tree")
"""What still matters after a reboot; the rest went with the kernel that it was done to."""


class UndoJournal:
    """The undo actions of one owner in this process, undone in reverse order.

    Parameters
    ----------
    place
        The lab's place, whose journal directory takes the files.
    """

    def __init__(self, place: LabPlace) -> None:
        self._place = place
        self._owner = identify(os.getpid())
        self._entries: list[tuple[UndoAction, Path]] = []

    def add(self, action: UndoAction) -> None:
        """Note how to undo what is about to be done."""
        stamp = f"{time.time_ns():020d}-{os.getpid()}-{len(self._entries)}"
        path = self._place.journal_dir / f"{stamp}.json"
        entry = {
            "kind": action.kind,
            "arguments": list(action.arguments),
            "what": action.what,
            "owner": [self._owner.pid, self._owner.start],
            "boot": boot_id(),
        }
        partial = path.with_suffix(".new")
        partial.write_text(json.dumps(entry), encoding="utf-8")
        partial.rename(path)
        self._entries.append((action, path))

    def change_file(self, path: Path, value: str, restore: str | None = None) -> None:
        """Write a kernel setting, to be restored to what it holds now (or to ``restore``).

        Raises
        ------
        OSError
            If it cannot be read or written; then nothing is noted.
        """
        before = restore if restore is not None else path.read_text(encoding="ascii").strip()
        self.add(UndoAction("write", (str(path), before), f"restored {path} to {before}"))
        try:
            path.write_text(value, encoding="ascii")
        except OSError:
            _, entry = self._entries.pop()
            entry.unlink()
            raise

    def undo(self) -> list[str]:
        """Undo everything, the last first, and return what was undone.

        Raises
        ------
        OSError, UnavailableError
            The first failure, after all the others have been tried; what failed stays in the journal.
        """
        done: list[str] = []
        failures: list[Exception] = []
        kept: list[tuple[UndoAction, Path]] = []
        for action, path in reversed(self._entries):
            try:
                undo_kinds()[action.kind](*action.arguments)
            except (OSError, UnavailableError) as error:
                failures.append(error)
                kept.append((action, path))
                continue
            path.unlink(missing_ok=True)
            done.append(action.what)
        self._entries = kept[::-1]
        if failures:
            raise failures[0]
        return done


def clean_up(state_dir: Path | None = None) -> list[str]:
    """Undo what processes that are no longer alive have left behind.

    Parameters
    ----------
    state_dir
        The lab's state directory; the default one if not given.

    Returns
    -------
    list of str
        A line for each thing that was undone.

    Raises
    ------
    UnavailableError
        If something could not be undone; it names the first, and all stay in the journal.
    """
    place = lab_place(state_dir)
    done: list[str] = []
    failures: list[str] = []
    for path in sorted(place.journal_dir.glob("*.json"), reverse=True):
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue  # another process has just undone it
        same_boot = entry["boot"] == boot_id()
        if same_boot and ProcessId(*entry["owner"]).alive():
            continue
        if same_boot or entry["kind"] in _LASTING:
            try:
                undo_kinds()[entry["kind"]](*entry["arguments"])
            except (OSError, UnavailableError) as error:
                failures.append(f"{entry['what']}: {error}")
                continue
            done.append(entry["what"])
        path.unlink(missing_ok=True)
    if failures:
        raise UnavailableError(f"could not undo what an earlier run left behind: {failures[0]}")
    return done
