"""From perf's lines to rates: known numbers, missing ones, and no wrong ones."""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence

import pytest
from collect_parts import SHARED
from hypothesis import given, settings
from hypothesis import strategies as st
from perf_parts import line

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.sources.perf_events import (
    Event,
    Processor,
    event_list,
    events_for,
    printed_name,
    processor_kinds,
    processor_of,
)
from reveal_core.collect.sources.perf_lines import Scope
from reveal_core.collect.sources.perf_part import PerfPart

WORK = (Event("perf.instructions", "instructions"), Event("perf.cycles", "cycles"))
CLOCKS = tuple(Event(f"perf.{name}", f"msr/{name}/", kind="part") for name in ("aperf", "mperf", "tsc"))
HOST = Scope("", {"": 2})
CORES = Scope("cpu", {"cpu0": 1, "cpu1": 1})
MS = 10**6


class Said:
    """Stands for the stream: gives what a test lets perf say."""

    path = "perf stat"

    def __init__(self) -> None:
        self.start = 1
        self.text = b""

    def read(self) -> tuple[int, bytes]:
        text, self.text = self.text, b""
        return self.start, text

    def close(self) -> None:
        pass


class Fed:
    """A part and what it made of what perf said."""

    def __init__(self, events: Sequence[Event], scope: Scope) -> None:
        self.now = 0.0
        self.file = Said()
        self.columns = Columns("perf", 100, load_catalog(), load_left_out())
        self.part = PerfPart(self.file, self.columns, events, scope, 0.1, clock=lambda: self.now)

    def say(self, *lines: str | bytes) -> dict[str, float | None]:
        self.file.text = b"".join(text.encode() if isinstance(text, str) else text for text in lines)
        self.now += 0.1
        self.part.update()
        return {
            column.channel.name: None if value == MISSING else round(value * column.scale, 3)
            for column, value in zip(self.columns.slots, self.columns.row, strict=True)
            if column is not None
        }


def work(end: float, instructions: object, cycles: object = 1e8, **more: object) -> list[str]:
    """Return both lines of an interval of the whole host."""
    return [line(end, "instructions", instructions, **more), line(end, "cycles", cycles, **more)]


def test_a_rate_is_over_the_time_that_the_event_was_enabled() -> None:
    fed = Fed(WORK, HOST)
    fed.say(*work(0.1, 5e8))
    # Two CPUs, each enabled for 99 ms of a 100 ms interval, as perf reads one after the other.
    found = fed.say(*work(0.2, 3e8, 1e8, runtime=198 * MS))
    assert found["perf.instructions"] == pytest.approx(3e8 / 0.099)
    assert found["perf.cycles"] == pytest.approx(1e8 / 0.099)
    assert found["perf.running_share"] == 100.0


def test_without_a_plausible_enabled_time_it_is_over_the_interval() -> None:
    fed = Fed(WORK, HOST)
    fed.say(*work(0.1, 5e8))
    assert fed.say(*work(0.3, 4e8, runtime=100 * MS))["perf.instructions"] == pytest.approx(2e9)


def test_the_first_interval_only_tells_where_the_second_begins() -> None:
    fed = Fed(WORK, HOST)
    assert set(fed.say(*work(7.5, 5e8)).values()) == {None}
    assert fed.say(*work(7.6, 5e8))["perf.instructions"] == pytest.approx(5e9)


@pytest.mark.parametrize(("share", "rate"), [(100.0, 1e9), (30.0, 1e9), (5.0, 1e9), (4.0, None), (0.0, None)])
def test_below_a_share_of_running_time_a_count_is_missing_and_the_share_is_told(
    share: float, rate: float | None
) -> None:
    fed = Fed(WORK, HOST)
    fed.say(*work(0.1, 1e8))
    found = fed.say(line(0.2, "instructions", 1e8, share=share), line(0.2, "cycles", 2e8))
    assert found["perf.running_share"] == share
    assert found["perf.instructions"] == (None if rate is None else pytest.approx(rate))
    assert found["perf.cycles"] == pytest.approx(2e9)


@pytest.mark.parametrize("value", ["<not counted>", "<not supported>", "nan", "inf", "-5", "1,5", "", "-"])
def test_what_never_ran_or_is_no_count_is_missing_and_not_zero(value: str) -> None:
    fed = Fed(WORK, HOST)
    fed.say(*work(0.1, 1e8))
    found = fed.say(*work(0.2, value, 2e8))
    assert found["perf.instructions"] is None
    assert found["perf.cycles"] == pytest.approx(2e9)


def test_a_rate_beyond_what_a_processor_can_do_is_missing() -> None:
    fed = Fed(WORK, HOST)
    fed.say(*work(0.1, 1e8))
    assert fed.say(*work(0.2, float(2**64 - 1)))["perf.instructions"] is None


def test_a_value_stands_for_a_beat_or_two_and_not_longer() -> None:
    fed = Fed(WORK, HOST)
    fed.say(*work(0.1, 1e8))
    fed.say(*work(0.2, 1e8))
    assert fed.say()["perf.instructions"] == pytest.approx(1e9)
    assert fed.say()["perf.instructions"] == pytest.approx(1e9)
    assert fed.say()["perf.instructions"] is None


def test_intervals_that_come_together_count_together() -> None:
    fed = Fed(WORK, HOST)
    fed.say(*work(0.1, 1e8))
    found = fed.say(*work(0.2, 1e8), *work(0.4, 5e8, "<not counted>"), *work(0.5, 0.0, 3e8))
    assert found["perf.instructions"] == pytest.approx(6e8 / 0.4)
    assert found["perf.cycles"] == pytest.approx(4e8 / 0.2)


def test_lines_may_come_in_pieces() -> None:
    text = "".join(work(0.1, 1e8) + work(0.2, 2e8) + work(0.3, 3e8)).encode()
    whole = Fed(WORK, HOST)
    expected = whole.say(text)
    for at in range(1, len(text) - 1, 7):
        fed = Fed(WORK, HOST)
        fed.say(text[:at])
        assert fed.say(text[at:]).keys() == expected.keys()
        assert fed.say(*work(0.4, 4e8))["perf.instructions"] == pytest.approx(4e9)


@pytest.mark.parametrize(
    "broken",
    [
        "perf: interrupted\n",
        '{"interval" : 0.2, "counter-va\n',
        "{}{}\n",
        "\x00\xff\n",
        '{"interval" : 0,2}\n',
    ],
)
def test_a_lost_line_never_lengthens_an_interval(broken: str) -> None:
    fed = Fed(WORK, HOST)
    fed.say(*work(0.1, 1e8))
    fed.say(broken)  # whatever stood there: the interval that ends at 0.2 is lost
    fed.say(*work(0.3, 1e8))
    assert fed.say(*work(0.4, 1e8))["perf.instructions"] == pytest.approx(1e9)


def test_another_start_of_perf_begins_anew() -> None:
    fed = Fed(WORK, HOST)
    fed.say(*work(50.0, 1e8))
    fed.say(*work(50.1, 1e8))
    fed.file.start = 2
    fed.say(*work(0.1, 1e8))
    assert fed.say(*work(0.2, 2e8))["perf.instructions"] == pytest.approx(2e9)


def test_cpus_and_sockets_have_channels_of_their_own() -> None:
    fed = Fed(WORK[:1], CORES)
    for end in (0.1, 0.2):
        found = fed.say(*(line(end, "instructions", end * 1e9 * (cpu + 1), cpu=cpu) for cpu in (0, 1, 7)))
    assert found["perf.instructions/cpu1"] == pytest.approx(2 * found["perf.instructions/cpu0"])
    assert not any("cpu7" in name for name in found)
    fed = Fed(WORK[:1], Scope("socket", {"socket0": 2, "socket1": 2}))
    for end in (0.1, 0.2):
        found = fed.say(*(line(end, "instructions", 1e8, socket=number) for number in (0, 1)))
    assert found["perf.instructions/socket1"] == pytest.approx(1e9)


def test_the_two_pmus_of_a_hybrid_processor_are_one() -> None:
    fed = Fed(WORK[:1], CORES)
    for end in (0.1, 0.2):
        found = fed.say(
            line(end, "cpu_core/instructions/", 1e8, cpu=0),
            line(end, "cpu_core/instructions/", "<not counted>", cpu=1, share=0.0),
            line(end, "cpu_atom/instructions/", "<not counted>", cpu=0, share=0.0),
            line(end, "cpu_atom/instructions/", 2e8, cpu=1),
        )
    assert found["perf.instructions/cpu0"] == pytest.approx(1e9)
    assert found["perf.instructions/cpu1"] == pytest.approx(2e9)
    assert found["perf.running_share/cpu1"] == 100.0


def test_clock_rates_are_those_of_turbostat() -> None:
    """A CPU of 2.5 GHz base, 40 % busy at 3.5 GHz: Busy% 40, Bzy_MHz 3500, Avg_MHz 1400."""
    fed = Fed(CLOCKS, HOST)
    for end in (0.1, 0.2):
        found = fed.say(
            line(end, "msr/aperf/", 2 * 0.1 * 0.4 * 3.5e9),
            line(end, "msr/mperf/", 2 * 0.1 * 0.4 * 2.5e9),
            line(end, "msr/tsc/", 2 * 0.1 * 2.5e9),
        )
    assert found["perf.busy"] == pytest.approx(40.0)
    assert found["perf.busy_mhz"] == pytest.approx(3500.0)
    assert found["perf.average_mhz"] == pytest.approx(1400.0)
    assert not any("tsc" in name or "perf" in name.split(".")[1] for name in found)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")
def test_clock_rates_agree_with_turbostat_on_every_cpu_of_a_real_server() -> None:
    """From Busy%, Bzy_MHz and TSC_MHz of 128 CPUs, the counters; from those, turbostat's own Avg_MHz."""
    with lzma.open(SHARED / "data/stats_collect/genoa0/turbostat.txt.xz", "rt") as file:
        lines = [text.split("\t") for text in file if "\t" in text]
    start = next(number for number, words in enumerate(lines) if words[0] == "Time_Of_Day_Seconds")
    names = lines[start]
    rows = [dict(zip(names, words, strict=False)) for words in lines[start + 2 : start + 130]]
    cpus = {f"cpu{row['CPU']}": row for row in rows}
    assert len(cpus) == 128
    fed = Fed(CLOCKS, Scope("cpu", dict.fromkeys(cpus, 1)))
    for end in (5.0, 10.0):
        said = []
        for row in rows:
            tsc = float(row["TSC_MHz"]) * 1e6 * 5.0
            mperf = tsc * float(row["Busy%"]) / 100.0
            aperf = mperf * float(row["Bzy_MHz"]) / float(row["TSC_MHz"])
            for name, value in (("aperf", aperf), ("mperf", mperf), ("tsc", tsc)):
                said.append(line(end, f"msr/{name}/", value, cpu=row["CPU"], runtime=5 * 10**9))
        found = fed.say(*said)
    for cpu, row in cpus.items():
        # turbostat prints whole MHz and hundredths of a percent.
        assert found[f"perf.average_mhz/{cpu}"] == pytest.approx(float(row["Avg_MHz"]), abs=1.1)
        assert found[f"perf.busy/{cpu}"] == pytest.approx(float(row["Busy%"]), abs=0.001)
        if float(row["Busy%"]) > 0:
            assert found[f"perf.busy_mhz/{cpu}"] == pytest.approx(float(row["Bzy_MHz"]), rel=1e-3)


def test_a_host_of_512_cpus_is_read_line_by_line() -> None:
    fed = Fed(WORK, Scope("cpu", {f"cpu{cpu}": 1 for cpu in range(512)}))
    for end in (0.1, 0.2):
        found = fed.say(
            *(line(end, event.event, 1e6 * (cpu + 1), cpu=cpu) for event in WORK for cpu in range(512))
        )
    assert len(found) == 3 * 512
    assert found["perf.cycles/cpu511"] == pytest.approx(512e7)
    assert not fed.columns.errors


def test_a_cpu_that_slept_all_along_has_no_busy_clock_rate() -> None:
    fed = Fed(CLOCKS, HOST)
    for end in (0.1, 0.2):
        found = fed.say(*(line(end, f"msr/{n}/", v) for n, v in (("aperf", 0), ("mperf", 0), ("tsc", 5e8))))
    assert (found["perf.busy"], found["perf.average_mhz"], found["perf.busy_mhz"]) == (0.0, 0.0, None)


def test_idle_states_are_shares_of_the_time_of_those_that_can_idle() -> None:
    """Four CPUs on two cores: 300 million of 2 x 200 million ticks in C6 is three quarters."""
    core = Event("perf.core_c6", "cstate_core/c6-residency/", kind="share")
    fed = Fed((*CLOCKS[2:], core), Scope("", {"": 4}, {"cstate_core": {"": 2}}))
    for end in (0.1, 0.2):
        found = fed.say(line(end, "cstate_core/c6-residency/", 3e8), line(end, "msr/tsc/", 4 * 2e8))
    assert found["perf.core_c6"] == pytest.approx(75.0)


@settings(max_examples=60, deadline=None)
@given(
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.text(max_size=20).map(lambda text: json.dumps({"interval": text}).encode() + b"\n"),
            st.floats(allow_nan=True).map(lambda value: line(0.2, "instructions", value).encode()),
            st.floats(0.01, 1e6).map(lambda end: line(end, "cycles", "<not counted>").encode()),
            st.sampled_from(
                [b"\n", b"{", b"[1]\n", b'{"interval" : 1.0, "counter-value" : 7, "event" : []}\n']
            ),
        ),
        max_size=8,
    )
)
def test_garbage_gives_missing_samples_and_perf_recovers(pieces: list[bytes]) -> None:
    fed = Fed(WORK, HOST)
    for piece in pieces:
        found = fed.say(piece)
        rate = found["perf.instructions"]
        assert rate is None or 0 <= rate <= 2e11
    fed.say(b"\n", *work(2e6, 1e8))
    fed.say(*work(2e6 + 1, 1e8))
    found = fed.say(*work(2e6 + 2, 3e8, 4e8))
    assert found["perf.instructions"] == pytest.approx(3e8)
    assert found["perf.cycles"] == pytest.approx(4e8)


@pytest.mark.parametrize(
    ("processor", "kinds", "metric"),
    [
        (Processor("GenuineIntel", 6, 85), {"intel", "skylake-server"}, "perf.cycles_l3_miss"),
        (Processor("GenuineIntel", 6, 106), {"intel", "icelake-server"}, "perf.stalls_l3_miss"),
        (Processor("GenuineIntel", 6, 143), {"intel", "sapphirerapids"}, "perf.remote_memory"),
        (Processor("GenuineIntel", 6, 173), {"intel", "graniterapids"}, "perf.stalls_l3_miss"),
        (Processor("AuthenticAMD", 23, 49), {"amd", "zen2"}, "perf.remote_memory"),
        (Processor("AuthenticAMD", 25, 1), {"amd", "zen3"}, "perf.ls_dispatch_loads"),
        (Processor("AuthenticAMD", 25, 17), {"amd", "zen4"}, "perf.load_not_complete"),
        (Processor("AuthenticAMD", 26, 2), {"amd", "zen5"}, "perf.load_not_complete"),
        (Processor("0x41", 8, 0xD40), {"neoverse"}, "perf.stall_backend_mem"),
        (Processor("GenuineFuture", 99, 1), set(), "perf.instructions"),
        (Processor("", -1, -1), set(), "perf.cache_misses"),
    ],
)
def test_each_processor_gets_its_events(processor: Processor, kinds: set[str], metric: str) -> None:
    assert processor_kinds(processor) == kinds
    events = events_for(processor)
    metrics = [event.metric for event in events]
    assert metric in metrics
    assert metrics[:2] == ["perf.instructions", "perf.cycles"]
    names = [printed_name(event.event) for event in events]
    assert len(set(names)) == len(names)
    known = load_catalog().keys() | load_left_out().keys()
    assert set(metrics) <= known
    assert all(event.metric in load_catalog() for event in events if event.kind != "part")


def test_an_intel_and_an_arm_processor_are_told_from_cpuinfo() -> None:
    intel = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\nmodel name\t: Xeon\n"
    assert processor_of(intel) == Processor("GenuineIntel", 6, 106)
    arm = "processor : 0\nCPU implementer : 0x41\nCPU architecture: 8\nCPU part : 0xd4f\n"
    assert processor_of(arm) == Processor("0x41", 8, 0xD4F)


def test_groups_are_weak_and_stand_where_their_first_event_stood() -> None:
    events = [Event("a", "a", "g"), Event("b", "b"), Event("c", "c", "g"), Event("d", "d", "h")]
    assert event_list(events) == "{a,c}:W,b,d"
