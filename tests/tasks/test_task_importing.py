"""The importing stage: from files to telemetry that the method reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from reveal_core.errors import UnavailableError, UsageError
from storage.store import Store
from tasks.importing import import_telemetry, suggest_mapping

TABLE = "timestamp,host,cpu.user/cpu0,own\n" + "".join(
    f"2026-11-29T20:{15 + minute}:00Z,n1,{1000 * minute},{minute}\n" for minute in range(20)
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def mapped(tmp_path: Path) -> str:
    path = tmp_path / "map.toml"
    path.write_text('[host]\ncolumn = "host"\n', encoding="utf-8")
    return str(path)


def test_what_was_imported_is_in_the_store(tmp_path: Path, table: Path) -> None:
    store = str(tmp_path / "store")
    told: list[str] = []
    result = import_telemetry(store, kind="csv", source=str(table), mapping=mapped(tmp_path), say=told.append)
    assert result["hosts"] == ["n1"]
    assert (result["segments"], result["samples"], result["skipped"]) == (1, 40, [])
    assert result["unmapped"] == [{"column": "own", "metric": "imported.csv.own"}]
    assert (result["period_ms"], result["start"]) == (60_000, "2026-11-29T20:15:00.000Z")
    assert "window_s = 180 and stride_s = 60" in result["notes"][0]
    assert told == ["Importing table.csv: n1 2026-11-29T20:15:00.000Z"]
    again = import_telemetry(store, kind="csv", source=str(table), mapping=mapped(tmp_path))
    assert again == result
    source = Store(store)
    extent = source.extent("n1")
    assert extent is not None
    read = source.read_telemetry("n1", *extent)
    assert len(read.segments) == 1
    assert read.telemetry.frame["cpu.user/cpu0"].to_list() == [1000 * minute for minute in range(20)]
    assert read.telemetry.facts["imported"] == {"kind": "csv", "file": "table.csv"}


def test_logs_of_several_tools_of_one_host_lie_together(tmp_path: Path, table: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(TABLE.replace("own", "meminfo.MemFree"), encoding="utf-8")
    store = str(tmp_path / "store")
    for path in (table, other):
        import_telemetry(store, kind="csv", source=str(path), mapping=mapped(tmp_path))
    source = Store(store)
    extent = source.extent("n1")
    assert extent is not None
    frame = source.read_telemetry("n1", *extent).telemetry.frame
    assert frame.height == 20
    assert {"imported.csv.own", "meminfo.MemFree"} <= set(frame.columns)
    assert "boot" not in frame.columns
    assert frame["meminfo.MemFree"].null_count() == 0


def test_a_source_of_no_use_makes_no_store(tmp_path: Path, table: Path) -> None:
    store = tmp_path / "store"
    with pytest.raises(
        UsageError, match="there is no kind 'excel' to import: choose from reveal-dataset, csv"
    ):
        import_telemetry(str(store), kind="excel", source=str(table))
    with pytest.raises(UsageError, match="--mapping is of no use for turbostat"):
        import_telemetry(str(store), kind="turbostat", source=str(table), mapping=mapped(tmp_path))
    with pytest.raises(UsageError, match="no log of turbostat"):
        import_telemetry(str(store), kind="turbostat", source=str(table))
    assert not store.exists()
    table.write_text("time,a\n2026-11-29 20:15:00Z\n", encoding="utf-8")
    with pytest.raises(
        UsageError, match=r"nothing of .* could be imported: table\.csv, line 2: rows that do not"
    ):
        import_telemetry(str(store), kind="csv", source=str(table))


def test_a_store_that_cannot_be_written_is_told(tmp_path: Path, table: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="store"):
        import_telemetry(str(tmp_path / "file"), kind="csv", source=str(table), host="x")


def test_only_tables_have_mappings(table: Path) -> None:
    assert suggest_mapping(kind="csv", source=str(table))["mapping"].startswith("# A mapping for table.csv")
    with pytest.raises(UsageError, match="needs no mapping file"):
        suggest_mapping(kind="perf", source=str(table))
