"""The command line's contract: exit codes, one line per failure, JSON alone on standard output."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from flows.cli import app, main
from reveal_core.errors import UnavailableError

COMMANDS = ["doctor", "channels", "collect", "features", "fit", "score", "investigate", "demo", "evaluate"]
COMMANDS += ["import", "compare", "deploy", "site", "reproduce", "maintain"]
LAB_COMMANDS = ["list", "workload", "inject", "clean", "campaign", "replay", "fleet"]
MODELS_COMMANDS = ["list", "show", "history", "promote", "rollback", "drift"]
GROUPS = {
    "lab": LAB_COMMANDS,
    "models": MODELS_COMMANDS,
    "regimes": ["list", "acknowledge"],
    "incidents": ["list", "show", "label", "summary", "truth"],
    "silences": ["list", "add", "end"],
    "jobs": ["import", "list"],
    "alerts": ["test"],
    "export": ["prometheus", "otlp"],
    "bench": ["collector", "features", "scoring", "fleet"],
}
GROUPED = [[group, name] for group, names in GROUPS.items() for name in names]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", [[name] for name in COMMANDS] + GROUPED)
def test_every_command_has_help_with_an_example_and_json(
    command: list[str], capsys: pytest.CaptureFixture
) -> None:
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Example: reveal {' '.join(command)}" in shown
    assert "--json" in shown


def test_help_lists_every_command(capsys: pytest.CaptureFixture) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in [*COMMANDS, *GROUPS])
    assert {command.name for command in app.registered_commands} == set(COMMANDS)


def test_version(capsys: pytest.CaptureFixture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("reveal ")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("nonsense", 2, "No such command"),
        ("collect --nonsense", 2, "No such option"),
        ("investigate --host a", 2, "needs --host, --start and --end, or --incident"),
        ("investigate --host a --incident b", 2, "leave out host, start and end"),
        ("collect --duration 5parsecs", 2, "'5parsecs' is not a duration"),
        ("collect --interval 0s --duration 1s", 2, "longer than zero"),
        ("collect --root /nowhere --duration 1s", 2, "/nowhere is no folder"),
        ("collect --store /proc/nope --duration 1s", 3, "store /proc/nope"),
        ("collect --store nope://x --duration 1s", 3, "store nope://x"),
        ("fit --store nothing-here", 3, "store nothing-here"),
        ("fit --store . --profile nonsense", 2, "holds no telemetry yet"),
        ("score --store . --start someday", 2, "'someday' is not a time"),
        ("score --store . --start -1h --end -2h", 2, "before it starts"),
        ("score --store .", 2, "holds no telemetry yet"),
        ("features --store . --host x", 2, "holds no telemetry yet"),
        ("investigate --store . --host x --start -1h --end now", 2, "holds no telemetry yet"),
        (
            "investigate --store . --host x --start -1h --end now --baseline-start -2h",
            2,
            "--baseline-end is missing",
        ),
        ("fit --store . --force ", 2, "requires an argument"),
        ("fit --store . --promote --gate-start -1h --gate-end -2h", 2, "holds no telemetry yet"),
        ("models show reveal-x", 2, "no model reveal-x@champion"),
        ("models rollback --class x --model reveal-x", 2, "name the same thing"),
        ("models rollback --class x", 2, "no model reveal-x at"),
        ("models promote reveal-x/1", 2, "Missing option"),
        ("models drift --store .", 2, "holds no telemetry yet"),
        ("compare --store .", 2, "Missing option"),
        ("compare --store . --grid none.toml", 2, "grid file none.toml cannot be read"),
        ("maintain --store nothing-here", 3, "store nothing-here"),
        ("regimes list --store nothing-here", 3, "store nothing-here"),
        ("regimes acknowledge --host x --store .", 2, "no host 'x' is held in store ."),
        ("export prometheus --store nothing-here", 3, "store nothing-here"),
        ("export prometheus --store . --listen nonsense:x", 2, "HOST:PORT"),
        ("export prometheus --store . --textfile a.txt", 2, "files that end in .prom"),
        ("export prometheus --listen 1 --textfile a.prom", 2, "exclude each other"),
        ("export otlp --store .", 2, "where to is not said"),
        ("export otlp --store . --out x --step 1ms", 2, "at least 1 s"),
        ("export otlp --store . --endpoint nonsense", 2, "--endpoint: an address"),
        ("lab inject nonsense", 2, "there is no fault 'nonsense'"),
        ("lab inject cpu-contention --duration never", 2, "'never' is not a duration"),
        ("lab workload --dir nothing-here", 3, "nothing-here is no folder"),
    ],
)
def test_bad_input_is_one_line_and_the_documented_code(
    line: str, code: int, said: str, here: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(line.split()) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("reveal: ")
    assert said in captured.err
    assert not list(here.rglob("*.parquet"))


def test_an_unexpected_error_is_a_line_too_and_a_traceback_with_debug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def broken(*_args, **_options):
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("tasks.inspecting.list_channels", broken)
    assert main(["channels"]) == 1
    assert capsys.readouterr().err == (
        "reveal: internal error: ZeroDivisionError: a b (--debug shows where)\n"
    )
    with pytest.raises(ZeroDivisionError):
        main(["channels", "--debug"])


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_servers_that_are_down_are_named(
    fitted_store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    address = f"http://127.0.0.1:{unused_port()}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    assert main(["score", "--store", str(fitted_store.path)]) == UnavailableError.exit_code
    assert f"MLflow at {address} cannot be reached" in capsys.readouterr().err
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.setenv("PREFECT_API_URL", f"{address}/api")
    assert main(["score", "--store", str(fitted_store.path)]) == UnavailableError.exit_code
    captured = capsys.readouterr()
    assert (
        captured.err
        == f"reveal: Prefect at {address}/api cannot be reached: [Errno 111] Connection refused\n"
    )


def test_doctor_tells_what_is_there_and_why_not(capsys: pytest.CaptureFixture) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"host", "sources", "channels", "store", "mlflow", "prefect"}
    assert all(set(source) == {"source", "available", "reason", "channels"} for source in found["sources"])
    assert all(source["available"] or source["reason"] for source in found["sources"])
    assert found["channels"] > 100
    assert found["prefect"]["api"] is None
    assert not Path("reveal-data").exists()


def test_doctor_says_what_is_wrong_with_a_store(here: Path, capsys: pytest.CaptureFixture) -> None:
    (here / "file").write_text("")
    assert main(["doctor", "--json", "--store", "file"]) == 0
    store = json.loads(capsys.readouterr().out)["store"]
    assert store["available"] is False
    assert "file" in store["reason"]


def test_channels_explain_themselves(capsys: pytest.CaptureFixture) -> None:
    assert main(["channels", "--json"]) == 0
    channels = json.loads(capsys.readouterr().out)
    keys = {"name", "metric", "instance", "subsystem", "kind", "unit", "source", "period_ms"}
    assert all(set(channel) == keys for channel in channels)
    assert len({channel["name"] for channel in channels}) == len(channels)


def test_the_agent_loads_nothing_heavy(here: Path) -> None:
    program = (
        "import sys; from flows.cli import main; code = main(['collect', '--duration', '300ms', '--json']);"
        "heavy = {'polars', 'sklearn', 'scipy', 'pandas', 'prefect', 'mlflow', 'plotly', 'matplotlib'};"
        "sys.stderr.write(' '.join(sorted(heavy & set(sys.modules)))); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert set(result) >= {
        "host",
        "ticks",
        "late_ticks",
        "channels",
        "segments",
        "bytes",
        "cpu_seconds",
        "rss_bytes",
    }
    assert result["ticks"] == 3
    assert all((here / "reveal-data" / key).is_file() for key in result["segments"])


def test_the_agent_ends_in_good_order_when_asked_to(here: Path) -> None:
    command = [sys.executable, "-m", "flows.cli", "collect", "--store", "store", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here)
    try:
        while not (here / "store").exists():
            assert process.poll() is None
        process.terminate()
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, errors) == (0, "")
    result = json.loads(output)
    assert len(result["segments"]) == bool(result["ticks"])
    assert not list((here / "store").rglob("*.part"))
