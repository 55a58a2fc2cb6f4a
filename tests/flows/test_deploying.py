"""What is deployed, and what is told of files that declare nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.cli import main
from flows.deploying import declared
from reveal_core.errors import UnavailableError, UsageError


def test_reveals_own_deployments_are_found() -> None:
    assert {one["entrypoint"].partition(":")[0].rpartition(".")[0] for one in declared()} == {
        "flows.prefect_flows"
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "cannot be read: No such file"), ("a: [", "is no YAML"), ("name: x", "declares no deployments")],
)
def test_a_file_that_declares_nothing_is_told(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "prefect.yaml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        declared(file)


def test_without_a_server_nothing_is_deployed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    assert main(["deploy"]) == UnavailableError.exit_code
    assert "set PREFECT_API_URL" in capsys.readouterr().err
