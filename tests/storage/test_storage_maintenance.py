"""Maintenance of a whole store: what goes, what stays and why, what dead writers left; and the dry run."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from maintenance_parts import H20, HOST, HOUR, MINUTE, Dying, Killed, made
from storage_parts import incident, scores

from reveal_core.arrivals import Numbers, Watermark
from reveal_core.errors import UnavailableError, UsageError
from reveal_core.labels import Label
from reveal_core.ledger import Entry, Episode, Ledger
from reveal_core.retention import Retention
from reveal_core.silences import Silence
from storage import maintenance as module
from storage.backend import Backend
from storage.files import ReadOnlyBackend, empty_folders, files_below, remove_empty
from storage.layout import host_folder, past_ledger_key, silence_key
from storage.maintenance import Maintenance
from storage.orphans import AREAS
from storage.retention import due, shared, unjudged, waits
from storage.rewriting import stored_segments
from storage.store import Store

DAY = timedelta(days=1)
NOW = datetime(2100, 3, 9, 20, tzinfo=UTC)
"""Far from when tests run, so that what they write is old."""
RULES = Retention(
    raw=10 * DAY,
    telemetry=50 * DAY,
    unjudged=5 * DAY,
    scores=20 * DAY,
    incidents=60 * DAY,
    reports=20 * DAY,
    quarantine=20 * DAY,
)


def ago(days: float) -> datetime:
    return NOW - days * DAY


def entry(identity: str, at: datetime) -> Entry:
    episode = Episode(at, at + MINUTE, incidents=(identity, f"{identity}-again"))
    return Entry(
        id=identity,
        fingerprint="f",
        host=HOST,
        subsystem="cpu",
        cause="",
        title="",
        action="",
        metrics=(),
        first=at,
        start=at,
        end=at + MINUTE,
        count=2,
        state="resolved",
        cleared=at + MINUTE,
        flapping=False,
        severity=1,
        score=1.0,
        probability=0.1,
        strongest=identity,
        episodes=(episode,),
    )


def label(identity: str, at: datetime) -> Label:
    return Label(HOST, identity, "f", "real", at, at + MINUTE, "cpu", "", "me", at)


def report(store: Store, days: float, kind: str = "score") -> str:
    identity = f"{ago(days):%Y%m%dT%H%M%SZ}-{kind}-{secrets.token_hex(3)}"
    store.put_report(identity, "<p>page</p>", {"created": ago(days).isoformat(), "title": kind})
    return identity


def segments(store: Store, days: float, count: int = 3, host: str = HOST) -> None:
    """Put telemetry that begins so many days ago, within one quarter of an hour."""
    for n in range(count):
        store.put_segment(made(ago(days) + n * MINUTE, n, host=host, step_s=3))


def filled(store: Store) -> dict[str, Any]:
    """Fill a store with things of every kind and age; return ids."""
    for days in (99, 40, 5):
        segments(store, days)
        store.put_scores("m@1", scores(ago(days), 3, host=HOST))
    segments(store, 0.01)
    # All is judged, but the middle of what is 40 days old.
    store.put_ledger(
        Ledger(HOST, ((ago(100), ago(40) + MINUTE), (ago(39.9), NOW))),
        [entry("old", ago(99)), entry("kept", ago(75)), entry("young", ago(2))],
    )
    for identity, days in (("old", 99.0), ("kept", 75.0), ("kept-again", 75.0), ("young", 2.0)):
        store.put_incident(incident(identity, ago(days), host=HOST))
    store.put_label(label("kept", ago(75)))
    for identity, days in (("s-old", 99.0), ("s-young", 2.0)):
        store.put_silence(Silence(identity, "*", "*", "*", ago(days), ago(days) + HOUR))
    return {"reports": [report(store, days) for days in (99, 30, 2)]}


def document(maintenance: Maintenance) -> dict[str, Any]:
    """Do everything; return what was done."""
    cleaned = maintenance.clean()
    work, kept = maintenance.plan()
    done = maintenance.work(work)
    counts = {kind: cleaned.removed.count[kind] + done.removed.count[kind] for kind in done.removed.count}
    sizes = {kind: cleaned.removed.bytes[kind] + done.removed.bytes[kind] for kind in done.removed.bytes}
    return {
        "count": {kind: count for kind, count in counts.items() if count},
        "bytes": {kind: size for kind, size in sizes.items() if size},
        "compacted": asdict(done.compacted),
        "downsampled": asdict(done.downsampled),
        "orphans": [orphan.to_dict() for orphan in cleaned.orphans],
        "kept": [*cleaned.kept, *kept],
    }


def tree(store: Store) -> dict[str, str]:
    root = Path(store.url)
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(root.rglob("*"))
    }


def keys_of(store: Store) -> list[str]:
    return [file.key for area in AREAS for file in files_below(store.backend, area)]


def maintenance_of(store: Store, **other: Any) -> Maintenance:
    return Maintenance(store.url, RULES, NOW, **other)


def test_everything_goes_when_it_is_past_its_age(local_store: Store) -> None:
    ids = filled(local_store)
    before = tree(local_store)
    rehearsed = document(maintenance_of(local_store, dry_run=True))
    assert tree(local_store) == before
    done = document(maintenance_of(local_store))
    assert done == rehearsed
    assert done["count"] == {
        "telemetry": 3,
        "scores": 2,
        "incidents": 1,
        "ledger": 1,
        "silences": 1,
        "reports": 4,
    }
    assert set(done["bytes"]) == set(done["count"])
    assert (done["compacted"]["segments"], done["compacted"]["into"]) == (3, 1)
    assert (done["downsampled"]["segments"], done["downsampled"]["into"]) == (3, 1)
    assert done["orphans"] == []
    assert done["kept"] == [
        "ledgers of 1 month are past their age, but hold incidents that somebody labelled",
        "2 incidents are past their age, but somebody labelled them",
    ]
    found = sorted(i.id for i in local_store.read_incidents(ago(100), NOW))
    assert found == ["kept", "kept-again", "young"]
    assert [s.id for s in local_store.silences()] == ["s-young"]
    page = (Path(local_store.url) / "reports/index.html").read_text()
    assert [one in page for one in ids["reports"]] == [False, False, True]
    assert not (Path(local_store.url) / host_folder(ago(99), HOST)).parent.parent.exists()
    nothing = document(maintenance_of(local_store))
    assert nothing == {
        **done,
        "count": {},
        "bytes": {},
        "compacted": {**done["compacted"], "segments": 0, "into": 0, "bytes_before": 0, "bytes_after": 0},
        "downsampled": {**done["downsampled"], "segments": 0, "into": 0, "bytes_before": 0, "bytes_after": 0},
    }


def test_the_same_on_s3(s3_options: dict[str, Any], bucket: str) -> None:
    url = f"s3://{bucket}/p"
    store = Store(url, s3_options)
    filled(store)
    keys = keys_of(store)
    rehearsed = document(Maintenance(url, RULES, NOW, dry_run=True, storage_options=s3_options))
    assert keys_of(store) == keys
    done = document(Maintenance(url, RULES, NOW, storage_options=s3_options))
    assert done == rehearsed
    assert done["count"]["telemetry"] == 3
    assert (done["compacted"]["into"], done["downsampled"]["into"]) == (1, 1)
    assert store.read_telemetry(HOST, ago(41), ago(39)).telemetry.frame.height == 3
    assert store.read_telemetry(HOST, ago(6), ago(4)).telemetry.frame.height == 9


@pytest.mark.parametrize("lives", [0, 2, 5, 10, 15, 18, 21])
def test_a_run_that_was_killed_is_finished_by_the_next(
    lives: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, whole = Store(str(tmp_path / "killed")), Store(str(tmp_path / "whole"))
    monkeypatch.setattr(secrets, "token_hex", lambda _bytes: "abcdef")
    for store in (killed, whole):
        filled(store)
        for one in ("99", "30"):  # as a report's writer leaves it that dies between its page and its document
            store.backend.write(f"reports/{ago(float(one)):%Y%m%dT%H%M%SZ}-dead-1/index.html", b"<p>")
    with monkeypatch.context() as patch:
        patch.setattr(module, "Backend", lambda url, _options: Dying(url, lives))
        with pytest.raises(Killed):
            document(maintenance_of(killed))
    document(maintenance_of(killed))
    document(maintenance_of(whole))
    assert tree(killed) == tree(whole)


def test_only_the_hosts_that_are_asked_for(local_store: Store) -> None:
    segments(local_store, 99)
    segments(local_store, 99, host="node-2")
    local_store.put_scores("m@1", scores(ago(99), 3, host=HOST))
    local_store.put_scores("m@1", scores(ago(99), 3, host="node-2"))
    report(local_store, 99)
    report(local_store, 98)
    for host in (HOST, "node-2"):
        local_store.put_ledger(Ledger(host, ((ago(100), NOW),)))
    done = document(maintenance_of(local_store, host="node-2"))
    assert done["count"] == {"telemetry": 3, "scores": 1}
    assert local_store.hosts() == [HOST]
    with pytest.raises(UsageError, match=r"no host 'rack-\*' in store .*: it holds node-1, node-2$"):
        document(maintenance_of(local_store, host="rack-*"))


def test_what_no_run_has_judged_stays_for_a_while(local_store: Store) -> None:
    segments(local_store, 52)
    segments(local_store, 12)
    segments(local_store, 16)
    done = document(maintenance_of(local_store))
    # 16 days: past 10 and 5 more, so it goes unjudged; 52 days: past 50, not past 55.
    assert done["count"] == {}
    assert (done["downsampled"]["segments"], done["compacted"]["segments"]) == (3, 6)
    first = f"{(ago(52)):%Y-%m-%dT%H}:00:00.000Z"
    assert done["kept"] == [
        f"{HOST}: telemetry of 2 hours from {first} on is past its age, but no run has judged it; "
        "it stays 5d longer at most"
    ]
    local_store.put_ledger(Ledger(HOST, ((ago(53), NOW),)))
    done = document(maintenance_of(local_store))
    assert (done["count"], done["kept"]) == ({"telemetry": 1}, [])
    assert done["downsampled"]["segments"] == 1


def test_holes_of_the_telemetry_itself_wait_for_nothing(local_store: Store) -> None:
    for n in range(3):
        local_store.put_segment(made(ago(12) + n * MINUTE, n, rows=20, step_s=3))
    hour = ago(12).replace(minute=0, second=0)
    stored = stored_segments(files_below(local_store.backend, host_folder(hour, HOST)))
    down = Ledger(HOST, ((ago(13), ago(12) + 3 * MINUTE), (ago(12) + 30 * MINUTE, NOW)))
    late = Ledger(HOST, ((ago(13), ago(12) + MINUTE), (ago(12) + 30 * MINUTE, NOW)))
    assert not waits(local_store.backend, down, hour, stored)
    assert waits(local_store.backend, late, hour, stored)
    assert waits(local_store.backend, Ledger(HOST), hour, stored)


def test_stretches_that_no_run_has_judged() -> None:
    ledger = Ledger(HOST, ((H20, H20 + HOUR), (H20 + 2 * HOUR, H20 + 3 * HOUR)))
    assert unjudged(ledger, H20 - HOUR, H20 + HOUR) == []
    assert unjudged(ledger, H20 - HOUR, H20 + 1.5 * HOUR) == [(H20 + HOUR, H20 + 1.5 * HOUR)]
    assert unjudged(ledger, H20, H20 + 4 * HOUR) == [
        (H20 + HOUR, H20 + 2 * HOUR),
        (H20 + 3 * HOUR, H20 + 4 * HOUR),
    ]
    assert unjudged(ledger, H20 + 5 * HOUR, H20 + 6 * HOUR) == [(H20 + 5 * HOUR, H20 + 6 * HOUR)]
    assert unjudged(Ledger(HOST), H20, H20 + HOUR) == [(H20, H20 + HOUR)]
    assert shared([(H20, H20 + HOUR)], [(H20 + MINUTE, H20 + 2 * HOUR)]) == HOUR - MINUTE
    assert shared([(H20, H20 + HOUR)], [(H20 + HOUR, H20 + 2 * HOUR)]) == timedelta(0)


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        (10 * 24 + 1, (None, False)),  # what begins in an hour may reach into the next
        (10 * 24 + 2, ("downsample", True)),
        (15 * 24 + 1, ("downsample", True)),
        (15 * 24 + 2, ("downsample", False)),
        (50 * 24 + 1, ("downsample", False)),
        (50 * 24 + 2, ("remove", True)),
        (55 * 24 + 2, ("remove", False)),
    ],
)
def test_what_the_age_of_an_hour_asks_for(
    hours: int, expected: tuple[str | None, bool], local_store: Store
) -> None:
    local_store.put_segment(made(H20, 0))
    stored = stored_segments(files_below(local_store.backend, host_folder(H20, HOST)))
    now = H20 + hours * HOUR
    assert due(stored, H20, now, RULES) == expected
    forever = Retention(raw=None, telemetry=None)
    assert due(stored, H20, now, forever) == (None, False)
    patient = Retention(raw=10 * DAY, telemetry=50 * DAY, unjudged=None)
    assert due(stored, H20, now, patient)[1] == (expected[0] is not None)


def test_what_was_written_lately_is_not_old(local_store: Store) -> None:
    segments(local_store, 99)
    for n in range(2):
        local_store.put_segment(made(ago(98) + n * MINUTE, 7, boot="import"))
    local_store.put_scores("m@1", scores(ago(99), 3, host=HOST))
    local_store.put_incident(incident("old", ago(99), host=HOST))
    local_store.put_ledger(Ledger(HOST, ((ago(100), NOW),)), [entry("old", ago(99))])

    def written(days: float) -> dict[str, int]:
        for path in Path(local_store.url).rglob("*.*"):
            if path.is_file():
                os.utime(path, (ago(days).timestamp(),) * 2)
        done = document(maintenance_of(local_store))
        return {**done["count"], "downsampled": done["downsampled"]["segments"]}

    # An agent's telemetry is as old as it says, what was imported as old as its file.
    assert written(9) == {"telemetry": 3, "downsampled": 0}
    assert written(12) == {"downsampled": 2}
    assert written(59) == {"telemetry": 2, "scores": 1, "downsampled": 0}
    assert written(61) == {"incidents": 1, "ledger": 1, "downsampled": 0}


def test_nothing_goes_that_is_kept_forever(local_store: Store) -> None:
    filled(local_store)
    before = tree(local_store)
    forever = Retention.parse(dict.fromkeys(vars(RULES), "forever"))
    done = document(Maintenance(local_store.url, forever, NOW))
    assert (done["count"], done["kept"], tree(local_store)) == ({}, [], before)


def test_the_latest_report_stays_however_old(local_store: Store) -> None:
    first, latest = report(local_store, 90), report(local_store, 80)
    done = document(maintenance_of(local_store))
    assert done["count"] == {"reports": 2}
    assert done["kept"] == [f"report {latest} is past its age, but it is the latest"]
    page = (Path(local_store.url) / "reports/index.html").read_text()
    assert (first in page, latest in page) == (False, True)


def test_quarantine_goes_by_when_it_was_put_there(local_store: Store) -> None:
    for name, days in (("old", 21), ("young", 19)):
        key = f"quarantine/telemetry/{name}"
        for one in (key, f"{key}.reason.txt"):
            local_store.backend.write(one, b"x")
            os.utime(Path(local_store.url, one), (ago(days).timestamp(),) * 2)
    assert document(maintenance_of(local_store))["count"] == {"quarantine": 2}
    assert local_store.backend.names("quarantine/telemetry") == ["young", "young.reason.txt"]


def test_what_dead_writers_left(local_store: Store) -> None:
    backend = local_store.backend
    root = Path(local_store.url)
    listed, gone, unlisted = (report(local_store, days) for days in (9, 8, 7))
    index = (root / "reports/index.html").read_text()
    row = f'{{"report": "{unlisted}"'
    assert row in index
    (root / "reports/index.html").write_text(index.replace(unlisted, "no-such-report"))
    for name in ("index.html", "report.json"):
        (root / "reports" / gone / name).unlink()
    (root / "reports" / gone).rmdir()
    dead = f"{ago(3):%Y%m%dT%H%M%SZ}-dead-1"
    young = f"{NOW:%Y%m%dT%H%M%SZ}-young-1"
    for one in (dead, young):
        backend.write(f"reports/{one}/index.html", b"<p>")
    backend.write("reports/latest.json", json.dumps({"report": gone}).encode())
    for area, name in (("telemetry", f"{int(ago(1).timestamp())}-7-ab"), ("scores", "0-check-ab")):
        (root / area / ".tmp").mkdir(parents=True, exist_ok=True)
        (root / area / ".tmp" / name).write_bytes(b"half")
    (root / "telemetry/.tmp/foreign").write_bytes(b"x")
    (root / "telemetry/.tmp" / f"{int(NOW.timestamp())}-7-cd").write_bytes(b"half")
    empty = root / "telemetry/date=2026-11-01/hour=01/host=x"
    empty.mkdir(parents=True)
    fresh = root / "scores/model=x"
    fresh.mkdir()
    for path in (empty, empty.parent, empty.parent.parent):
        os.utime(path, (ago(1).timestamp(),) * 2)
    os.utime(fresh, (NOW.timestamp(),) * 2)
    before = tree(local_store)
    rehearsed = document(maintenance_of(local_store, dry_run=True))
    assert tree(local_store) == before
    done = document(maintenance_of(local_store))
    assert done == rehearsed
    assert sorted((one["kind"], one["key"], one["bytes"]) for one in done["orphans"]) == [
        ("folder", "telemetry/date=2026-11-01", 0),
        ("latest", "reports/latest.json", 0),
        ("report", f"reports/{dead}", 3),
        ("row", "reports/index.html", 0),
        ("row", "reports/index.html", 0),
        ("temporary", "scores/.tmp/0-check-ab", 4),
        ("temporary", f"telemetry/.tmp/{int(ago(1).timestamp())}-7-ab", 4),
        ("unlisted", f"reports/{unlisted}", 0),
    ]
    assert backend.names("reports") == sorted([listed, unlisted, young, "index.html", "latest.json"])
    page = (root / "reports/index.html").read_text()
    assert [one in page for one in (listed, unlisted, gone, "no-such-report")] == [True, True, False, False]
    assert local_store.latest_report()["report"] == unlisted
    assert sorted(os.listdir(root / "telemetry/.tmp")) == [f"{int(NOW.timestamp())}-7-cd", "foreign"]
    assert fresh.is_dir()
    assert document(maintenance_of(local_store))["orphans"] == []


def test_the_last_report_that_goes_takes_latest_json_with_it(local_store: Store) -> None:
    gone = report(local_store, 9)
    for name in ("index.html", "report.json"):
        local_store.backend.remove(f"reports/{gone}/{name}")
    kinds = [one["kind"] for one in document(maintenance_of(local_store))["orphans"]]
    assert kinds == ["row", "latest", "folder"]
    assert local_store.backend.names("reports") == ["index.html"]


def test_a_dry_run_cannot_change_anything(local_store: Store) -> None:
    filled(local_store)
    backend = ReadOnlyBackend(local_store.url)
    for change in (lambda: backend.write("x", b""), lambda: backend.remove(silence_key("s-old"))):
        with pytest.raises(UnavailableError, match=r"in a dry run$"):
            change()
    bad = past_ledger_key(HOST, ago(99).date().replace(day=1))
    local_store.backend.write(bad, b"{")
    before = tree(local_store)
    document(maintenance_of(local_store, dry_run=True))
    assert tree(local_store) == before


def test_a_writer_makes_anew_the_folder_that_was_removed_as_empty(
    local_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = made(H20, 0)
    real = os.replace

    def removed_first(source: str, target: str) -> None:
        monkeypatch.setattr(os, "replace", real)
        remove_empty(Backend(local_store.url), host_folder(H20, HOST))
        assert not Path(target).parent.exists()
        real(source, target)

    monkeypatch.setattr(os, "replace", removed_first)
    key = local_store.put_segment(one)
    assert local_store.backend.read(key) == one.data


def test_folders_with_something_in_them_are_not_empty(tmp_path: Path) -> None:
    backend = Backend(str(tmp_path))
    for folder in ("a/full/deep", "a/empty/deep", "a/.hidden", "a/half/void"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "a/full/deep/file").write_text("x")
    (tmp_path / "a/half/file").write_text("x")
    later = datetime.now(UTC) + HOUR
    assert empty_folders(backend, "a", later) == ["a/empty", "a/half/void"]
    assert empty_folders(backend, "a", later - 2 * HOUR) == []
    remove_empty(backend, "a/empty", within=True)
    remove_empty(backend, "a/half/void")
    assert sorted(os.listdir(tmp_path / "a")) == [".hidden", "full", "half"]
    assert os.listdir(tmp_path / "a/half") == ["file"]


def test_files_are_told_with_their_sizes(store: Store) -> None:
    store.backend.write("a/b/c", b"123")
    store.backend.write("a/b=1", b"4")
    store.backend.write("ab/c", b"5")
    assert [(file.key, file.bytes) for file in files_below(store.backend, "a")] == [
        ("a/b/c", 3),
        ("a/b=1", 1),
    ]
    assert files_below(store.backend, "none") == []


def test_what_is_still_to_be_judged_is_not_merged(local_store: Store) -> None:
    segments(local_store, 0.2)
    segments(local_store, 3)

    def merged(last: int) -> int:
        seen = Numbers("b-1", 0, last, ago(0.2), ago(0.2) + (last + 1) * MINUTE)
        local_store.put_watermarks({HOST: Watermark(NOW, (seen,))})
        return int(document(maintenance_of(local_store))["compacted"]["segments"])

    assert merged(0) == 3  # those of three days ago, which nobody will come to
    assert merged(1) == 2
    assert merged(2) == 2
    assert merged(2) == 0
