"""Series of Prometheus: answers of the API, names, and rows of samples."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog
from reveal_core.collect.columns import MISSING
from reveal_core.importing.findings import Findings
from reveal_core.importing.prometheus_answers import (
    MS,
    AnswerError,
    RawSeries,
    data_of,
    kinds_of,
    names_of,
    series_of,
)
from reveal_core.importing.prometheus_gather import Gather, Refusals
from reveal_core.importing.prometheus_names import (
    Place,
    Refusal,
    exporters,
    judge_name,
    keep_series,
    place_series,
)
from reveal_core.importing.types import Chunk

SHARED = Path(__file__).parents[3] / "shared/data/node_exporter/e2e-output.prom.txt.xz"
BEGIN = 1_764_446_400_000
"""2025-11-29 20:00 UTC in ms."""


def answer(*result: dict[str, Any], **more: Any) -> bytes:
    data = {"resultType": "matrix", "result": list(result)}
    return json.dumps({"status": "success", "data": data, **more}).encode()


def series(name: str, values: list[Any], **labels: str) -> dict[str, Any]:
    pairs = [[BEGIN / 1000 + second, value] for second, value in enumerate(values)]
    return {"metric": {"__name__": name, **labels}, "values": pairs}


def read(body: bytes) -> tuple[list[RawSeries], Findings]:
    findings = Findings()
    findings.where = "server"
    return list(series_of(body, findings)), findings


class TestAnswers:
    def test_samples_have_their_own_times_exactly(self) -> None:
        body = answer(
            {"metric": {"__name__": "a"}, "values": [[1764446400.123, "1.5"], [1764446401, "-2e3"]]},
            {"metric": {"__name__": "b"}, "values": [[1764446400.123, "7"], [1764446401, "8"]]},
        )
        (a, b), findings = read(body)
        assert a.ts.tolist() == [1_764_446_400_123 * MS, 1_764_446_401_000 * MS]
        assert a.values.tolist() == [1.5, -2000.0]
        assert b.ts is a.ts
        assert findings.skipped == []

    def test_what_is_no_number_comes_through_as_such(self) -> None:
        (one,), findings = read(answer(series("a", ["NaN", "+Inf", "-Inf", "1"])))
        np.testing.assert_array_equal(one.values, [np.nan, np.inf, -np.inf, 1.0])
        assert findings.skipped == []

    def test_bad_samples_cost_only_themselves(self) -> None:
        pairs = [
            [1764446402, "3"],
            [1764446401, "2"],
            ["later", "1"],
            [1764446403, "many"],
            [1764446401, "9"],
        ]
        pairs += [[1, "1"], [1764446404], None, [1764446404, None], [[1764446404], "1"]]
        (one,), findings = read(answer({"metric": {"__name__": "a"}, "values": pairs}))
        assert one.ts.tolist() == [1_764_446_401_000 * MS, 1_764_446_402_000 * MS]
        assert one.values.tolist() == [2.0, 3.0]
        assert [(entry["item"], entry["reason"].partition(" (")[0]) for entry in findings.skipped] == [
            ("a, and 6 more", "samples that are none"),
            ("a", "samples of a time that the series has already"),
        ]

    def test_series_that_are_none_are_told(self) -> None:
        histogram = {"metric": {"__name__": "h"}, "histograms": [[1764446401, {"count": "1"}]]}
        bad = [{"metric": 3}, "what", {"metric": {"a": 1}}, {"metric": {"__name__": "c"}, "values": 3}]
        found, findings = read(answer(histogram, *bad, series("good", ["1"])))
        assert [one.labels["__name__"] for one in found] == ["good"]
        assert [(entry["item"], entry["reason"]) for entry in findings.skipped] == [
            ("h", "native histograms are not read"),
            ("server, and 2 more", "series without labels"),
            ("c", "series whose samples are no list"),
        ]

    def test_warnings_are_notes(self) -> None:
        _, findings = read(answer(warnings=["a store gateway is away"]))
        assert findings.notes == ["the server warns: a store gateway is away"]

    @pytest.mark.parametrize(
        ("body", "kind", "said"),
        [
            (answer(series("a", ["1"]))[:-9], "", "no JSON, or cut off"),
            (b"<html>Sign in</html>", "", "no JSON"),
            (b"[]", "", "no answer of the Prometheus API"),
            (b'{"status": "success"}', "", "no answer of the Prometheus API"),
            (
                b'{"status": "error", "errorType": "execution", "error": "too\\nmany"}',
                "execution",
                "too many",
            ),
            (b'{"status": "error"}', "error", "error"),
            (b'{"status": "success", "data": {"resultType": "vector", "result": []}}', "", "over a range"),
            (b'{"status": "success", "data": {"resultType": "matrix", "result": 1}}', "", "over a range"),
            (b'{"status": "success", "data": [1]}', "", "over a range"),
        ],
    )
    def test_answers_without_data_say_why(self, body: bytes, kind: str, said: str) -> None:
        with pytest.raises(AnswerError, match=re.escape(said)) as raised:
            read(body)
        assert raised.value.kind == kind

    def test_lists_of_names_and_kinds(self) -> None:
        assert names_of(b'{"status": "success", "data": ["a", "b"]}') == (["a", "b"], [])
        assert names_of(b'{"status": "success", "data": null, "warnings": ["x"]}') == ([], ["x"])
        with pytest.raises(AnswerError, match="no list of names"):
            names_of(b'{"status": "success", "data": [1]}')
        body = {"a": [{"type": "counter"}], "b": [{"type": "gauge"}, {"type": "counter"}], "c": 3}
        found = kinds_of(json.dumps({"status": "success", "data": body}).encode())
        assert found == {"a": "counter", "b": "unknown", "c": "unknown"}
        with pytest.raises(AnswerError, match="no metadata"):
            kinds_of(b'{"status": "success", "data": []}')

    @settings(max_examples=60, deadline=None)
    @given(st.binary(max_size=60), st.integers(0, 400))
    def test_any_answer_is_read_or_refused(self, noise: bytes, at: int) -> None:
        whole = answer(series("a", ["1", "2"], cpu="0"), series("b", ["NaN", "4"]))
        for body in (noise, whole[:at] + noise + whole[at + 3 :]):
            try:
                found, _ = read(body)
            except AnswerError:
                continue
            assert all(len(one.ts) == len(one.values) > 0 for one in found)
            assert all((np.diff(one.ts) > 0).all() for one in found)

    def test_data_of_any_kind(self) -> None:
        assert data_of(b'{"status": "success", "data": 1, "warnings": "odd"}') == (1, [])


def placed(name: str, **labels: str) -> Place:
    found = place_series({"__name__": name, "job": "node", "instance": "n:9100", **labels})
    assert isinstance(found, Place), found
    return found


def refused(name: str, **labels: str) -> Refusal:
    found = place_series({"__name__": name, **labels})
    assert isinstance(found, Refusal), found
    return found


class TestNames:
    @pytest.mark.parametrize(
        ("name", "labels", "channel", "scale"),
        [
            ("node_cpu_seconds_total", {"cpu": "0", "mode": "iowait"}, "cpu.iowait/cpu0", 100),
            ("node_cpu_guest_seconds_total", {"cpu": "1", "mode": "nice"}, "cpu.guest_nice/cpu1", 100),
            ("node_schedstat_waiting_seconds_total", {"cpu": "1"}, "sched.run_delay/cpu1", 1e9),
            ("node_interrupts_total", {"cpu": "0", "type": "RES"}, "irq.RES/cpu0", 1),
            (
                "node_interrupts_total",
                {"cpu": "0", "type": "24", "devices": "virtio0"},
                "irq.device/24-virtio0:cpu0",
                1,
            ),
            ("node_pressure_io_stalled_seconds_total", {}, "psi.io_full", 1e6),
            ("node_memory_Active_anon_bytes", {}, "meminfo.Active_anon", 1),
            ("node_memory_HugePages_Free", {}, "meminfo.HugePages_Free", 1),
            ("node_memory_numa_MemFree", {"node": "1"}, "numa.MemFree/node1", 1),
            ("node_memory_numa_numa_miss_total", {"node": "0"}, "numa.numa_miss/node0", 1),
            ("node_vmstat_pgmajfault", {}, "vmstat.pgmajfault", 1),
            ("node_disk_written_bytes_total", {"device": "nvme0n1"}, "disk.write_sectors/nvme0n1", 1 / 512),
            ("node_disk_io_time_seconds_total", {"device": "sda"}, "disk.io_ms/sda", 1000),
            ("node_network_transmit_carrier_total", {"device": "eth0"}, "net.tx_carrier_errors/eth0", 1),
            ("node_network_speed_bytes", {"device": "eth0"}, "link.speed/eth0", 8),
            ("node_netstat_TcpExt_ListenDrops", {}, "tcpext.ListenDrops/host", 1),
            ("node_netstat_Tcp_RetransSegs", {}, "tcp.RetransSegs/host", 1),
            ("node_netstat_Udp6_InErrors", {}, "udp6.InErrors/host", 1),
            ("node_sockstat_TCP_tw", {}, "sockstat.TCP_tw/host", 1),
            ("node_nf_conntrack_stat_insert_failed", {}, "conntrack.insert_failed/host", 1),
            (
                "node_infiniband_port_data_received_bytes_total",
                {"device": "mlx5_0", "port": "1"},
                "ib.port_rcv_data/mlx5_0:1",
                0.25,
            ),
            ("node_rapl_package_joules_total", {"index": "0", "path": "p"}, "power.energy/package-0", 1e6),
            ("node_filesystem_avail_bytes", {"fstype": "xfs", "mountpoint": "/"}, "fs.avail//", 1),
            ("DCGM_FI_DEV_FB_USED", {"UUID": "GPU-aa-bb", "gpu": "0"}, "gpu.memory_used/GPU-aa", 2**20),
            ("DCGM_FI_DEV_XID_ERRORS", {"gpu": "3"}, "gpu.xid_last/gpu3", 1),
        ],
    )
    def test_series_of_exporters(self, name: str, labels: dict, channel: str, scale: float) -> None:
        found = placed(name, **labels)
        assert (found.column.name, found.scale) == (channel, scale)
        assert found.counter == (load_catalog()[found.column.metric.name].kind == "counter")
        assert judge_name(name) is None

    @pytest.mark.parametrize(
        ("name", "labels", "why"),
        [
            ("node_disk_reads_completed_total", {"device": "sda1"}, "partitions"),
            ("node_disk_reads_completed_total", {"device": "nvme0n1p2"}, "partitions"),
            ("node_network_carrier", {"device": "veth12"}, "no card"),
            ("node_filesystem_readonly", {"fstype": "tmpfs", "mountpoint": "/run"}, "no disk of the host"),
            ("DCGM_FI_DEV_FB_USED", {"UUID": "GPU-a-b", "GPU_I_ID": "1"}, "slices"),
            ("DCGM_FI_DEV_FB_USED", {}, "without the label 'UUID'"),
            ("node_disk_reads_completed_total", {}, "without the label 'device'"),
            ("node_memory_MemTotal_bytes", {}, "a constant"),
            ("node_sockstat_TCP_mem_bytes", {}, "in bytes"),
            ("node_load1", {}, "minutes"),
            ("node_uname_info", {}, "constants"),
            ("DCGM_FI_DEV_POWER_VIOLATION", {"gpu": "0"}, "us by some"),
            ("go_goroutines", {}, "of itself"),
            ("up", {}, "of itself"),
        ],
    )
    def test_what_is_left_out_on_purpose(self, name: str, labels: dict, why: str) -> None:
        found = refused(name, **labels)
        assert found.known
        assert why in found.why

    @pytest.mark.parametrize(
        "name", ["node_zfs_arc_hits", "app_requests_total", "DCGM_FI_PROF_SM_ACTIVE", ""]
    )
    def test_what_nobody_knows(self, name: str) -> None:
        assert not refused(name, gpu="0").known
        found = judge_name(name)
        assert found is not None
        assert not found.known

    def test_a_new_mode_of_a_known_name_is_told(self) -> None:
        assert not refused("node_cpu_seconds_total", cpu="0", mode="dreaming").known

    def test_every_rule_leads_into_the_catalogue(self) -> None:
        for exporter in exporters():
            for rules in exporter.exact.values():
                for rule in rules:
                    assert "{" in rule.metric or rule.metric in load_catalog(), rule
                    counter = rule.metric in load_catalog() and load_catalog()[rule.metric].kind == "counter"
                    assert not (counter and rule.scale < 0.001), rule

    @pytest.mark.parametrize(
        ("name", "kind", "channel", "counter", "unit", "scale"),
        [
            ("app_total", "", "imported.prometheus.app_total/a,b", True, "1", 1),
            (
                "app_wait_seconds_total",
                "counter",
                "imported.prometheus.app_wait_seconds_total/a,b",
                True,
                "us",
                1e6,
            ),
            ("app_bytes", "gauge", "imported.prometheus.app_bytes/a,b", False, "B", 1),
            ("app_total", "gauge", "imported.prometheus.app_total/a,b", False, "", 1),
        ],
    )
    def test_unknown_series_keep_their_names(
        self, name: str, kind: str, channel: str, counter: bool, unit: str, scale: float
    ) -> None:
        labels = {"__name__": name, "zone": "b", "queue": "a", "job": "j", "instance": "i", "node": "n"}
        found = keep_series(labels, kind, ("node",))
        assert isinstance(found, Place)
        assert (found.column.name, found.counter) == (channel, counter)
        assert (found.column.metric.unit, found.scale) == (unit, scale)

    def test_histograms_are_refused(self) -> None:
        assert isinstance(keep_series({"__name__": "a_bucket", "le": "1"}), Refusal)
        assert isinstance(keep_series({"__name__": "a", "quantile": "0.5"}), Refusal)
        assert isinstance(keep_series({"__name__": "a_sum"}, "histogram"), Refusal)

    @pytest.mark.shared
    @pytest.mark.skipif(not SHARED.is_file(), reason=f"{SHARED} is not there")
    def test_a_whole_scrape_of_node_exporter(self) -> None:
        text = lzma.decompress(SHARED.read_bytes()).decode()
        known: set[str] = set()
        unknown: set[str] = set()
        channels: list[str] = []
        for line in text.split("\n"):
            if not line or line.startswith("#"):
                continue
            parts = re.fullmatch(r"(\w+)(?:\{(.*)\})? \S+", line)
            assert parts is not None, line
            labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', parts[2] or ""))
            found = place_series({"__name__": parts[1], **labels})
            if isinstance(found, Place):
                channels.append(found.column.name)
                known.add(parts[1])
            elif not found.known:
                unknown.add(parts[1])
        families = {re.sub(r"_.*", "", name.removeprefix("node_")) for name in known}
        assert families >= {
            "cpu",
            "disk",
            "memory",
            "network",
            "netstat",
            "infiniband",
            "pressure",
            "softnet",
        }
        assert len(known) >= 190
        assert len(set(channels)) == len(channels)
        # What an agent collects has a rule: none of these families is news.
        assert not [
            name for name in unknown if re.match(r"node_(disk_(read|writ)|pressure|schedstat|intr)", name)
        ]


def gather(**more: Any) -> tuple[Gather, Findings]:
    findings = Findings()
    return Gather("n1", "source", findings, Refusals(), **more), findings


def raw(name: str, seconds: list[float], values: list[float], job: str = "node", **labels: str) -> RawSeries:
    ts = np.array([BEGIN + round(second * 1000) for second in seconds], dtype=np.int64) * MS
    all_labels = {"__name__": name, "job": job, "instance": "n1:9100", **labels}
    return RawSeries(all_labels, ts, np.array(values, dtype=np.float64))


def taken(found: Gather, last: bool = True) -> list[Chunk]:
    return found.take(last=last).chunks


CPU = {"cpu": "0", "mode": "user"}


class TestGather:
    def test_counters_stay_counters_in_the_catalogue_s_unit(self) -> None:
        found, findings = gather()
        found.add(raw("node_cpu_seconds_total", [0, 15, 30], [10.01, 10.02, 4.99], **CPU), 0)
        found.add(raw("node_disk_read_bytes_total", [0, 15, 30], [512, 1024, 1536], device="sda"), 0)
        found.add(raw("node_memory_MemFree_bytes", [0, 15, 30], [1e9, 2e9, 3e9]), 0)
        (chunk,) = taken(found)
        assert [column.name for column in chunk.layout.counters] == ["cpu.user/cpu0", "disk.read_sectors/sda"]
        assert chunk.counters.tolist() == [[1001, 1002, 499], [1, 2, 3]]
        assert [column.name for column in chunk.layout.gauges] == ["meminfo.MemFree"]
        assert chunk.layout.period_ms == 15_000
        assert chunk.layout.facts["cpu"]["logical"] == 1
        assert findings.skipped == []

    def test_what_is_no_sample_is_missing_and_told(self) -> None:
        found, findings = gather()
        nan, inf = float("nan"), float("inf")
        found.add(raw("node_procs_running", [0, 1, 2], [nan, inf, 3]), 0)
        found.add(raw("node_intr_total", [0, 1, 2], [1, nan, 1e30]), 0)
        found.add(raw("node_network_speed_bytes", [0, 1, 2], [-125000, 1e9, 1e9], device="eth0"), 0)
        (chunk,) = taken(found)
        assert chunk.counters.tolist() == [[1, MISSING, MISSING]]
        by_name = dict(zip([c.name for c in chunk.layout.gauges], chunk.gauges.tolist(), strict=True))
        np.testing.assert_array_equal(by_name["stat.procs_running"], [nan, nan, 3])
        np.testing.assert_array_equal(by_name["link.speed/eth0"], [nan, 8e9, 8e9])
        assert {(entry["item"], entry["reason"]) for entry in findings.skipped} == {
            ("stat.procs_running", "samples that are NaN"),
            ("stat.procs_running", "samples that are infinite"),
            ("stat.intr", "samples that are NaN"),
            ("stat.intr", "counts that are larger than any counter"),
        }

    def test_a_channel_goes_on_in_another_series(self) -> None:
        """The labels of a GPU's job change with the job; the GPU does not."""
        found, findings = gather()
        gpu = {"UUID": "GPU-a-b", "job": "dcgm"}
        found.add(raw("DCGM_FI_DEV_GPU_UTIL", [0, 1], [10, 20], pod="one", **gpu), 0)
        found.add(raw("DCGM_FI_DEV_GPU_UTIL", [2, 3], [30, 40], pod="two", **gpu), 0)
        (chunk,) = taken(found)
        assert chunk.gauges.tolist() == [[10, 20, 30, 40]]
        assert [gpu["name"] for gpu in chunk.layout.facts["gpus"]] == ["GPU-a"]
        assert findings.skipped == []

    def test_series_that_mean_the_same_at_once_are_told(self) -> None:
        found, findings = gather()
        for replica, value in (("a", 1.0), ("b", 2.0)):
            found.add(raw("node_procs_running", [0, 1], [value, value], replica=replica), 0)
        (chunk,) = taken(found)
        assert chunk.gauges.tolist() == [[1, 1]]
        assert findings.skipped[0]["item"] == "stat.procs_running, and 1 more"
        assert "differ only in labels" in findings.skipped[0]["reason"]

    def test_a_second_target_does_not_mix_into_the_first(self) -> None:
        found, findings = gather()
        for job in ("node", "other"):
            found.add(raw("node_procs_running", [0, 1], [1, 1], job=job), 0)
            found.add(raw(f"node_{'intr' if job == 'node' else 'forks'}_total", [0, 1], [1, 2], job=job), 0)
        chunks = taken(found)
        assert [[c.name for c in (*chunk.layout.gauges, *chunk.layout.counters)] for chunk in chunks] == [
            ["stat.procs_running", "stat.intr"],
            ["stat.processes"],
        ]
        assert findings.skipped[0]["item"] == "n1: stat.procs_running"
        assert "job other" in findings.skipped[0]["reason"]
        assert chunks[0].layout.identity != chunks[1].layout.identity
        assert chunks[0].layout.facts["cpu"] == chunks[1].layout.facts["cpu"]

    def test_targets_with_times_of_their_own_have_rows_of_their_own(self) -> None:
        found, _ = gather()
        found.add(raw("node_procs_running", [0, 15], [1, 2]), 0)
        found.add(raw("DCGM_FI_DEV_GPU_TEMP", [7, 37], [40, 41], job="dcgm", gpu="0"), 0)
        gpu, node = taken(found)
        assert (node.layout.period_ms, gpu.layout.period_ms) == (15_000, 30_000)
        assert node.layout.facts["gpus"] == gpu.layout.facts["gpus"] == [{"index": 0, "name": "gpu0"}]

    def test_a_scrape_that_lacks_some_series_leaves_them_missing(self) -> None:
        found, _ = gather()
        found.add(raw("node_procs_running", [0, 1, 2], [1, 2, 3]), 0)
        found.add(raw("node_procs_blocked", [0, 2], [5, 6]), 0)
        found.add(raw("node_intr_total", [1], [7]), 0)
        (chunk,) = taken(found)
        np.testing.assert_array_equal(chunk.gauges, [[5, np.nan, 6], [1, 2, 3]])
        assert chunk.counters.tolist() == [[MISSING, 7, MISSING]]

    def test_samples_before_the_beginning_are_not_taken_twice(self) -> None:
        found, _ = gather()
        assert found.add(raw("node_procs_running", [0, 1, 2], [1, 2, 3]), (BEGIN + 1000) * MS) == 3
        assert found.samples == 2
        assert taken(found)[0].gauges.tolist() == [[2, 3]]

    def test_a_single_scrape_waits_for_the_next(self) -> None:
        found, findings = gather()
        found.add(raw("node_procs_running", [0], [1]), 0)
        first = found.take(last=False)
        assert (first.chunks, first.held, first.newest) == ([], BEGIN * MS, None)
        assert found.samples == 1
        found.add(raw("node_procs_running", [15], [2]), 0)
        second = found.take(last=False)
        assert second.chunks[0].gauges.tolist() == [[1, 2]]
        assert (second.held, second.newest) == (None, (BEGIN + 15_000) * MS)
        found.add(raw("node_procs_running", [30], [3]), 0)
        (third,) = taken(found)  # now the interval is known
        assert (third.gauges.tolist(), third.layout.period_ms) == ([[3]], 15_000)
        assert findings.skipped == []

    def test_a_single_scrape_at_the_end_is_told(self) -> None:
        found, findings = gather()
        found.add(raw("node_procs_running", [0], [1]), 0)
        last = found.take(last=True)
        assert (last.chunks, last.held) == ([], BEGIN * MS)
        assert "tells no interval" in findings.skipped[0]["reason"]
        assert found.samples == 0

    def test_unknown_series_are_kept_where_wanted(self) -> None:
        found, findings = gather(keep_unknown=True, kinds={"app_odd": "counter"})
        found.add(raw("app_odd", [0, 1], [0.25, 1.5]), 0)
        found.add(raw("app_seconds_total", [0, 1], [0.25, 1.5]), 0)
        found.add(raw("node_load1", [0, 1], [1, 1]), 0)
        (chunk,) = taken(found)
        assert chunk.counters.tolist() == [[0, 2], [250_000, 1_500_000]]
        assert findings.kept_as == [
            {"column": "app_odd", "metric": "imported.prometheus.app_odd"},
            {"column": "app_seconds_total", "metric": "imported.prometheus.app_seconds_total"},
        ]
        assert findings.notes == ["imported.prometheus.app_odd: its fractions are rounded to whole numbers"]

    def test_refusals_are_told_by_reason_and_unknown_names_one_by_one(self) -> None:
        refusals, findings = Refusals(), Findings()
        for name in ("c", "a", "b", "d"):
            refusals.add(name, Refusal("a reason", True))
            refusals.add(name, Refusal("who knows", False))
        refusals.tell(findings)
        assert [(entry["item"], entry["reason"]) for entry in findings.skipped] == [
            ("a, b, c and 1 more", "left out: a reason"),
            *[(name, "who knows") for name in "abcd"],
        ]
