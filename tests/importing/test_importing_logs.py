"""Logs of nvidia-smi, dcgmi, turbostat, perf and sadf, by their own names."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from import_parts import imported, metadata_of

from reveal_core.errors import UsageError
from reveal_core.importing.findings import Findings
from reveal_core.importing.names import known_metric
from reveal_core.importing.nvidia_names import DMON, nvidia_target
from reveal_core.importing.perf_stat import EVENTS, Line, parse_line
from reveal_core.importing.sadf_names import sadf_target

ORIGIN = datetime(2026, 11, 29, 20, 15, tzinfo=UTC)


def written(tmp_path: Path, text: str, name: str = "log.txt") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


NVIDIA = """\
timestamp, index, uuid, name, pstate, utilization.gpu [%], memory.used [MiB], power.draw [W], \
clocks_event_reasons.sw_power_cap, clocks_event_reasons_counters.sw_power_cap [us], \
ecc.errors.corrected.volatile.total, fan.speed [%], power.max_limit [W], gom.current
2026/07/14 08:12:38.696, 0, GPU-aaaaaaaa-1, H100, P0, 10 %, 479 MiB, 71.15 W, \
Not Active, 10 us, 0, [N/A], 700.00 W, [N/A]
2026/07/14 08:12:38.701, 1, GPU-bbbbbbbb-2, H100, P8, 0 %, 0 MiB, [Unknown Error], \
Active, 0 us, 3, [N/A], 700.00 W, [N/A]
2026/07/14 08:12:39.696, 0, GPU-aaaaaaaa-1, H100, P0, 12 %, 480 MiB, 72.15 W, \
Active, 900 us, 0, [N/A], 700.00 W, [N/A]
2026/07/14 08:12:39.701, 1, GPU-bbbbbbbb-2, H100, P8, lots, 0 MiB, 60 W, \
Active, 0 us, 4, [N/A], 700.00 W, [N/A]
"""


def test_nvidia_smi(tmp_path: Path) -> None:
    found = imported("nvidia-smi", written(tmp_path, NVIDIA), zone="UTC", host="gpu-1")
    frame, channels = found.frame(), found.channels()
    assert frame["gpu.memory_used/GPU-aaaaaaaa"].drop_nulls().to_list() == [479 * 2**20, 480 * 2**20]
    assert frame["gpu.power/GPU-bbbbbbbb"].drop_nulls().to_list() == [60]
    assert frame["gpu.performance_state/GPU-bbbbbbbb"].drop_nulls().to_list() == [8, 8]
    assert frame["gpu.throttle_power_cap/GPU-aaaaaaaa"].drop_nulls().to_list() == [0, 1]
    assert frame["gpu.throttled_power_time/GPU-aaaaaaaa"].drop_nulls().to_list() == [10_000, 900_000]
    assert channels["gpu.ecc_volatile_corrected/GPU-bbbbbbbb"].kind == "counter"
    assert channels["gpu.power/GPU-aaaaaaaa"].period_ms == 1000
    assert channels["imported.nvidia-smi.power.max_limit/GPU-aaaaaaaa"].unit == "W"
    assert {(e["item"], e["reason"]) for e in found.findings.skipped} == {
        ("log.txt, line 5", "samples of column utilization.gpu [%] that are no number (first: 'lots')"),
        ("gpu.fan_speed", "columns that are empty throughout a file"),
        ("imported.nvidia-smi.gom.current", "columns that are empty throughout a file"),
    }
    facts = metadata_of(found.segments[0])[0]["facts"]
    assert [gpu["name"] for gpu in facts["gpus"]] == ["GPU-aaaaaaaa", "GPU-bbbbbbbb"]


DMON_LOG = """\
# gpu    pwr  gtemp     sm  rxpci
# Idx      W      C      %   MB/s
    0     69     41      5      3
    1     70     -       6      4
# gpu    pwr  gtemp     sm  rxpci
# Idx      W      C      %   MB/s
    0     71     42      7      5
    1     72     43
"""


def test_nvidia_smi_dmon_without_times_needs_a_beginning(tmp_path: Path) -> None:
    path = written(tmp_path, DMON_LOG)
    with pytest.raises(UsageError, match="--origin and --interval"):
        imported("nvidia-smi", path)
    found = imported("nvidia-smi", path, origin=ORIGIN, interval_s=2.0)
    frame = found.frame()
    assert frame["gpu.power/gpu0"].to_list() == [69, 71]
    assert frame["gpu.power/gpu1"].to_list() == [70, None]
    assert frame["gpu.pcie_rx_throughput/gpu0"].to_list() == [3e6, 5e6]
    assert frame["ts"].to_list() == [ORIGIN, ORIGIN.replace(second=2)]
    assert found.reasons() == ["lines that do not have the header's columns (first: '3 of 5')"]
    assert found.items() == ["log.txt, line 8"]


def test_nvidia_smi_dmon_with_date_and_time(tmp_path: Path) -> None:
    text = "#Date       Time        gpu    pwr\n#YYYYMMDD   HH:MM:SS    Idx      W\n"
    text += " 20261129   20:15:00      0     69\n"
    found = imported("nvidia-smi", written(tmp_path, text), zone="UTC")
    assert found.frame()["ts"].to_list() == [ORIGIN]
    assert found.frame()["gpu.power/gpu0"].to_list() == [69]


def test_dcgmi_dmon_with_stamps(tmp_path: Path) -> None:
    lines = ["#Entity   GPUTL   TOTEC    SMACT", "ID                mJ"]
    lines += ["GPU 0   42   2.07e+11  0.35", "GPU 1  0  N/A  N/A"]
    text = "".join(f"2026-11-29 20:15:0{second // 2} {line}\n" for second, line in enumerate(lines))
    found = imported("dcgmi", written(tmp_path, text), zone="UTC")
    frame = found.frame()
    assert frame["gpu.utilization/gpu0"].to_list() == [42]
    assert frame["gpu.energy/gpu0"].to_list() == [207_000_000_000]
    assert frame["imported.dcgmi.SMACT/gpu0"].to_list() == pytest.approx([0.35])
    with pytest.raises(UsageError, match="no log of dmon"):
        imported("dcgmi", written(tmp_path, "nothing\n"))


TURBOSTAT = """\
turbostat version 2024.12.03
Measurement interval: 5.000 seconds
8 * 100.0 = 800.0 MHz max efficiency frequency
Time_Of_Day_Seconds	Core	CPU	Avg_MHz	Busy%	IRQ	IPC	C1	C1%	CoreTmp	PkgTmp	PkgWatt	UncMHz
1737461851.853200	-	-	19	0.79	50	0.96	10	0.5	21	22	8.45	2500
1737461851.852253	0	0	44	1.20	40	1.32	4	0.6	21	22	8.45	2500
1737461851.852368	0	1	1	0.06	10	0.42	6	0.4
Time_Of_Day_Seconds	Core	CPU	Avg_MHz	Busy%	IRQ	IPC	C1	C1%	CoreTmp	PkgTmp	PkgWatt	UncMHz
1737461856.853200	-	-	20	0.80	100	0.97	10	0.5	23	24	9.45	2500
1737461856.852253	0	0	45	1.30	90	1.33	4	0.6	23	24	9.45	2500
1737461856.852368	0	1	2	0.07	10	0.43	6	0.4
"""


def test_turbostat(tmp_path: Path) -> None:
    found = imported("turbostat", written(tmp_path, TURBOSTAT, "turbostat.txt"), host="node-1")
    frame, channels = found.frame(), found.channels()
    assert found.findings.skipped == []
    assert frame.height == 2
    assert frame["perf.busy/cpu1"].to_list() == pytest.approx([0.06, 0.07])
    assert frame["irq.total/cpu0"].to_list() == [8, 18]
    assert frame["cstate.C1_usage/cpu1"].to_list() == pytest.approx([1.2, 1.2])
    assert frame["perf.ipc/cpu0"].to_list() == pytest.approx([1.32, 1.33])
    assert frame["power.energy/package-0"].to_list() == pytest.approx([8.45, 9.45])
    assert frame["thermal.temperature/core cpu0"].to_list() == [21, 23]
    assert frame["imported.turbostat.whole.Busy%"].to_list() == pytest.approx([0.79, 0.80])
    assert channels["power.energy/package-0"].unit == "W"
    assert {channel.period_ms for channel in channels.values()} == {5000}
    assert metadata_of(found.segments[0])[0]["facts"]["cpu"]["logical"] == 2


def test_turbostat_with_a_damaged_header_and_end(tmp_path: Path) -> None:
    damaged = TURBOSTAT.replace("Time_Of", ";xTime_Of", 1)[:-3]
    found = imported("turbostat", written(tmp_path, damaged, "turbostat.txt"))
    assert found.frame().height == 1
    assert [(e["item"], e["reason"].partition(" (")[0]) for e in found.findings.skipped] == [
        ("turbostat.txt, line 4, and 2 more", "rows below a header that cannot be read"),
        ("turbostat.txt, line 11", "the last row: the file ends within it"),
    ]
    with pytest.raises(UsageError, match="no log of turbostat"):
        imported("turbostat", written(tmp_path, "nothing\n"))


def test_turbostat_of_the_whole_machine_only(tmp_path: Path) -> None:
    text = "Avg_MHz Busy%   PkgWatt\n19      0.79    8.45\n20      0.80    9.45\n"
    path = written(tmp_path, text)
    with pytest.raises(UsageError, match="--origin"):
        imported("turbostat", path)
    found = imported("turbostat", path, origin=ORIGIN, interval_s=5.0)
    assert found.frame()["perf.busy"].to_list() == pytest.approx([0.79, 0.80])
    assert found.frame()["power.energy/package"].to_list() == pytest.approx([8.45, 9.45])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("     1.25,12345,,cycles,1000000000,100.00,2.1,GHz", Line(1.25, "", "cycles", 12345.0)),
        ("2.0,CPU3,<not counted>,,instructions,0,0.00,,", Line(2.0, "cpu3", "instructions", None, 0.0)),
        ("1.5,S1,8,7,,branch-misses,1,50.00,,", Line(1.5, "socket1", "branch-misses", 7.0, 50.0)),
        ("1.0;1.87;msec;cpu-clock;1872052;100.00;0.002;CPUs", Line(1.0, "", "cpu-clock", 1.87)),
        ("     1.25      1,234,567      cycles       #    2.1 GHz", Line(1.25, "", "cycles", 1234567.0)),
        ("     1.25      3.50 Joules power/energy-pkg/", Line(1.25, "", "power/energy-pkg/", 3.5)),
        (("     2.0  CPU1   77    cache-misses   (83.30%)"), Line(2.0, "cpu1", "cache-misses", 77.0, 83.3)),
        ('{"interval":1.25, "cpu":"2", "counter-value":"9.0", "event":"cs"}', Line(1.25, "cpu2", "cs", 9.0)),
        ("what is this", None),
        ("{broken", None),
        (",,,,,,", None),
    ],
)  # fmt: skip
def test_lines_of_perf(text: str, line: Line | None) -> None:
    assert parse_line(text) == line


def test_perf_interval_log(tmp_path: Path) -> None:
    text = (
        "# started on Sun Nov 29 20:15:00 2026\n\n"
        "1.0,100,,cycles,1,100.00,,\n1.0,50,,instructions,1,100.00,,\n1.0,9,,odd:u,1,100.00,,\n"
        "3.0,400,,cycles,1,100.00,,\n3.0,<not counted>,,instructions,0,0.00,,\n"
        "3.0,5,,odd:u,1,2.00,,\nrubbish\n"
    )
    found = imported("perf", written(tmp_path, text), zone="UTC")
    frame = found.frame()
    assert frame["perf.cycles"].to_list() == [100, 200]
    assert frame["perf.instructions"].to_list() == [50, None]
    assert frame["imported.perf.odd_u"].to_list() == [9, None]
    assert frame["ts"][0] == ORIGIN.replace(second=1)
    assert [reason.partition(" (")[0] for reason in found.reasons()] == [
        "samples of instructions that perf did not count",
        "samples of odd:u that ran for less than 5 % of the time",
        "lines that are none of perf's",
    ]
    with pytest.raises(UsageError, match="--origin"):
        imported("perf", written(tmp_path, "1.0,100,,cycles,1,100.00,,\n"))
    with pytest.raises(UsageError, match="no log of perf"):
        imported("perf", written(tmp_path, "nothing\n"))


def record(second: int, **more: Any) -> dict[str, Any]:
    return {
        "timestamp": {"date": "2026-11-29", "time": f"20:15:{second:02d}", "utc": 1, "interval": 1},
        "cpu-load": [
            {"cpu": "all", "user": 5.0, "idle": 95.0},
            {"cpu": "0", "user": 2.0 + second, "idle": 98.0 - second},
        ],
        "process-and-context-switch": {"proc": 1.0, "cswch": 250.5},
        "memory": {"memfree": 1000, "memused-percent": 12.5},
        "io": {"tps": 3.0, "io-reads": {"rtps": 1.0, "bread": 8.0}},
        "disk": [{"disk-device": "vda", "tps": 1.0, "rkB": 4.0, "await": 0.5}],
        "network": {
            "net-dev": [{"iface": "eth0", "rxpck": 10.0, "rxkB": 2.0}],
            "net-etcp": {"retrans": 0.5},
        },
        "interrupts": [{"intr": "sum", "value": 42.0}, {"intr": "7", "value": 1.0}],
        "psi": {"psi-io": {"some_avg10": 1.0, "some_avg": 2.5}},
        **more,
    }


def sadf(records: list[dict[str, Any]], name: str = "node-3") -> str:
    head = {"nodename": name, "release": "6.1.0", "number-of-cpus": 2, "timezone": "CET"}
    return json.dumps({"sysstat": {"hosts": [{**head, "statistics": records, "restarts": []}]}}, indent=1)


def test_sadf(tmp_path: Path) -> None:
    path = written(tmp_path, sadf([record(n) for n in range(5)]), "day.json")
    found = imported("sadf", path)
    frame, channels = found.frame("node-3"), found.channels()
    assert found.findings.skipped == []
    assert frame["cpu.user/cpu0"].to_list() == [2, 3, 4, 5, 6]
    assert channels["cpu.user/cpu0"].unit == "%"
    assert frame["stat.ctxt"].to_list() == [250.5] * 5
    assert frame["meminfo.MemFree"].to_list() == [1_024_000] * 5
    assert frame["disk.read_sectors/vda"].to_list() == [4096] * 5
    assert frame["net.rx_bytes/eth0"].to_list() == [2048] * 5
    assert frame["tcp.RetransSegs/host"].to_list() == [0.5] * 5
    assert frame["stat.intr"].to_list() == [42] * 5
    assert frame["psi.io_some"].to_list() == [2.5] * 5
    assert frame["imported.sadf.whole.cpu-load.user"].to_list() == [5] * 5
    assert frame["imported.sadf.io-reads.rtps"].to_list() == [1] * 5
    assert frame["imported.sadf.interrupts.value/7"].to_list() == [1] * 5
    assert frame["ts"][0] == ORIGIN
    assert metadata_of(found.segments[0])[0]["facts"]["cpu"]["logical"] == 2


def test_sadf_in_local_time_and_damaged(tmp_path: Path) -> None:
    stamp = {"date": "2026-11-29", "time": "21:15:00", "utc": 0, "interval": 1}
    text = sadf([record(0, timestamp=stamp), record(1), record(2), record(3)])
    assert (
        imported("sadf", written(tmp_path, text, "a.json")).frame()["ts"][0] == ORIGIN
    )  # the file names CET
    broken = text.replace('"20:15:01"', '"20:15:01')
    found = imported("sadf", written(tmp_path, broken, "b.json"))
    assert found.frame().height == 3
    assert found.reasons() == ["records that are no JSON"]
    found = imported("sadf", written(tmp_path, text[: text.rindex('"timestamp"') + 200], "c.json"))
    assert found.frame().height == 3
    assert found.reasons() == ["the last record: the file ends within it"]
    with pytest.raises(UsageError, match="no output of sadf"):
        imported("sadf", written(tmp_path, "{}", "d.json"))


def test_names_of_tools_lead_into_the_catalogue() -> None:
    fields = (
        "memory.used",
        "ecc.errors.uncorrected.aggregate.total",
        "clocks.sm",
        "clocks_throttle_reasons.sw_power_cap",
    )
    targets = [nvidia_target(field) for field in fields] + [*DMON.values(), *EVENTS.values()]
    targets += [sadf_target("net-dev", "txkB", "eth0")[0], sadf_target("softnet", "dropd", "cpu1")[0]]
    for target in targets:
        assert target is not None
        assert known_metric(target.metric), target.metric
        target.stored()
    assert nvidia_target("name") is None
    assert Findings().skipped == []


def test_fields_that_differ_in_signs_only_stay_apart(tmp_path: Path) -> None:
    text = "1.0,100,,odd:u,1,100.00,,\n1.0,50,,odd/u,1,100.00,,\n"
    found = imported("perf", written(tmp_path, text), origin=ORIGIN)
    assert found.frame().row(0)[2:] == (100, 50)
    assert set(found.channels()) == {"imported.perf.odd_u", "imported.perf.odd_u_"}
