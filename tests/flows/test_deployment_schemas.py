"""The compose file and the manifests by the schemas of those who read them; no container engine runs here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "deployments"
KUBERNETES = "1.33"
MANIFESTS = list(yaml.safe_load_all((FOLDER / "kubernetes" / "reveal.yaml").read_text()))


def check_compose(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_compose_file_is_one(tmp_path: Path) -> None:
    done = check_compose(FOLDER / "compose.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((FOLDER / "compose.yaml").read_text().replace("depends_on:", "depend_on:"))
    assert check_compose(wrong).returncode == 1


@pytest.mark.parametrize("manifest", MANIFESTS, ids=[m["kind"] for m in MANIFESTS])
def test_a_manifest_is_one(manifest: dict) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_a_wrong_manifest_is_told() -> None:
    wrong = {**MANIFESTS[-1], "spec": {**MANIFESTS[-1]["spec"], "replica": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)
