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
from tasks.grids import parse_grid

FOLDER = Path(__file__).parents[2] / "deployments"


def test_every_deployment_names_a_flow_and_parameters_that_it_takes() -> None:
    declared = yaml.safe_load((FOLDER / "prefect.yaml").read_text())["deployments"]
    assert len(declared) == 9
    for deployment in declared:
        module, _, name = deployment["entrypoint"].rpartition(".")
        flow = getattr(importlib.import_module(module), name)
        taken = inspect.signature(flow.fn).parameters
        assert set(deployment["parameters"]) <= set(taken), deployment["name"]
        required = {key for key, value in taken.items() if value.default is inspect.Parameter.empty}
        # What runs by itself must not wait for somebody to fill in a parameter.
        assert not deployment.get("schedules") or required <= set(deployment["parameters"])


def test_the_weekly_grid_is_a_grid() -> None:
    declared = yaml.safe_load((FOLDER / "prefect.yaml").read_text())["deployments"]
    (weekly,) = [one for one in declared if one["name"] == "weekly"]
    assert parse_grid(weekly["parameters"]["grid"]).settings[0].name == "default"


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
    assert set(compose["services"]) == {"database", "objects", "bucket", "prefect", "mlflow", "worker"}
    assert (FOLDER / ".." / compose["services"]["worker"]["build"]["dockerfile"]).is_file()


def test_ports_of_the_site_are_on_loopback_and_no_secret_is_written_down() -> None:
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    ports = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)
    secret = re.compile(r"PASSWORD|SECRET|TOKEN")
    for name, service in compose["services"].items():
        for variable, value in service.get("environment", {}).items():
            assert not secret.search(variable) or str(value).startswith("${"), (name, variable)
    asked = set(re.findall(r"\$\{(\w+):\?", (FOLDER / "compose.yaml").read_text()))
    told = (FOLDER / "env.example").read_text()
    assert asked <= set(re.findall(r"^(\w+)=", told, re.MULTILINE))
    # Who copies it must fill in every password.
    assert not re.search(r"^\w*PASSWORD=.", told, re.MULTILINE)


def test_commands_of_the_site_exist() -> None:
    texts = [(FOLDER / name).read_text() for name in ("compose.yaml", "kubernetes/reveal.yaml")]
    known = typer.main.get_command(app).commands["deploy"]  # type: ignore[attr-defined]
    flags = {flag for parameter in known.params for flag in parameter.opts}
    for text in texts:
        (found,) = re.findall(r"reveal,? deploy([^&\]\n]*)", text)
        assert set(re.findall(r"--[a-z-]+", found)) <= flags


@pytest.mark.parametrize("name", ["reveal-collect.service", "reveal-worker.service"])
def test_a_unit_is_a_unit(name: str) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(FOLDER / name)
    assert {"Unit", "Service", "Install"} <= set(unit.sections())
    assert unit["Service"]["KillSignal"] == "SIGTERM"
    assert unit["Service"]["NoNewPrivileges"] == "yes"
