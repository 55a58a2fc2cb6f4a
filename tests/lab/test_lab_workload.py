"""The workload: it trains, waits for a rank that stalls, is found by others, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_parts import REPOSITORY, needs_root, protocol_counter, until

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.lab.cgroups import find_cgroup
from reveal_core.lab.control import request_loss
from reveal_core.lab.faults import inject
from reveal_core.lab.journal import clean_up
from reveal_core.lab.lossfilter import why_no_filter
from reveal_core.lab.namespaces import NAMESPACES, why_no_private_namespace
from reveal_core.lab.workload import Workload, find_workload


@pytest.fixture(scope="module")
def loopback(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workload]:
    folder = tmp_path_factory.mktemp("loopback")
    with Workload(folder, namespaces=False, state_dir=folder / "state") as workload:
        yield workload


def test_it_trains_over_loopback(loopback: Workload) -> None:
    assert loopback.running
    assert loopback.transport == "loopback"
    assert loopback.reason.startswith("asked for")
    before = loopback.steps()
    until(lambda: loopback.steps() > before + 5, "five more steps")


def test_others_find_it(loopback: Workload) -> None:
    state = find_workload(loopback.directory / "state")
    assert state == loopback.state
    assert state is not None
    assert tuple(rank.pid for rank in state.ranks) == loopback.pids
    assert state.owner.pid == os.getpid()


def test_there_is_one_at_a_time(loopback: Workload) -> None:
    with pytest.raises(UnavailableError, match="running already"):
        Workload(loopback.directory, state_dir=loopback.directory / "state").start()
    assert loopback.running


def test_a_stalled_rank_is_waited_for(loopback: Workload) -> None:
    os.kill(loopback.pids[1], signal.SIGSTOP)
    try:
        seen = -1

        def standing_still() -> bool:
            nonlocal seen
            before, seen = seen, loopback.steps()
            return before == seen

        until(standing_still, "rank 0 waits")
    finally:
        os.kill(loopback.pids[1], signal.SIGCONT)
    until(lambda: loopback.steps() > seen + 3, "training goes on")
    assert loopback.running


def test_filters_on_its_sockets_cause_retransmits(loopback: Workload) -> None:
    if why_no_filter() and why_no_private_namespace():
        pytest.skip(f"{why_no_filter()}; {why_no_private_namespace()}")
    assert loopback.state is not None
    sockets = [loopback.state.run_dir / f"rank-{rank}.sock" for rank in (0, 1)]
    before = protocol_counter(loopback.pids[0], "Tcp", "RetransSegs")
    for path in sockets:
        request_loss(path, 0.1, 30.0)
    until(lambda: protocol_counter(loopback.pids[0], "Tcp", "RetransSegs") > before + 5, "retransmits")
    for path in sockets:
        request_loss(path, 0.0, 0.0)
    seen = loopback.steps()
    until(lambda: loopback.steps() > seen + 3, "training goes on")


def test_a_total_loss_is_survived(loopback: Workload) -> None:
    if why_no_filter() and why_no_private_namespace():
        pytest.skip(f"{why_no_filter()}; {why_no_private_namespace()}")
    assert loopback.state is not None
    path = loopback.state.run_dir / "rank-1.sock"
    log = loopback.state.run_dir / "rank-0.log"
    request_loss(path, 1.0, 60.0)
    until(lambda: "step" in log.read_text(), "rank 0 notices that its data is not acknowledged")
    request_loss(path, 0.0, 0.0)
    seen = loopback.steps()
    until(lambda: loopback.steps() > seen + 3, "a new connection")
    assert loopback.running


def test_a_bad_request_is_refused(loopback: Workload) -> None:
    assert loopback.state is not None
    with pytest.raises(UnavailableError, match="no probability"):
        request_loss(loopback.state.run_dir / "rank-0.sock", 2.0, 1.0)
    with pytest.raises(UnavailableError, match="does not answer"):
        request_loss(loopback.state.run_dir / "rank-7.sock", 0.1, 1.0)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no directory"):
        Workload(tmp_path / "missing", state_dir=tmp_path / "state").start()


def test_a_fault_that_needs_it_says_so_when_there_is_none(tmp_path: Path) -> None:
    if why_no_filter() and why_no_private_namespace():
        pytest.skip("packet loss is not available here at all")
    with pytest.raises(UnavailableError, match="needs the lab's workload"):
        inject("packet-loss", duration_s=1, state_dir=tmp_path / "state")


@pytest.mark.parametrize("variant", ["checkpoints", "inference"])
def test_other_variants_make_progress(tmp_path: Path, variant: str) -> None:
    state_dir = tmp_path / "state"
    with Workload(tmp_path, variant=variant, namespaces=False, state_dir=state_dir) as workload:
        until(lambda: workload.steps() > 5, "six steps")
        state = find_workload(state_dir)
        assert state is not None
        assert state.variant == variant
        if variant == "inference":
            until(lambda: state.progress().idle_s > 0.1, "time in which nobody asks")
        else:
            until(lambda: state.progress().phase == "checkpoint", "a checkpoint")
            assert state.progress().idle_s == 0
        assert workload.running


OWNER = """
import sys, time
from pathlib import Path
from reveal_core.lab.workload import Workload
folder = Path(sys.argv[1])
with Workload(folder, state_dir=folder / "state") as w:
    print(*w.pids, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_owner_leaves_nothing_for_long(tmp_path: Path, number: signal.Signals) -> None:
    state_dir = tmp_path / "state"
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pids = owner.stdout.readline().split()
        state = find_workload(state_dir)
        assert state is not None
        assert [str(rank.pid) for rank in state.ranks] == pids
        owner.send_signal(number)
        assert owner.wait() == (-9 if number == signal.SIGKILL else 143)
    until(lambda: not any(rank.alive() for rank in state.ranks), "the ranks are gone")
    assert find_workload(state_dir) is None
    undone = clean_up(state_dir)
    assert any(line == f"removed {state.files}" for line in undone) == (number == signal.SIGKILL)
    assert not state.files.exists()
    assert not state.run_dir.exists()
    if state.namespace:
        assert not (NAMESPACES / state.namespace).exists()
        assert not Path("/sys/class/net", state.links[0]).exists()
    if state.job:
        assert not any(folder.exists() for folder in find_cgroup(state.job).distinct_folders())
    assert clean_up(state_dir) == []


@pytest.mark.root
@needs_root
def test_ranks_live_in_namespaces_and_a_cgroup_apart(tmp_path: Path) -> None:
    with Workload(tmp_path, namespaces=True, state_dir=tmp_path / "state") as workload:
        assert workload.transport == "namespaces"
        homes = [os.readlink(f"/proc/{pid}/ns/net") for pid in workload.pids]
        assert homes[0] == os.readlink("/proc/self/ns/net")
        assert homes[1] != homes[0]
        assert workload.state is not None
        members = (
            find_cgroup(workload.state.job).file("cpu", "cgroup.procs", "cgroup.procs").read_text().split()
        )
        assert sorted(members) == sorted(map(str, workload.pids))
        before = workload.steps()
        until(lambda: workload.steps() > before + 3, "steps across the veth pair")
    assert not workload.running
    assert [p.name for p in tmp_path.iterdir()] == ["state"]
