"""The faults: each takes effect by the kernel's own counters, and is undone, even after a kill -9."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_effects import ANYWHERE, EFFECTS, kernel_settings, stopped
from lab_parts import (
    INJECTOR,
    REPOSITORY,
    competitor_seconds,
    cpu_time,
    inject_until,
    load_processes,
    needs_root,
    protocol_counter,
    until,
    vmstat,
)

from reveal_core.errors import UnavailableError
from reveal_core.lab.cgroups import find_cgroup
from reveal_core.lab.faults import inject, list_faults
from reveal_core.lab.journal import clean_up
from reveal_core.lab.namespaces import in_namespace
from reveal_core.lab.netlink import add_drop_rule, delete_table
from reveal_core.lab.network import (
    add_loss_table,
    delete_link,
    delete_loss_table,
    delete_namespace,
    make_pair,
)
from reveal_core.lab.place import lab_place
from reveal_core.lab.workload import Workload, WorkloadState

HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workload]:
    folder = tmp_path_factory.mktemp("faults")
    with Workload(folder, state_dir=folder / "state") as running:
        yield running


@pytest.fixture
def state(workload: Workload) -> Iterator[WorkloadState]:
    """The workload, which must outlive the fault, as must its own journal entries and none of the fault's."""
    assert workload.state is not None
    journal = lab_place(workload.directory / "state").journal_dir
    before = {path.name for path in journal.iterdir()}
    yield workload.state
    assert {path.name for path in journal.iterdir()} == before
    assert workload.running
    assert not list(workload.state.files.glob("reveal-fault-*"))
    seen = workload.steps()
    until(lambda: workload.steps() > seen, "training goes on")


def directory(state: WorkloadState) -> Path:
    return state.run_dir.parent


@pytest.mark.parametrize("name", ANYWHERE)
def test_competitors_take_effect(name: str, state: WorkloadState) -> None:
    effects = {
        "cpu-contention": (lambda: load_processes(), len(os.sched_getaffinity(0))),
        "memory-bandwidth-contention": (lambda: competitor_seconds("stream"), 0.5),
        "page-fault-storm": (lambda: vmstat("pgfault"), 100_000),
        "writeback-storm": (lambda: vmstat("nr_written"), 20_000),
    }
    read, rise = effects[name]
    before = read()
    run = inject_until(name, state, directory(state), lambda: read() > before + rise, name)
    assert run.name == name
    assert run.onset < run.end
    if state.neighbour:
        assert cpu_time(state, state.neighbour) > 0
        group = find_cgroup(state.neighbour)
        assert group.file("cpu", "cpu.shares", "cpu.weight").read_text().strip() in ("1024", "100")
        assert group.file("cpu", "cgroup.procs", "cgroup.procs").read_text() == ""


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("name", EFFECTS)
def test_a_fault_shows_and_is_undone(name: str, state: WorkloadState) -> None:
    reason = {fault.name: fault.reason for fault in list_faults()}[name]
    if reason:
        pytest.skip(reason)
    read, rise = EFFECTS[name]
    settings, before = kernel_settings(state), read(state)
    run = inject_until(name, state, directory(state), lambda: read(state) > before + rise, name)
    assert (run.name, bool(run.how)) == (name, True)
    assert run.pace is not None
    until(lambda: kernel_settings(state) == settings, "everything is as before")


@pytest.mark.root
@needs_root
def test_cpu_quota_throttles_the_job(state: WorkloadState) -> None:
    group = find_cgroup(state.job)
    quota = group.file("cpu", "cpu.cfs_quota_us", "cpu.max")
    before = quota.read_text()

    def throttled() -> int:
        text = (group.folders["cpu"] / "cpu.stat").read_text()
        return int(dict(line.split() for line in text.splitlines())["nr_throttled"])

    start = throttled()
    inject_until("cpu-quota", state, directory(state), lambda: throttled() > start + 5, "throttling")
    assert quota.read_text() == before


@pytest.mark.root
@needs_root
def test_packet_loss_shows_in_both_namespaces(state: WorkloadState) -> None:
    def fewest() -> int:
        now = [protocol_counter(rank.pid, "Tcp", "RetransSegs") for rank in state.ranks]
        return min(a - b for a, b in zip(now, before, strict=True))

    before = [protocol_counter(rank.pid, "Tcp", "RetransSegs") for rank in state.ranks]
    run = inject_until("packet-loss", state, directory(state), lambda: fewest() > 20, "retransmits")
    assert "by nftables" in run.how
    assert "8%" in run.how
    for namespace in ("", state.namespace):
        assert not has_table(namespace, state.namespace)


def has_table(namespace: str, table: str) -> bool:
    """Return whether a namespace has an nftables table, by trying to make it anew."""

    def read() -> bool:
        try:
            add_drop_rule(table, "lo", 0.0)
        except FileExistsError:
            return True
        delete_table(table)
        return False

    return in_namespace(namespace, read)


@pytest.mark.root
@needs_root
def test_a_loss_table_drops_the_share_asked_for(tmp_path: Path) -> None:
    place = lab_place(tmp_path / "state")
    make_pair(place)
    try:
        receiver = in_namespace(place.name, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        with receiver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            receiver.bind((place.addresses[1], 0))

            def arrived(count: int, patience_s: float = 5.0) -> int:
                found = 0
                receiver.settimeout(patience_s)
                # A veth pair delivers in the sender's own call, or a little later where the kernel is busy; a
                # hundred at a time fit into the receiver's buffer.
                for _ in range(count // 100):
                    for _ in range(100):
                        sender.sendto(b"x", receiver.getsockname())
                    with contextlib.suppress(TimeoutError):
                        for _ in range(100):
                            found += len(receiver.recv(8))
                return found

            assert arrived(500) > 480
            add_loss_table(place.name, place.name, place.links[1], 0.3)
            assert 500 < arrived(1000, 0.3) < 880  # 700 +- 14 expected
            delete_loss_table(place.name, place.name)
            delete_loss_table(place.name, place.name)  # twice is harmless
            assert arrived(500) > 480
    finally:
        delete_link(place.links[0])
        delete_namespace(place.name)


@pytest.mark.root
@needs_root
def test_memory_pressure_makes_the_limit_fail_and_kills_nobody(state: WorkloadState) -> None:
    group = find_cgroup(state.job)
    limit = group.file("memory", "memory.limit_in_bytes", "memory.max")
    before = limit.read_text()

    def failures() -> int:
        if group.version == 1:
            return int((group.folders["memory"] / "memory.failcnt").read_text())
        text = (group.folders["memory"] / "memory.events").read_text()
        return int(dict(line.split() for line in text.splitlines())["max"])

    killed, start = vmstat("oom_kill"), failures()
    inject_until(
        "cgroup-memory-pressure", state, directory(state), lambda: failures() > start + 500, "failcnt"
    )
    assert limit.read_text() == before
    assert vmstat("oom_kill") == killed


@pytest.mark.root
@needs_root
def test_memory_pressure_without_a_workload_has_a_cgroup_of_its_own(tmp_path: Path) -> None:
    name = f"{lab_place(tmp_path / 'state').name}/pressed"
    start = vmstat("pgsteal_file")
    inject_until(
        "cgroup-memory-pressure",
        None,
        tmp_path / "state",
        lambda: vmstat("pgsteal_file") > start + 500,
        "reclaim",
    )
    assert not any(folder.exists() for folder in find_cgroup(name).distinct_folders())


@pytest.mark.root
@needs_root
def test_huge_pages_are_set_aside_and_given_back(state: WorkloadState) -> None:
    before = int(HUGE_PAGES.read_text())
    inject_until(
        "huge-pages-reserved",
        state,
        directory(state),
        lambda: int(HUGE_PAGES.read_text()) > before,
        "huge pages",
    )
    assert int(HUGE_PAGES.read_text()) == before


def affinities() -> dict[str, int]:
    """Return the cores that each interrupt may go to, as a mask."""
    return {
        folder.name: int((folder / "smp_affinity").read_text().strip().replace(",", ""), 16)
        for folder in Path("/proc/irq").iterdir()
        if folder.name.isdigit()
    }


def received(core: int) -> int:
    for line in Path("/proc/softirqs").read_text().splitlines():
        if line.strip().startswith("NET_RX:"):
            return int(line.split()[1 + core])
    raise KeyError("NET_RX")


@pytest.mark.root
@needs_root
def test_interrupts_gather_on_one_core(state: WorkloadState) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        with pytest.raises(UnavailableError, match="single core"):
            inject("interrupts-on-one-core", duration_s=1, state_dir=directory(state))
        return
    before, start = affinities(), received(0)

    def gathered() -> bool:
        now = affinities()
        return any(now[name] == 1 != mask for name, mask in before.items()) and received(0) > start + 10_000

    inject_until("interrupts-on-one-core", state, directory(state), gathered, "interrupts of core 0")
    assert affinities() == before
    steering = Path("/sys/class/net", state.links[0], "queues/rx-0/rps_cpus").read_text()
    assert int(steering.strip().replace(",", ""), 16) == 0


def test_a_process_that_a_killed_injector_stopped_goes_on(state: WorkloadState) -> None:
    arguments = ["straggler-process", str(directory(state))]
    with subprocess.Popen([sys.executable, "-c", INJECTOR, *arguments], cwd=REPOSITORY) as injector:
        until(lambda: stopped(state) == 1, "the rank is stopped")
        injector.kill()
        injector.wait()
    assert any("go on" in line for line in clean_up(directory(state)))
    until(lambda: stopped(state) == 0, "the rank goes on")


@pytest.mark.root
@needs_root
def test_tables_of_a_killed_injector_are_undone(state: WorkloadState) -> None:
    reason = {fault.name: fault.reason for fault in list_faults()}["conntrack-overflow"]
    if reason:
        pytest.skip(reason)
    before = kernel_settings(state)
    read, rise = EFFECTS["conntrack-overflow"]
    start = read(state)
    command = [sys.executable, "-c", INJECTOR, "conntrack-overflow", str(directory(state))]
    with subprocess.Popen(command, cwd=REPOSITORY) as injector:
        until(lambda: read(state) > start + rise, "connections that found no room")
        injector.kill()
        injector.wait()
    undone = clean_up(directory(state))
    assert any("forgot the tracked" in line for line in undone)
    assert any("nf_conntrack_max" in line for line in undone)
    until(lambda: kernel_settings(state) == before, "everything is as before")
