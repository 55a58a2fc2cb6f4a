"""A host of hundreds of CPUs: the same values as by reading anew, and few files are needed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from collect_parts import open_source, read, values
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.collect.sources.interrupts import WIDE, InterruptsSource
from reveal_core.lab.wide_host import WideHost

REPOSITORY = Path(__file__).parents[2]


def broken(text: str, rng: random.Random) -> str:
    """Return the table as it may look after a device came, went, was renamed or outgrew its cell."""
    lines = text.split("\n")
    at = rng.randrange(1, len(lines) - 1)
    kind = rng.randrange(5)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[at].replace(lines[at].partition(":")[0], " 9999", 1))
    elif kind == 2:
        lines[at] = lines[at].replace("nic", "hba")
    elif kind == 3:
        lines[at] = lines[at].replace("          0", " 99999999999", 1)
    else:
        lines.insert(at, " ERR:          3")
    return "\n".join(lines)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), plan=st.lists(st.booleans(), min_size=2, max_size=6))
def test_what_changed_is_taken_over_as_if_everything_were_parsed_anew(
    tmp_path_factory: pytest.TempPathFactory, seed: int, plan: list[bool]
) -> None:
    root = tmp_path_factory.mktemp("wide")
    rng = random.Random(seed)
    host = WideHost(root, cpus=WIDE + 8, interrupt_lines=12, seed=seed)
    source = open_source(InterruptsSource, root)
    for breaks in plan:
        frame = host.frame()
        if breaks:
            frame["proc/interrupts"] = broken(frame["proc/interrupts"], rng)
        host.show(frame)
        ours = read(source)
        fresh = open_source(InterruptsSource, root)
        expected = values(fresh)
        fresh.close()
        # Cores on which a line has fired once keep their channel, also when a line of that name begins anew.
        assert {name: ours[name] for name in expected} == expected
        assert all(ours[name] in (0, None) for name in ours.keys() - expected.keys())
    source.close()


def test_a_wide_table_is_read_apart_and_less_often(tmp_path: Path) -> None:
    WideHost(tmp_path, cpus=WIDE + 8, interrupt_lines=12)
    source = open_source(InterruptsSource, tmp_path)
    assert (source.detached, source.period_ms) == (True, 2000)
    source.close()
    WideHost(tmp_path, cpus=8, interrupt_lines=12)
    source = open_source(InterruptsSource, tmp_path)
    assert (source.detached, source.period_ms) == (False, 500)
    source.close()


def test_512_cpus_are_read_with_256_open_files(tmp_path: Path) -> None:
    root = tmp_path / "root"
    WideHost(root, cpus=512, interrupt_lines=64)
    program = [sys.executable, "-m", "flows.cli", "collect", "--json", "--duration", "2500ms"]
    command = [*program, "--root", str(root), "--store", str(tmp_path / "store")]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", *command],
        cwd=REPOSITORY,
        env={**os.environ, "REVEAL_CONFIG": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    from storage.store import Store

    store = Store(str(tmp_path / "store"))
    host = store.hosts()[0]
    frame = store.read_telemetry(host, *store.extent(host)).telemetry.frame  # type: ignore[misc]
    for metric in ("cpu.user", "sched.run_time", "softirq.NET_RX"):
        assert frame[f"{metric}/cpu511"].null_count() == 0, metric
    assert frame["cpu.frequency/cpu511"].drop_nulls().to_list()[0] == pytest.approx(2000.511)
    assert frame["reveal.failed_reads/cpufreq"].max() == 0
