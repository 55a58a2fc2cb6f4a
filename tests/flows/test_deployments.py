"""The files in deployments/: they parse, and what they name is there."""

from __future__ import annotations

import configparser
import importlib
import inspect
import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from flows.cli import app

FOLDER = Path(__file__).parents[2] / "deployments"


def test_every_deployment_names_a_flow_and_parameters_that_it_takes() -> None:
    declared = yaml.safe_load((FOLDER / "prefect.yaml").read_text())["deployments"]
    assert len(declared) == 7
    for deployment in declared:
        module, _, name = deployment["entrypoint"].rpartition(".")
        flow = getattr(importlib.import_module(module), name)
        taken = inspect.signature(flow.fn).parameters
        assert set(deployment["parameters"]) <= set(taken), deployment["name"]
        required = {key for key, value in taken.items() if value.default is inspect.Parameter.empty}
        # What runs by itself must not wait for somebody to fill in a parameter.
        assert not deployment.get("schedules") or required <= set(deployment["parameters"])


def commands_of(text: str) -> list[str]:
    return re.findall(r"\breveal (collect[^'\n;]*)", text)


@pytest.mark.parametrize("file", ["reveal-collect.service", "kubernetes/reveal.yaml"])
def test_agents_are_started_with_options_that_exist(file: str) -> None:
    command = typer.main.get_command(app).commands["collect"]  # type: ignore[attr-defined]
    known = {flag for parameter in command.params for flag in [*parameter.opts, *parameter.secondary_opts]}
    found = [line for line in commands_of((FOLDER / file).read_text()) if "--" in line]
    assert found
    for line in found:
        assert {word for word in shlex.split(line) if word.startswith("--")} <= known


def test_yaml_files_parse() -> None:
    documents = list(yaml.safe_load_all((FOLDER / "kubernetes" / "reveal.yaml").read_text()))
    assert [d["kind"] for d in documents] == ["Namespace", "Secret", "DaemonSet", "Deployment"]
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    assert set(compose["services"]) == {"prefect", "mlflow", "worker"}
    assert (FOLDER / ".." / compose["services"]["worker"]["build"]["dockerfile"]).is_file()


def test_the_unit_is_a_unit() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(FOLDER / "reveal-collect.service")
    assert {"Unit", "Service", "Install"} <= set(unit.sections())
    assert unit["Service"]["KillSignal"] == "SIGTERM"
