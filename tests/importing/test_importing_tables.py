"""CSV and Parquet, wide and long, with a mapping and without, and the mapping that is proposed."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from import_parts import imported, metadata_of

from reveal_core.errors import UsageError
from reveal_core.importing.mapping import read_mapping, table_mapping
from reveal_core.importing.suggest import suggest

WIDE = """\
timestamp,host,cpu load,meminfo.MemFree,rx_bytes,note
2026-11-29T20:15:00Z,n1,1.5,1000,10,ok
2026-11-29T20:15:00Z,n2,2.5,2000,7,ok
2026-11-29T20:15:15Z,n1,1.6,1001,40,late
2026-11-29T20:15:15Z,n2,2.6,,9,
2026-11-29T20:15:30Z,n1,1.7,1002,100,ok
2026-11-29T20:15:30Z,n2,2.7,2002,12,ok
"""
HOSTS: dict[str, Any] = {"host": {"column": "host"}}


def written(tmp_path: Path, text: str, name: str = "table.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_wide_table_of_several_hosts(tmp_path: Path) -> None:
    mapping = {
        **HOSTS,
        "columns": {
            "rx_bytes": {"metric": "net.rx_bytes", "instance": "eth0", "form": "counter"},
            "cpu load": {"metric": "load.one", "unit": "tasks", "subsystem": "cpu"},
        },
    }
    found = imported("csv", written(tmp_path, WIDE), mapping=mapping)
    assert found.assembler.hosts == {"n1", "n2"}
    frame, channels = found.frame("n1"), found.channels()
    assert frame["net.rx_bytes/eth0"].to_list() == [10, 40, 100]
    assert frame["net.rx_bytes/eth0"].dtype == pl.Int64
    assert frame["load.one"].to_list() == pytest.approx([1.5, 1.6, 1.7])
    assert found.frame("n2")["meminfo.MemFree"].to_list() == [2000, None, 2002]
    assert {c.period_ms for c in channels.values()} == {15_000}
    assert (channels["load.one"].unit, channels["load.one"].subsystem) == ("tasks", "cpu")
    assert found.items() == ["column note"]
    assert found.findings.kept_as == []


def test_without_a_mapping_columns_keep_a_name_of_their_own(tmp_path: Path) -> None:
    found = imported("csv", written(tmp_path, WIDE.replace(",host,", ",rack,")), host="here")
    assert {entry["metric"] for entry in found.findings.kept_as} == {
        "imported.csv.cpu_load",
        "imported.csv.rx_bytes",
    }
    assert found.channels()["imported.csv.rx_bytes"].subsystem == "network"
    # Both hosts' rows are now rows of one: of each time the first stays, and that is told.
    assert found.frame()["imported.csv.cpu_load"].to_list() == pytest.approx([1.5, 1.6, 1.7])
    assert any(reason.startswith("rows of a time") for reason in found.reasons())


def test_counts_since_the_row_before_become_rates(tmp_path: Path) -> None:
    text = "t,disk reads,own\n1784016000,30,3\n1784016010,40,4\n1784016030,50,5\n"
    mapping = {
        "columns": {
            "disk reads": {"metric": "disk.read_sectors", "instance": "sda", "form": "count"},
            "own": {"metric": "own.count", "form": "count", "unit": "events"},
        }
    }
    found = imported("csv", written(tmp_path, text), mapping=mapping)
    # The first row has none before it: the usual interval, here the median of 10 and 20 s, stands for it.
    wanted = [30 * 512 / 15, 40 * 512 / 10, 50 * 512 / 20]
    assert found.frame()["disk.read_sectors/sda"].to_list() == pytest.approx(wanted)
    assert found.channels()["disk.read_sectors/sda"].unit == "B/s"
    assert found.channels()["own.count"].unit == "events/s"


LONG = """\
time;metric;device;value
1784016000000;gpu.utilization;gpu0;50
1784016000000;gpu.utilization;gpu1;60
1784016000000;Fan;;1
1784016001000;gpu.utilization;gpu0;51
1784016001000;gpu.utilization;gpu1;61
1784016001000;Fan;;
1784016001000;Fan;;3
1784016001000;;;9
1784016001000;Fan;;4
"""


def test_a_long_table(tmp_path: Path) -> None:
    mapping = {"long": {"metric": "metric", "value": "value"}, "instance_column": "device"}
    found = imported("csv", written(tmp_path, LONG), mapping=mapping)
    frame = found.frame()
    assert frame["gpu.utilization/gpu1"].to_list() == [60, 61]
    assert frame["imported.csv.Fan"].to_list() == [1, 3]
    assert set(found.reasons()) == {
        "rows without a name in column metric",
        "samples of a time and channel that had one already; the first is kept",
    }
    assert metadata_of(found.segments[0])[0]["facts"]["gpus"] == [
        {"index": 0, "name": "gpu0"},
        {"index": 1, "name": "gpu1"},
    ]


def test_a_row_for_each_device(tmp_path: Path) -> None:
    text = "time,disk,disk.reads\n" + "".join(
        f"2026-11-29 20:15:{second:02d},sd{disk},{100 * second + n}\n"
        for second in range(4)
        for n, disk in enumerate("ab")
    )
    found = imported("csv", written(tmp_path, text), zone="UTC", mapping={"instance_column": "disk"})
    assert found.frame()["disk.reads/sdb"].to_list() == [1, 101, 201, 301]
    assert found.channels()["disk.reads/sda"].period_ms == 1000


@pytest.mark.parametrize("aware", [True, False])
def test_parquet_is_read_as_csv_is(tmp_path: Path, aware: bool) -> None:
    frame = pl.read_csv(written(tmp_path, WIDE), try_parse_dates=True).with_columns(
        pl.col("timestamp").cast(pl.Datetime("us", "UTC")),
        pl.lit(True).alias("flag"),
        pl.col("note").cast(pl.Categorical),
    )
    if not aware:
        frame = frame.with_columns(pl.col("timestamp").dt.replace_time_zone(None))
    frame.write_parquet(tmp_path / "table.parquet")
    found = imported("parquet", tmp_path / "table.parquet", mapping=HOSTS, zone="UTC")
    text = imported("csv", tmp_path / "table.csv", mapping=HOSTS)
    own = found.frame("n2")
    assert own["ts"].equals(text.frame("n2")["ts"])
    assert own["meminfo.MemFree"].equals(text.frame("n2")["meminfo.MemFree"])
    assert own["imported.parquet.flag"].to_list() == [1, 1, 1]
    assert found.items() == ["column note"]


def test_minutes_from_an_origin(tmp_path: Path) -> None:
    pl.DataFrame({"minute": [0, 1, 2], "node": [7, 7, 7], "power": [1.0, 2.0, None]}).write_parquet(
        tmp_path / "j.parquet"
    )
    mapping = {
        "time": {"column": "minute", "format": "m", "origin": "2021-02-01T00:00:00Z"},
        "host": {"column": "node", "prefix": "node-"},
        "job": {"id": "4711"},
    }
    found = imported("parquet", tmp_path / "j.parquet", mapping=mapping)
    assert found.assembler.hosts == {"node-7"}
    assert metadata_of(found.segments[0])[0]["facts"]["job"] == {"id": "4711"}
    assert found.frame()["ts"][2] == datetime(2021, 2, 1, 0, 2, tzinfo=UTC)
    assert found.channels()["imported.parquet.power"].period_ms == 60_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("1,2,3\n4,5,6\n", "has no header"),
        ("a,b\n1,2\n", "no column looks like a time"),
        ("time,b\n2026-11-29 20:15:00,2\n", "--timezone"),
        ("time,b\n", None),
    ],
)
def test_tables_of_no_use(tmp_path: Path, text: str, said: str | None) -> None:
    path = written(tmp_path, text)
    if said is None:
        assert imported("csv", path).reasons() == ["a table without rows"]
    else:
        with pytest.raises(UsageError, match=said):
            imported("csv", path)


def test_damaged_parquet(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(UsageError, match="no Parquet file"):
        imported("parquet", tmp_path / "x.parquet")


def test_of_a_folder_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    written(tmp_path, WIDE, "a.csv")
    written(tmp_path, "a,b\n1,2\n", "b.csv")
    found = imported("csv", tmp_path, mapping=HOSTS)
    assert found.assembler.hosts == {"n1", "n2"}
    assert "b.csv" in found.items()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"colums": {}}, "colums"),
        ({"columns": {"a": {"form": "gauge"}}}, r"columns\.a\.form"),
        ({"columns": {"a": {"metric": "meminfo.MemFree", "form": "counter"}}}, "not a counter"),
        ({"columns": {"a": {"metric": "meminfo.MemFree", "unit": "kB"}}}, "from the catalogue"),
        ({"columns": {"a": {"metric": "cpu.busy", "form": "count"}}}, "is derived"),
        ({"columns": {"a": {"scale": 0}}}, "other than 0"),
        ({"columns": {"a": {"metric": "ts"}}}, r"columns\.a\.metric"),
        ({"time": {"format": "fortnight"}}, r"time\.format"),
        ({"time": {"zone": "Nowhere"}}, r"time\.zone"),
        ({"time": {"origin": "someday"}}, "is not a time"),
        ({"long": {"metric": "a"}}, r"long\.value"),
    ],
)
def test_a_mapping_says_what_is_wrong_and_where(content: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        table_mapping(content, "map.toml")


def test_a_mapping_of_columns_that_are_not_there(tmp_path: Path) -> None:
    path = written(tmp_path, WIDE)
    with pytest.raises(UsageError, match="'nothing' that is not there: it has timestamp, host"):
        imported("csv", path, mapping={"columns": {"nothing": {}}})
    with pytest.raises(UsageError, match=r"mapping file .* cannot be read"):
        read_mapping(tmp_path / "none.toml")
    written(tmp_path, "[time", "bad.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        read_mapping(tmp_path / "bad.toml")


@pytest.mark.parametrize("text", [WIDE, LONG, WIDE.replace("rx_bytes", "utilization.gpu [%]")])
def test_a_proposed_mapping_imports_the_table(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    content = tomllib.loads(suggest(path, "csv"))
    found = imported("csv", path, mapping=content)
    assert found.assembler.samples > 0
    if "utilization.gpu" in text:
        assert content["columns"]["utilization.gpu [%]"]["metric"] == "gpu.utilization"
    if text is WIDE:
        assert content["host"] == {"column": "host"}
        assert content["columns"]["meminfo.MemFree"] == {"metric": "meminfo.MemFree", "form": "level"}
        assert content["ignore"] == ["note"]
    if text is LONG:
        assert content["long"] == {"metric": "metric", "value": "value"}
        assert content["instance_column"] == "device"


def test_a_mapping_is_proposed_for_parquet_too(tmp_path: Path) -> None:
    pl.DataFrame({"ts": [1784016000, 1784016001], "node_cpu": ["a", "b"], "ctxt": [5, 9]}).write_parquet(
        tmp_path / "t.parquet"
    )
    content = tomllib.loads(suggest(tmp_path / "t.parquet", "parquet"))
    assert content["columns"]["ctxt"] == {"metric": "stat.ctxt", "form": "counter"}
    assert imported("parquet", tmp_path / "t.parquet", mapping=content).frame()["stat.ctxt"].to_list() == [
        5,
        9,
    ]
