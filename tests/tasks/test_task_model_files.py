"""Files that a registry may hold in a model's place: each is one clear line, and none runs anything."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_telemetry import SYNTHETIC_START, synthetic_columns

from reveal_core.errors import UsageError
from reveal_core.model import RevealModel
from reveal_core.profiles import load_profile
from tasks import models
from tasks.models import catalog_notes, load_model, read_model
from tasks.tracking import Tracking

LABEL = "model x@1 at sqlite:///x"
SIMPLE = {"detectors": (("zscore", "ZScoreDetector", ()),), "folds": 2}


@pytest.fixture(scope="module")
def model() -> RevealModel:
    """Return a model of one detector, so that its file is small."""
    import polars as pl

    from reveal_core.channels import Channel
    from reveal_core.method import fit_model
    from reveal_core.telemetry import Telemetry

    columns = synthetic_columns(60.0, [], 0)
    rows = len(next(iter(columns.values())))
    ns = int(SYNTHETIC_START.timestamp()) * 10**9 + np.arange(rows) * 10**8
    frame = {"ts": pl.Series(ns).cast(pl.Datetime("ns", "UTC")), "mono": pl.Series(ns - ns[0])}
    channels = {}
    for (metric, instance), values in columns.items():
        name = f"{metric}/{instance}" if instance else metric
        kind = "counter" if values.dtype == np.int64 else "gauge"
        frame[name] = pl.Series(values)
        channels[name] = Channel(name, metric, instance, "cpu", kind, "", "synthetic", 100)
    telemetry = Telemetry("node-1", pl.DataFrame(frame), channels)
    return fit_model([telemetry], load_profile("default", SIMPLE))


@pytest.fixture(scope="module")
def saved(model: RevealModel) -> bytes:
    return bytes(skops.io.dumps(model))


def put(folder: Path, data: bytes) -> Path:
    path = folder / models.MODEL_FILE
    path.write_bytes(data)
    return path


def rewritten(data: bytes, change) -> bytes:
    """Return a file with its members changed: ``change`` takes and returns name to content."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in change(members).items():
            archive.writestr(name, content)
    return out.getvalue()


def test_a_model_comes_back_whole(tmp_path: Path, model: RevealModel, saved: bytes) -> None:
    back = read_model(put(tmp_path, saved), LABEL)
    assert back.facts() == model.facts()


class Bomb:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return subprocess.call, (["touch", str(self.mark)],)


def test_a_pickle_in_its_place_is_not_opened(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    data = pickle.dumps(Bomb(mark))
    pickle.loads(data)
    assert mark.exists()
    mark.unlink()
    with pytest.raises(UsageError, match=r"^model x@1 at sqlite:///x cannot be read: File is not a zip file"):
        read_model(put(tmp_path, data), LABEL)
    assert not mark.exists()


def test_a_function_in_a_model_is_not_trusted(tmp_path: Path, model: RevealModel) -> None:
    from sklearn.base import clone

    other = clone(model)
    other.extra = subprocess.call
    with pytest.raises(UsageError, match=r"holds types that this version does not trust: .*subprocess\.call"):
        read_model(put(tmp_path, skops.io.dumps(other)), LABEL)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_cannot_be_read(tmp_path: Path, saved: bytes, share: float) -> None:
    with pytest.raises(UsageError, match="cannot be read") as caught:
        read_model(put(tmp_path, saved[: int(share * len(saved))]), LABEL)
    assert "\n" not in str(caught.value)


def without_an_array(members: dict[str, bytes]) -> dict[str, bytes]:
    gone = next(name for name in members if name.endswith(".npy"))
    return {name: content for name, content in members.items() if name != gone}


def pickled_array(members: dict[str, bytes]) -> dict[str, bytes]:
    out = io.BytesIO()
    np.save(out, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    name = next(name for name in members if name.endswith(".npy"))
    return {**members, name: out.getvalue()}


def nested(members: dict[str, bytes]) -> dict[str, bytes]:
    return {**members, "schema.json": b"[" * 100_000 + b"]" * 100_000}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_an_array, "cannot be read: .*no item named"),
        (pickled_array, "cannot be read: Object arrays cannot be loaded"),
        (nested, "cannot be read"),
        (lambda members: {"schema.json": b"{}"}, "cannot be read"),
        (lambda members: {**members, "schema.json": b"no JSON"}, "cannot be read"),
        (lambda members: {}, "cannot be read: .*schema.json"),
    ],
)
def test_a_file_with_other_members_cannot_be_read(tmp_path: Path, saved: bytes, change, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_model(put(tmp_path, rewritten(saved, change)), LABEL)


def test_a_file_that_unpacks_to_more_than_any_model_is_not_unpacked(
    tmp_path: Path, saved: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "MAX_UNPACKED", 2**22)
    bomb = rewritten(saved, lambda members: {**members, "zeros.npy": bytes(2**23)})
    assert len(bomb) < 2**22
    monkeypatch.setattr(skops.io, "load", lambda *_, **__: pytest.fail("it was unpacked"))
    with pytest.raises(UsageError, match="cannot be read: it would unpack to 8 MiB"):
        read_model(put(tmp_path, bomb), LABEL)


def is_model_or_line(path: Path) -> bool:
    try:
        return isinstance(catalog_notes(read_model(path, LABEL), LABEL), list)
    except UsageError as error:
        return str(error).startswith(LABEL) and "\n" not in str(error)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_with_wrong_bytes_is_a_model_or_one_clear_line(
    tmp_path: Path, saved: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(saved)
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(saved) - 1))] = data.draw(st.integers(0, 255))
    assert is_model_or_line(put(tmp_path, bytes(damaged)))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_description_with_wrong_values_is_a_model_or_one_clear_line(
    tmp_path: Path, saved: bytes, data: st.DataObject
) -> None:
    def change(members: dict[str, bytes]) -> dict[str, bytes]:
        schema = json.loads(members["schema.json"])
        node = schema
        for _ in range(data.draw(st.integers(0, 12))):
            inner = [key for key, value in node.items() if isinstance(value, dict)]
            if not inner:
                break
            node = node[data.draw(st.sampled_from(sorted(inner)))]
        key = data.draw(st.sampled_from(sorted(node)))
        node[key] = data.draw(st.sampled_from([None, 0, "", "os", [], {}, "FunctionNode", "system"]))
        return {**members, "schema.json": json.dumps(schema).encode()}

    assert is_model_or_line(put(tmp_path, rewritten(saved, change)))


def test_a_folder_without_a_model_and_another_class_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is none of Reveal's: it has no model\.skops"):
        read_model(tmp_path / models.MODEL_FILE, LABEL)
    with pytest.raises(UsageError, match="is none of Reveal's: dict"):
        read_model(put(tmp_path, skops.io.dumps({"a": 1})), LABEL)


def test_a_model_kept_in_another_form_is_refused_before_it_is_read(
    fitted_store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracking = Tracking(fitted_store.tracking_uri)
    reference = tracking.resolve(fitted_store.model["model"])
    monkeypatch.setattr("reveal_core.model.SCHEMA", 99)
    monkeypatch.setattr(models, "read_model", lambda *_: pytest.fail("it was read"))
    with pytest.raises(
        UsageError, match=r"@1 at .* is kept in form \d+, and this version of Reveal reads form 99: fit it"
    ):
        load_model(tracking, reference)


@pytest.fixture
def catalog(model: RevealModel, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return what the catalogue says of the model's metrics, to be changed."""
    now = dict(model.catalog_)
    monkeypatch.setattr(models, "fingerprint", lambda _metrics: now)
    return now


def test_the_same_catalogue_is_not_worth_a_word(model: RevealModel, catalog: dict[str, str]) -> None:
    assert len(catalog) > 5
    assert catalog_notes(model, LABEL) == []


@pytest.mark.parametrize("other", ["gauge ms/s 1000", "counter bogus 10", "counter % 7 event"])
def test_a_metric_with_another_meaning_is_refused_by_name(
    model: RevealModel, catalog: dict[str, str], other: str
) -> None:
    catalog["cpu.user"] = other
    with pytest.raises(
        UsageError, match=r"model x@1 .* knows cpu\.user as .* and the catalogue has .*fit it"
    ):
        catalog_notes(model, LABEL)


def test_other_marks_and_other_metrics_are_noted(model: RevealModel, catalog: dict[str, str]) -> None:
    catalog["cpu.user"] += " event"
    del catalog["disk.writes"]
    catalog["new.metric"] = "gauge B 1"
    assert catalog_notes(model, LABEL) == [
        "The model was fitted with another catalogue: cpu.user are judged in another way now "
        "(as events or stocks).",
        "The model was fitted with another catalogue: disk.writes are no longer in the catalogue.",
        "The model was fitted with another catalogue: new.metric were not yet in the catalogue.",
    ]
