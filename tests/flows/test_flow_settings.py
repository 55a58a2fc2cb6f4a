"""Settings, and what is found of Prefect's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.environment import prefect_api_url
from flows.settings import load_settings, mlflow_uri
from reveal_core.errors import UnavailableError, UsageError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_variables_beat_the_file_and_the_file_the_defaults(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings().store == "./reveal-data"
    (here / "reveal.toml").write_text('store = "s3://a/b"\n[method]\nprofile = "paper"\nseed = 3\n')
    monkeypatch.setenv("REVEAL_METHOD__SEED", "7")
    settings = load_settings()
    assert (settings.store, settings.method.profile, settings.method.seed) == ("s3://a/b", "paper", 7)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stor = 1", "setting stor"),
        ("[method]\nseed = -1", "setting method.seed .variable REVEAL_METHOD__SEED"),
        ("[method]\nseeds = 1", "setting method.seeds"),
        ("store =", "cannot be read"),
    ],
)
def test_a_wrong_setting_is_named(here: Path, text: str, said: str) -> None:
    (here / "reveal.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        load_settings()


def test_a_settings_file_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REVEAL_CONFIG", "/nowhere/reveal.toml")
    with pytest.raises(UsageError, match=r"REVEAL_CONFIG names /nowhere/reveal\.toml"):
        load_settings()


def test_mlflow_is_a_file_in_a_local_store_and_here_for_a_remote_one(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings()
    assert mlflow_uri(settings, "data") == f"sqlite:///{here}/data/mlflow.db"
    assert mlflow_uri(settings, "file:///x/data") == "sqlite:////x/data/mlflow.db"
    assert mlflow_uri(settings, "s3://bucket") == f"sqlite:///{here}/reveal-mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow:5000")
    assert mlflow_uri(settings, "data") == "http://mlflow:5000"


def test_prefects_configuration_is_found_as_prefect_finds_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prefect_api_url() is None
    profiles = here / "profiles.toml"
    profiles.write_text('active = "b"\n[profiles.a]\nPREFECT_API_URL = "http://a/api"\n[profiles.b]\n')
    monkeypatch.setenv("PREFECT_PROFILES_PATH", str(profiles))
    assert prefect_api_url() is None
    monkeypatch.setenv("PREFECT_PROFILE", "a")
    assert prefect_api_url() == "http://a/api"
    (here / "prefect.toml").write_text('[api]\nurl = "http://project/api"\n')
    assert prefect_api_url() == "http://project/api"
    monkeypatch.setenv("PREFECT_API_URL", "http://env/api")
    assert prefect_api_url() == "http://env/api"


def test_a_broken_configuration_of_prefects_is_one_line(here: Path) -> None:
    (here / "prefect.toml").write_text("[api")
    with pytest.raises(UnavailableError, match="Prefect's configuration cannot be read"):
        prefect_api_url()
