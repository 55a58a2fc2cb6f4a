"""The publication's files: names, units, counts, and everything that is odd about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from dataset_files import (
    CPU_FILE,
    CPU_WIDTH,
    EMPTY_GPU_FIELDS,
    GPU_FILE,
    GPU_WIDTH,
    START,
    cpu_columns,
    dataset_text,
    dataset_values,
    gpu_columns,
    write_dataset,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from import_parts import imported, metadata_of

from reveal_core.catalog import load_catalog
from reveal_core.errors import UsageError
from reveal_core.importing.dataset_meta import job_of
from reveal_core.importing.dataset_names import DatasetColumn, dataset_target, parse_column
from reveal_core.importing.names import known_metric

FIXTURES = Path(__file__).parents[1] / "fixtures/importing"
LONDON = "Europe/London"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Perf:Mem-loads.htc-g004[count]", ("Perf", "Mem-loads", "", "htc-g004", "count")),
        ("GPU: power.draw.1.htc-g004[W]", ("GPU", "power.draw", "1", "htc-g004", "W")),
        ("AverageCPUUtilization.htc-g004[%]", ("", "AverageCPUUtilization", "", "htc-g004", "%")),
        ("Turbostat:Busy%.-.nserver07[%]", ("Turbostat", "Busy%", "-", "nserver07", "%")),
        ("Storage:time_doing_I/Os_(ms).a-b[ms]", ("Storage", "time_doing_I/Os_(ms)", "", "a-b", "ms")),
        ("NetworkInterStat_diff:rx.ib0.h[Bytes]", ("NetworkInterStat_diff", "rx", "ib0", "h", "Bytes")),
        ("CPU:CPU25Utilization.h[%]", ("CPU", "CPU25Utilization", "", "h", "%")),
        ("nothing of the kind", None),
        ("Perf:.h[count]", None),
    ],
)  # fmt: skip
def test_a_name_is_read_from_the_right(name: str, found: tuple[str, ...] | None) -> None:
    assert parse_column(name) == (None if found is None else DatasetColumn(*found))


@settings(deadline=None)
@given(
    st.from_regex(r"[A-Za-z][A-Za-z0-9_%()/-]{0,20}(\.[a-z_]{1,10}){0,3}", fullmatch=True),
    st.integers(0, 511) | st.just("-"),
    st.from_regex(r"[a-z][a-z0-9-]{0,12}", fullmatch=True),
    st.sampled_from(["count", "%", "-", "MHz", ""]),
)
def test_every_name_that_can_be_written_is_read_back(
    metric: str, instance: int | str, host: str, unit: str
) -> None:
    written = f"Turbostat:{metric}.{instance}.{host}[{unit}]"
    assert parse_column(written) == DatasetColumn("Turbostat", metric, str(instance), host, unit)


def test_the_generator_is_as_wide_as_the_files_are() -> None:
    assert len(gpu_columns()) == len(set(gpu_columns())) == GPU_WIDTH
    assert len(cpu_columns()) == len(set(cpu_columns())) == CPU_WIDTH


def test_every_target_is_in_the_catalogue() -> None:
    targets = [
        dataset_target(column)[0]
        for name in [*gpu_columns(), *cpu_columns()]
        if (column := parse_column(name))
    ]
    known = [target for target in targets if target is not None]
    assert len(known) > 1200
    for target in known:
        assert known_metric(target.metric), target
        if target.form == "counter":
            assert load_catalog()[target.metric].kind == "counter"
        assert target.stored()[0].name == target.metric


def cells(path: Path) -> dict[str, list[float]]:
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    columns = [line.split("\t") for line in rows]
    return {
        name: [float(row[place]) for row in columns] for place, name in enumerate(header.split("\t")) if place
    }


@pytest.mark.parametrize("name", ["gpu_host_excerpt.txt", "cpu_host_excerpt.txt"])
def test_real_excerpts_come_back_exactly(name: str) -> None:
    found = imported("reveal-dataset", FIXTURES / name, zone=LONDON)
    assert found.findings.skipped == []
    frame, channels = found.frame(), found.channels()
    given_cells = cells(FIXTURES / name)
    assert len(channels) == len(given_cells) == 39
    for column, values in given_cells.items():
        parsed = parse_column(column)
        assert parsed is not None
        target, instance = dataset_target(parsed)
        per_second = (
            10.0 if parsed.unit in ("count", "Bytes") and parsed.family != "NetworkProtocolCounts" else 1.0
        )
        if target is None:
            metric = f"imported.{parsed.family.removesuffix('_diff').lower()}.{parsed.metric}"
            scale = per_second
        else:
            metric, scale = target.metric, per_second * target.scale
        if parsed.metric == "IPC" and parsed.host == "htc-g004":
            scale = 0.01
        stored = frame[f"{metric}/{instance}" if instance else metric]
        # A gauge is a float32: what is stored is the nearest one of the value that was written.
        np.testing.assert_allclose(stored.to_numpy(), np.array(values) * scale, rtol=2**-23, atol=0)
    first = (
        datetime(2025, 4, 26, 12, 38, 18, 600_000)
        if "gpu" in name
        else datetime(2025, 5, 11, 11, 27, 13, 100_000)
    )
    assert frame["ts"][0] == first.replace(tzinfo=UTC)
    assert (frame["ts"][1] - frame["ts"][0]) == timedelta(milliseconds=100)


def test_ratios_that_are_recomputed_agree_with_those_given() -> None:
    from reveal_core.method import build_series
    from reveal_core.telemetry import Telemetry

    found = imported("reveal-dataset", FIXTURES / "gpu_host_excerpt.txt", zone=LONDON)
    frame = found.frame().with_columns(pl.col("ts").dt.cast_time_unit("ns"))
    series = build_series(Telemetry("htc-g004", frame, found.channels()))
    for metric in ("perf.ipc", "perf.branch_miss_rate", "perf.cache_miss_rate", "perf.l3_stall_share"):
        np.testing.assert_allclose(series.frame[metric], frame[metric], rtol=1e-5)
    assert series.channels["perf.cycles"].unit == "cycles/s"
    assert series.channels["net.tx_errors/ib0"].unit == "packets/s"


@pytest.mark.parametrize(
    ("columns", "file", "width"), [(gpu_columns(), GPU_FILE, GPU_WIDTH), (cpu_columns(), CPU_FILE, CPU_WIDTH)]
)
def test_files_of_full_width_lose_nothing(tmp_path: Path, columns: list[str], file: str, width: int) -> None:
    values = dataset_values(columns, 40)
    (tmp_path / file).write_text(dataset_text(columns, values), encoding="utf-8")
    found = imported("reveal-dataset", tmp_path / file, zone=LONDON)
    empty = int(np.isnan(values).all(axis=0).sum())
    assert len(found.channels()) == width - empty
    assert found.assembler.samples == np.isfinite(values).sum()
    assert {entry["reason"] for entry in found.findings.skipped} == {
        "columns that are empty throughout a file"
    }
    frame = found.frame()
    assert frame.height == 40
    busy = columns.index(next(name for name in columns if name.startswith("Turbostat:Busy%.7.")))
    np.testing.assert_allclose(frame["perf.busy/cpu7"], values[:, busy], rtol=1e-6)
    interrupts = columns.index(next(name for name in columns if name.startswith("Turbostat:IRQ.7.")))
    np.testing.assert_allclose(frame["irq.total/cpu7"], values[:, interrupts] * 10, rtol=1e-6)
    channels = found.channels()
    assert channels["irq.total/cpu7"].kind == "gauge"
    assert channels["irq.total/cpu7"].unit == "interrupts/s"
    assert {channel.period_ms for channel in channels.values()} == {100}
    assert "imported.turbostat.whole.Busy%" in channels
    assert not [name for name in channels if name.startswith("perf.busy") and "cpu" not in name]


def test_disk_counts_of_gpu_hosts_are_cumulative_and_sector_counts_become_bytes(tmp_path: Path) -> None:
    columns = gpu_columns()
    values = dataset_values(columns, 30)
    (tmp_path / GPU_FILE).write_text(dataset_text(columns, values), encoding="utf-8")
    found = imported("reveal-dataset", tmp_path / GPU_FILE, zone=LONDON)
    channels, frame = found.channels(), found.frame()
    assert channels["disk.read_sectors/all"].kind == "counter"
    sectors = columns.index("Storage:sectors_read.htc-g004[sectors]")
    assert frame["disk.read_sectors/all"].to_list() == values[:, sectors].astype(int).tolist()
    assert frame["gpu.ecc_volatile_corrected_dram/gpu1"].dtype == pl.Int64
    assert channels["disk.in_flight/all"].kind == "gauge"

    columns = cpu_columns()
    values = dataset_values(columns, 30)
    (tmp_path / CPU_FILE).write_text(dataset_text(columns, values), encoding="utf-8")
    found = imported("reveal-dataset", tmp_path / CPU_FILE, zone=LONDON)
    sectors = columns.index("Storage_diff:sectors_read.nserver07[sectors]")
    assert found.channels()["disk.read_sectors/all"].kind == "gauge"
    assert found.channels()["disk.read_sectors/all"].unit == "B/s"
    np.testing.assert_allclose(found.frame()["disk.read_sectors/all"], values[:, sectors] * 5120, rtol=1e-6)
    available = columns.index("Meminfo_diff:MemAvailable.nserver07[kB]")
    stored = found.frame()["meminfo.MemAvailable.change"]
    np.testing.assert_allclose(stored, values[:, available] * 10240, rtol=1e-6)
    assert stored.min() < 0


def test_two_hosts_side_by_side_become_two_hosts(tmp_path: Path) -> None:
    columns = [*cpu_columns("nserver07"), *cpu_columns("nserver08")]
    values = dataset_values(columns, 40)
    (tmp_path / CPU_FILE).write_text(dataset_text(columns, values), encoding="utf-8")
    found = imported("reveal-dataset", tmp_path / CPU_FILE, zone=LONDON, host="ignored")
    assert found.assembler.hosts == {"nserver07", "nserver08"}
    assert "--host is not used" in found.findings.notes[0]
    busy = columns.index("CPU:CPU3Utilization.nserver08[%]")
    np.testing.assert_allclose(found.frame("nserver08")["cpu.busy/cpu3"], values[:, busy], rtol=1e-6)


def test_the_workload_is_the_job_and_metadata_may_disagree(tmp_path: Path) -> None:
    columns = gpu_columns()
    text = dataset_text(columns, dataset_values(columns, 40))
    write_dataset(tmp_path, {GPU_FILE: text, "notes.txt": "no table\n"})
    (tmp_path / "meta_gpu.csv").write_text(
        "source_file,n_rows,n_cols,phase,mode,model,task,dataset,model_task,workload\n"
        f"./train_separated/{GPU_FILE},40,678,train,nonllm,BARTBASE,TableQuestionAnswering,default,"
        "BARTBASE__TableQuestionAnswering,BARTBASE__TableQuestionAnswering__default\n",
        encoding="utf-8",
    )
    found = imported("reveal-dataset", tmp_path, zone=LONDON)
    facts = metadata_of(found.segments[0])[0]["facts"]
    assert facts["job"]["workload"] == "BARTBASE__TableQuestionAnswering__default"
    assert facts["job"]["phase"] == "train"
    assert facts["cpu"] == {"model": "Intel", "logical": 48}
    assert [gpu["name"] for gpu in facts["gpus"]] == ["gpu0", "gpu1"]
    assert "n_cols of the metadata differs from the file's; the file's holds" in found.findings.notes
    assert "Perf:IPC is in percent on some hosts and was divided by 100 there" in found.findings.notes
    assert any("notes.txt is no file of the dataset" in reason for reason in found.reasons())
    assert f"imported.gpu.{EMPTY_GPU_FIELDS[0]}" not in found.channels()


def test_what_a_name_says() -> None:
    job = job_of("data_LLaMAforCausalLM_wikisql_small_2025-06-01T01-02-03_htc-g003.txt.xz")
    assert job is not None
    assert (job["phase"], job["model"], job["task"]) == ("fine-tuning", "LLaMA", "CausalLM")
    assert (job["dataset"], job["host"]) == ("wikisql_small", "htc-g003")
    assert job_of("something.txt") is None


def test_runs_of_few_rows(tmp_path: Path) -> None:
    columns = cpu_columns()
    (tmp_path / CPU_FILE).write_text(dataset_text(columns, dataset_values(columns, 3)), encoding="utf-8")
    found = imported("reveal-dataset", tmp_path / CPU_FILE, zone=LONDON)
    assert found.frame().height == 3
    assert "a run is shorter than a window of 3 s: it cannot be scored alone" in found.findings.notes
    (tmp_path / CPU_FILE).write_text(dataset_text(columns, dataset_values(columns, 1)), encoding="utf-8")
    found = imported("reveal-dataset", tmp_path / CPU_FILE, zone=LONDON)
    assert "counts of a single row: without an interval they are no rates" in found.reasons()
    assert "perf.busy/cpu0" in found.channels()


def test_a_zone_must_be_given_and_a_file_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--timezone"):
        imported("reveal-dataset", FIXTURES / "gpu_host_excerpt.txt")
    (tmp_path / "empty.txt").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="no file of the dataset"):
        imported("reveal-dataset", tmp_path / "empty.txt", zone=LONDON)
    with pytest.raises(UsageError, match="is not there"):
        imported("reveal-dataset", tmp_path / "nothing", zone=LONDON)


FEW = [
    "Perf:Cycles.h[count]",
    "Perf:Instructions.h[count]",
    "Perf:IPC.h[-]",
    "CPU:CPU0Utilization.h[%]",
    "Storage_diff:reads_completed.h[count]",
    "Odd name",
]


def few(rows: int) -> list[str]:
    text = dataset_text(FEW, dataset_values(FEW, rows))
    return text.splitlines(keepends=True)


def read(tmp_path: Path, lines: list[str], encoding: str = "utf-8"):
    path = tmp_path / "run.txt"
    path.write_bytes("".join(lines).encode(encoding))
    return imported("reveal-dataset", path, zone=LONDON)


def test_what_is_malformed_is_told_and_the_rest_is_kept(tmp_path: Path) -> None:
    lines = few(20)
    lines[3] = lines[3].replace("\t", "", 1)  # a column fewer
    lines[5] = lines[5].rstrip("\n") + "\t1.0\n"  # a column more
    cells_ = lines[7].split("\t")
    lines[7] = "\t".join([*cells_[:4], "abc", *cells_[5:]])
    lines[9] = "no time" + lines[9][lines[9].index("\t") :]
    lines[-1] = lines[-1][:40]
    found = read(tmp_path, lines)
    assert found.frame().height == 20 - 4
    told = {(e["item"], e["reason"]) for e in found.findings.skipped}
    assert told == {
        ("run.txt, line 4, and 1 more", "rows that do not have the header's 7 columns (first: '6 columns')"),
        ("run.txt, line 8", "samples of column CPU:CPU0Utilization.h[%] that are no number (first: 'abc')"),
        ("run.txt, line 10", "rows whose time is none (first: 'no time')"),
        (
            "run.txt, line 21",
            f"the last row: the file ends within it (first: '{lines[-1].count(chr(9)) + 1} columns')",
        ),
    }
    assert found.frame()["cpu.busy/cpu0"].null_count() == 1
    assert "imported.cpu.Odd_name" in found.channels()


def test_marks_and_line_ends_of_other_systems_change_nothing(tmp_path: Path) -> None:
    plain = read(tmp_path, few(20)).frame()
    assert read(tmp_path, few(20), "utf-8-sig").frame().equals(plain)
    assert read(tmp_path, [line.replace("\n", "\r\n") for line in few(20)]).frame().equals(plain)
    assert read(tmp_path, [*few(20)[:-1], few(20)[-1].rstrip("\n")]).frame().equals(plain)
    with pytest.raises(UsageError, match="UTF-16"):
        read(tmp_path, few(20), "utf-16")


def test_rows_out_of_order_twice_and_missing(tmp_path: Path) -> None:
    lines = few(20)
    ordered = read(tmp_path, lines).frame()
    swapped = read(tmp_path, [*lines[:5], lines[6], lines[5], *lines[7:]])
    assert swapped.frame()["ts"].equals(ordered["ts"])
    assert swapped.frame()["cpu.busy/cpu0"].equals(ordered["cpu.busy/cpu0"])
    assert swapped.findings.skipped == []
    twice = read(tmp_path, [*lines, lines[4]])
    assert twice.frame()["cpu.busy/cpu0"].equals(ordered["cpu.busy/cpu0"])
    assert [reason.partition(";")[0] for reason in twice.reasons()] == [
        "rows of a time that another row had already"
    ]
    gap = read(tmp_path, [*lines[:8], *lines[12:]])
    reads = float(lines[12].split("\t")[5])
    assert gap.frame().height == 16
    # What changed since the row before is spread over the time since then.
    assert gap.frame()["disk.reads/all"][7] == pytest.approx(reads / 0.5, rel=1e-6)
    assert gap.channels()["cpu.busy/cpu0"].period_ms == 100


def test_a_column_that_stands_twice(tmp_path: Path) -> None:
    lines = [
        line.rstrip("\n") + ("\tPerf:Cycles.h[count]" if not n else "\t5.0") + "\n"
        for n, line in enumerate(few(9))
    ]
    found = read(tmp_path, lines)
    assert found.items() == ["column Perf:Cycles.h[count]"]
    assert found.frame()["perf.cycles"].min() > 1e9


def test_both_passes_of_the_hour_that_comes_twice(tmp_path: Path) -> None:
    moments = [datetime(2025, 10, 26, 1, 59, 59, 500_000) + timedelta(seconds=n / 10) for n in range(5)]
    moments += [datetime(2025, 10, 26, 1, 0) + timedelta(seconds=n / 10) for n in range(5)]
    path = tmp_path / "run.txt"
    path.write_text(dataset_text(FEW, dataset_values(FEW, 10), times=moments), encoding="utf-8")
    steps = imported("reveal-dataset", path, zone=LONDON).frame()["ts"].diff().drop_nulls()
    assert set(steps) == {timedelta(milliseconds=100)}


def test_importing_twice_writes_the_same_segments(tmp_path: Path) -> None:
    columns = cpu_columns()
    text = dataset_text(columns, dataset_values(columns, 20), START)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / CPU_FILE).write_text(text, encoding="utf-8")
    one, other = (
        imported("reveal-dataset", tmp_path / folder / CPU_FILE, zone=LONDON) for folder in ("a", "b")
    )
    assert [(s.start, s.boot, s.sequence, s.data) for s in one.segments] == [
        (s.start, s.boot, s.sequence, s.data) for s in other.segments
    ]
