"""Files that are torn, malformed or gone: samples are missing then, and nothing else breaks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from collect_parts import HOST_TREE, copy_tree, open_source, read, values, write
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reveal_core.collect.sources.disks import DisksSource
from reveal_core.collect.sources.interrupts import InterruptsSource
from reveal_core.collect.sources.meminfo import MeminfoSource
from reveal_core.collect.sources.netdev import NetdevSource
from reveal_core.collect.sources.numa import NumaSource
from reveal_core.collect.sources.power import PowerSource
from reveal_core.collect.sources.pressure import PressureSource
from reveal_core.collect.sources.protocols import ProtocolsSource
from reveal_core.collect.sources.schedstat import SchedstatSource
from reveal_core.collect.sources.sockstat import SockstatSource
from reveal_core.collect.sources.softirqs import SoftirqsSource
from reveal_core.collect.sources.softnet import SoftnetSource
from reveal_core.collect.sources.stat import StatSource
from reveal_core.collect.sources.thermal import ThermalSource
from reveal_core.collect.sources.vmstat import VmstatSource

FILES = {
    "proc/stat": StatSource,
    "proc/schedstat": SchedstatSource,
    "proc/interrupts": InterruptsSource,
    "proc/softirqs": SoftirqsSource,
    "proc/pressure/io": PressureSource,
    "proc/meminfo": MeminfoSource,
    "proc/vmstat": VmstatSource,
    "sys/devices/system/node/node0/numastat": NumaSource,
    "sys/devices/system/node/node1/meminfo": NumaSource,
    "proc/net/dev": NetdevSource,
    "proc/net/snmp": ProtocolsSource,
    "proc/net/netstat": ProtocolsSource,
    "proc/net/sockstat": SockstatSource,
    "proc/net/softnet_stat": SoftnetSource,
    "proc/diskstats": DisksSource,
    "sys/class/thermal/thermal_zone0/temp": ThermalSource,
    "sys/class/powercap/intel-rapl:0/energy_uj": PowerSource,
}


def damage(content: bytes, seed: int) -> bytes:
    """Return a file as a bug, another kernel or a torn read might leave it."""
    rng = random.Random(seed)
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    words = lines[at].split(b" ")
    where = rng.randrange(len(words))
    kind = rng.randrange(9)
    if kind == 0:
        return content[: rng.randrange(len(content) + 1)]
    if kind == 1:
        del lines[at]
    elif kind == 2:
        lines.insert(at, rng.choice([b"", b"newfield 12", b"Extra: a b c", b"\xff\xfe", b":", b"cpu"]))
    elif kind == 3:
        words[where] = rng.choice([b"N/A", b"-1", b"18446744073709551615", b"9" * 30, b"1.5", b"\x00", b":"])
        lines[at] = b" ".join(words)
    elif kind == 4:
        del words[where]
        lines[at] = b" ".join(words)
    elif kind == 5:
        lines[at] += b" 1 2 3"
    elif kind == 6:
        rng.shuffle(lines)
    elif kind == 7:
        return b""
    else:
        return bytes(rng.randrange(256) for _ in range(200))
    return b"\n".join(lines)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_tree(tmp_path_factory.mktemp("damage"))


@pytest.mark.parametrize("file", FILES)
@settings(max_examples=30, deadline=None)
@example(seeds=[23845])  # an interrupt line whose name has no colon left
@given(seeds=st.lists(st.integers(0, 2**32), min_size=1, max_size=3))
def test_damage_makes_samples_missing_and_passes(tree: Path, file: str, seeds: list[int]) -> None:
    root = tree
    (root / file).write_bytes((HOST_TREE / file).read_bytes())
    source = open_source(FILES[file], root)
    healthy = values(source)
    content = (root / file).read_bytes()
    for seed in seeds:
        (root / file).write_bytes(damage(content, seed))
        row = source.read()
        assert all(isinstance(value, int) for value in row)
        assert len(row) == len(source.columns.slots)
    (root / file).write_bytes(content)
    recovered = read(source)
    for name, value in healthy.items():
        # RAPL's counter is continued over what looked like a wrap.
        assert recovered[name] == value or (name.startswith("power.") and recovered[name] is not None), name
    source.close()


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_disappears_costs_only_its_own_samples(tmp_path: Path, file: str) -> None:
    root = copy_tree(tmp_path)
    source = open_source(FILES[file], root)
    healthy = values(source)
    content = (root / file).read_bytes()
    for part in source.parts:
        part.file.close()  # an open file outlives its name
    (root / file).unlink()
    without = read(source)
    assert any(value is None for value in without.values())
    assert all(without[name] in (None, healthy[name]) for name in healthy)
    if len(source.parts) > 1:
        assert any(value is not None for value in without.values())
    assert source.columns.errors
    write(root, file, content.decode())
    assert read(source) == healthy
    source.close()
