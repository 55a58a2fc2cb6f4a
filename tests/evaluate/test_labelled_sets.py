"""Readers of labelled sets on small files, good and bad."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from reveal_core.errors import UsageError
from reveal_core.evaluate.datasets import READERS, asd, emmy, nab, nezha, smd
from reveal_core.evaluate.labelled import FaultDay, LabelledSeries, PodFault, Segment


def entity_table(train: int = 4, test: int = 6, labels=(0, 1, 1, 0, 0, 1), **more) -> pl.DataFrame:
    rows = np.arange(train + test)
    columns = {
        "split": [0] * train + [1] * test,
        "label": [0] * train + list(labels),
        "cpu_r": (rows / 10).astype(np.float32),
        "disk_q": (1 - rows / 10).astype(np.float32),
    }
    return pl.DataFrame(columns | more)


def write_split_set(folder: Path, prefix: str, table: pl.DataFrame, segments: str) -> None:
    table.write_parquet(folder / f"{prefix}10.parquet")
    table.write_parquet(folder / f"{prefix}9.parquet")
    (folder / "interpretation.csv").write_text(f"entity,start,end_exclusive,metrics\n{segments}")
    (folder / "columns.csv").write_text("metric,subsystem\ncpu_r,cpu\ndisk_q,storage\n")


SEGMENTS = "machine-1-9,5,6,cpu_r\nmachine-1-9,1,3,disk_q;cpu_r\nmachine-1-10,1,3,\nmachine-7-7,900,901,x\n"


def test_smd(tmp_path: Path) -> None:
    write_split_set(tmp_path, "machine-1-", entity_table(), SEGMENTS)
    nine, ten = smd.read(tmp_path)
    assert (nine.entity, ten.entity, nine.period_s) == ("machine-1-9", "machine-1-10", 60)
    assert (nine.metrics, nine.subsystems) == (("cpu_r", "disk_q"), ("cpu", "storage"))
    assert (nine.train.shape, nine.test.shape, nine.test.dtype) == ((4, 2), (6, 2), np.float64)
    assert nine.test[0] == pytest.approx([0.4, 0.6])
    assert nine.labels.tolist() == [False, True, True, False, False, True]
    assert nine.segments == (Segment(1, 3, ("disk_q", "cpu_r")), Segment(5, 6, ("cpu_r",)))
    assert ten.segments == (Segment(1, 3, ()),)
    assert nine.events == [(1, 3), (5, 6)]


def test_asd_knows_no_subsystem(tmp_path: Path) -> None:
    write_split_set(tmp_path, "omi-", entity_table(), "omi-9,1,3,disk_q\n")
    nine, ten = asd.read(tmp_path)
    assert (nine.entity, nine.period_s, nine.subsystems) == ("omi-9", 300, (None, None))
    assert (len(nine.segments), len(ten.segments)) == (1, 0)


@pytest.mark.parametrize(
    ("table", "segments", "message"),
    [
        (entity_table().drop("label"), "", r"machine-1-9\.parquet: no column label"),
        (entity_table().select("split", "label"), "", r"machine-1-9\.parquet: no column of a metric"),
        (entity_table(labels=[0, 2, 0, 0, 0, 0]), "", "column label has other values than 0 and 1"),
        (entity_table(split=[1] + [0] * 9), "", "column split is not train rows"),
        (entity_table(split=[1] * 10), "", "column split is not train rows"),
        (entity_table(cpu_r=[np.nan] + [1.0] * 9), "", "column cpu_r, row 0: nan is not a number"),
        (entity_table(cpu_r=[1.0, None] + [1.0] * 8), "", "column cpu_r, row 1: nan is not a number"),
        (entity_table(cpu_r=["x"] * 10), "", "column cpu_r is not all numbers"),
        (entity_table(new=[1.0] * 10), "", "no subsystem is given for new"),
        (entity_table().clear(), "", "no rows"),
        (
            entity_table(),
            "machine-1-9,5,7,cpu_r\n",
            r"interpretation\.csv: machine-1-9, rows 5 to 7: not within",
        ),
        (entity_table(), "machine-1-9,3,3,cpu_r\n", "rows 3 to 3: not within the 6 rows"),
        (entity_table(), "machine-1-9,1,3,cpu\n", "machine-1-9, rows 1 to 3: no metric cpu"),
        (entity_table(), "machine-1-9,a,3,cpu_r\n", "column start is not all numbers"),
    ],
)
def test_smd_with_a_mistake_is_refused_in_one_line(table, segments, message, tmp_path: Path) -> None:
    write_split_set(tmp_path, "machine-1-", table, segments or SEGMENTS)
    with pytest.raises(UsageError, match=message) as error:
        smd.read(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", READERS)
def test_an_empty_folder_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such file|no file") as error:
        READERS[name](tmp_path)
    assert str(tmp_path) in str(error.value)


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    write_split_set(tmp_path, "machine-1-", entity_table(), SEGMENTS)
    (tmp_path / "machine-1-9.parquet").write_text("not parquet")
    with pytest.raises(UsageError, match=r"machine-1-9\.parquet: cannot be read") as error:
        smd.read(tmp_path)
    assert "\n" not in str(error.value)


START = datetime(2014, 2, 14, 14, 30)
SERVER = "realAWSCloudwatch/ec2_cpu_utilization_1"
OFFICE = "realKnownCause/ambient_temperature_system_failure"


def write_nab(
    folder: Path, windows: str = f"{SERVER},2014-02-14 15:20:00,2014-02-14 15:30:00", **more
) -> None:
    times = [START + timedelta(minutes=5 * row) for row in range(20)]
    columns = {
        "series": [SERVER] * 20,
        "timestamp": times,
        "value": np.arange(20.0),
        "label": [int(10 <= row <= 12) for row in range(20)],
    }
    server = pl.DataFrame(columns | more)
    pl.concat([server, server.with_columns(series=pl.lit(OFFICE))]).write_parquet(folder / "nab.parquet")
    (folder / "windows.csv").write_text(f"series,start,end\n{windows}\n")


def test_nab(tmp_path: Path) -> None:
    write_nab(tmp_path)
    (series,) = nab.read(tmp_path)
    assert (series.entity, series.metrics, series.subsystems) == (SERVER, ("value",), ("cpu",))
    assert series.period_s == 300
    assert series.train[:, 0].tolist() == [0, 1, 2]
    assert series.test[0, 0] == 3
    assert series.segments == (Segment(7, 10),)
    assert series.events == [(7, 10)]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"label": [0] * 20}, f"nab.parquet: {SERVER}: the label of row 10 does not agree with windows.csv"),
        ({"windows": f"{SERVER},2014-02-14 14:30:00,2014-02-14 15:30:00"}, "one of the first 15 %"),
        ({"windows": f"{SERVER},2015-02-14 14:30:00,2015-02-14 15:30:00"}, "no scored row"),
        ({"windows": f"{SERVER},noon,2015-02-14 15:30:00"}, "windows.csv: a start or end is not a time"),
        ({"timestamp": list(range(20))}, "column timestamp is not all times"),
        ({"value": [np.nan] * 20}, "column value, row 0"),
    ],
)
def test_nab_with_a_mistake_is_refused(more, message, tmp_path: Path) -> None:
    write_nab(tmp_path, **more)
    with pytest.raises(UsageError, match=message):
        nab.read(tmp_path)


def write_job(folder: Path, minutes, nodes, **more) -> None:
    size = len(minutes)
    columns = {"minute": minutes, "node": nodes, "ipc": np.arange(float(size)), "clock": [2.0] * size}
    pl.DataFrame(columns | more).write_parquet(folder / "job_b.parquet")


def test_emmy_puts_samples_at_their_minute_and_node(tmp_path: Path) -> None:
    write_job(tmp_path, [12, 10, 10, 12], [0, 0, 10, 10], clock=[2.0, np.nan, None, 2.0])
    (job,) = emmy.read(tmp_path)
    assert (job.job, job.nodes, job.metrics, job.period_s) == ("job_b", ("0", "10"), ("ipc", "clock"), 60)
    nan = np.nan
    assert job.values[:, :, 0] == pytest.approx(np.array([[1, 2], [nan, nan], [0, 3]]), nan_ok=True)
    assert job.values[:, :, 1] == pytest.approx(np.array([[nan, nan], [nan, nan], [2, 2]]), nan_ok=True)
    assert (job.slow, job.work) == (frozenset(), ("ipc",))


def test_emmy_with_a_mistake_is_refused(tmp_path: Path) -> None:
    write_job(tmp_path, [1, 1], [0, 0])
    with pytest.raises(UsageError, match=r"job_b\.parquet: two rows of the same minute and node"):
        emmy.read(tmp_path)
    write_job(tmp_path, [1, 2], [0, 0], ipc=[1.0, np.inf])
    with pytest.raises(UsageError, match="column ipc, row 1: inf"):
        emmy.read(tmp_path)
    pl.DataFrame({"minute": [1], "node": [0], "clock": [2.0]}).write_parquet(tmp_path / "job_b.parquet")
    with pytest.raises(UsageError, match="no column of work done: ipc, mem_bw, flops_any"):
        emmy.read(tmp_path)


FAULTS = "1300,web,cpu_consumed,cpu\n1120,db,exception,none\n"


def write_day(folder: Path, faults: str = FAULTS, *, edges: bool = True) -> None:
    pl.DataFrame(
        {
            "pod": ["web"] * 4 + ["db"] * 3,
            "ts": [1120, 1000, 1060, 1300, 1030, 1030, 1150],
            "cpu": [3.0, 1.0, 2.0, None, 7.0, 8.0, 9.0],
        }
    ).write_parquet(folder / "2030-01-02_metrics.parquet")
    (folder / "2030-01-02_faults.csv").write_text(f"inject_ts,pod,fault,subsystem\n{faults}")
    if edges:
        columns = {
            "ts": [1000, 1000],
            "edge": ["web_db"] * 2,
            "lat_p50_s": [0.1, 0.2],
            "side": ["source", "destination"],
        }
        pl.DataFrame(columns).write_parquet(folder / "2030-01-02_edge_latency.parquet")


def test_nezha(tmp_path: Path) -> None:
    write_day(tmp_path)
    (day,) = nezha.read(tmp_path)
    assert (day.day, day.metrics, [pod.name for pod in day.pods]) == ("2030-01-02", ("cpu",), ["db", "web"])
    db, web = day.pods
    assert (db.times_s.tolist(), db.values[:, 0].tolist()) == ([1030, 1150], [7, 9])
    assert web.times_s.tolist() == [1000, 1060, 1120, 1300]
    assert web.values[:, 0] == pytest.approx([1, 2, 3, np.nan], nan_ok=True)
    assert [(e.name, e.values.item()) for e in day.edges] == [
        ("web_db/destination", 0.2),
        ("web_db/source", 0.1),
    ]
    assert day.faults == (
        PodFault(1120, "db", "exception", None),
        PodFault(1300, "web", "cpu_consumed", "cpu"),
    )


def test_a_day_without_edge_latency(tmp_path: Path) -> None:
    write_day(tmp_path, edges=False)
    assert nezha.read(tmp_path)[0].edges == ()


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ("1120,cache,x,cpu\n", "the fault at 1120: no pod cache"),
        ("1120,db,x,gpu\n", "the fault at 1120: subsystem gpu is none of cpu, network, none"),
        ("2000,db,x,cpu\n", "the fault at 2000: outside the recorded times of its pod"),
        ("noon,db,x,cpu\n", "column inject_ts is not all numbers"),
    ],
)
def test_nezha_with_a_mistake_is_refused(faults: str, message: str, tmp_path: Path) -> None:
    write_day(tmp_path, faults)
    with pytest.raises(UsageError, match=rf"2030-01-02_faults\.csv: {message}"):
        nezha.read(tmp_path)


def test_a_time_is_free_of_faults_before_and_long_after_them() -> None:
    day = FaultDay("d", (), (), (), (PodFault(1000, "a", "x", None), PodFault(1200, "b", "x", None)))
    times = np.array([999, 1000, 1359, 1360, 1559, 1560.0])
    assert day.fault_free(times).tolist() == [True, False, False, False, False, True]


def test_series_that_do_not_fit_together_are_refused() -> None:
    values, labels = np.zeros((3, 2)), np.zeros(3, dtype=bool)
    with pytest.raises(ValueError, match="shapes"):
        LabelledSeries("a", values, values, 60, ("x",), (None,), labels, ())
    with pytest.raises(ValueError, match="outside"):
        LabelledSeries("a", values, values, 60, ("x", "y"), (None, None), labels, (Segment(2, 4),))
