"""Logs of every kind with damage anywhere: what can be read is read, the rest is told, nothing breaks."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from import_parts import imported
from test_importing_logs import DMON_LOG, NVIDIA, TURBOSTAT, record, sadf

from reveal_core.errors import UsageError

ORIGIN = datetime(2026, 11, 29, 20, 15, tzinfo=UTC)

PERF = """\
# started on Sun Nov 29 20:15:00 2026
1.0,CPU0,100,,cycles,1,100.00,,
1.0,CPU0,50,,instructions,1,100.00,,
     2.25      1,234,567      cycles       #    2.1 GHz   (83.30%)
{"interval":3.25, "cpu":"2", "counter-value":"9.0", "event":"cs"}
"""
IPMI = """\
Timestamp | 1737461851.5
CPU1 Temp        | 40 degrees C      | ok
FAN1             | 5040 RPM          | ok
Timestamp | 1737461861.5
CPU1 Temp        | 41 degrees C      | ok
"""
INTERRUPTS = """\
Timestamp: 1737461851.5
           CPU0       CPU1
  0:         12          0   IO-APIC   2-edge      timer
NMI:          3          4   Non-maskable interrupts
Timestamp: 1737461861.5
           CPU0       CPU1
  0:         13          0   IO-APIC   2-edge      timer
NMI:          3          5   Non-maskable interrupts
"""
LOGS = {
    "csv": ("log.csv", "time,cpu.user/cpu0\n2026-11-29 20:15:00,1.5\n2026-11-29 20:15:01,2.5\n"),
    "dcgmi": ("log.txt", DMON_LOG),
    "interrupts": ("interrupts.txt", INTERRUPTS),
    "ipmi": ("ipmi.txt", IPMI),
    "nvidia-smi": ("log.txt", NVIDIA),
    "perf": ("log.txt", PERF),
    "sadf": ("log.json", sadf([record(0), record(1)])),
    "turbostat": ("log.txt", TURBOSTAT),
}
KINDS = {"interrupts": "stats-collect", "ipmi": "stats-collect"}
NOISE = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["9" * 25, "9" * 400, "1e999", "-1", "nan", "-", ".", "\n", "\x00", "[" * 200]),
)


def read(folder: Path, log: str, text: str) -> None:
    path = folder / LOGS[log][0]
    path.write_text(text, encoding="utf-8", errors="replace", newline="")
    with contextlib.suppress(UsageError):
        imported(KINDS.get(log, log), path, zone="UTC", origin=ORIGIN, interval_s=1.0)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(LOGS)), st.floats(0.0, 1.0), st.integers(0, 60), NOISE)
@example("turbostat", 208 / len(TURBOSTAT), 3, "")
@example("perf", 40 / len(PERF), 3, "0")
def test_a_log_that_is_damaged_anywhere(
    tmp_path_factory: pytest.TempPathFactory, log: str, place: float, lost: int, noise: str
) -> None:
    text = LOGS[log][1]
    at = round(place * len(text))
    read(tmp_path_factory.getbasetemp(), log, text[:at] + noise + text[at + lost :])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([*sorted(LOGS), "reveal-dataset"]), st.text(max_size=400))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, log: str, text: str) -> None:
    name = LOGS[log][0] if log in LOGS else "any.txt"
    path = tmp_path_factory.getbasetemp() / name
    path.write_text(text, encoding="utf-8", errors="replace", newline="")
    with contextlib.suppress(UsageError):
        imported(KINDS.get(log, log), path, zone="UTC", origin=ORIGIN, interval_s=1.0)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("turbostat", TURBOSTAT.replace("1737461856.8532", "17374618568532000000000.8532")),
        ("perf", PERF.replace("     2.25 ", " 99999999999.25 ")),
        ("stats-collect", IPMI.replace("1737461861.5", "1737461861500")),
    ],
)
def test_a_time_that_cannot_be_costs_its_row_alone(tmp_path: Path, kind: str, text: str) -> None:
    path = tmp_path / ("ipmi.txt" if kind == "stats-collect" else "log.txt")
    path.write_text(text, encoding="utf-8")
    found = imported(kind, path, zone="UTC", origin=ORIGIN, interval_s=1.0)
    assert found.frame().height >= 1
    assert [reason.partition(";")[0].partition(" (")[0] for reason in found.reasons()] in (
        ["rows of a time before 1971 or after 2199"],
        ["rows whose time is none"],
    )
