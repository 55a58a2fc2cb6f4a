"""Grids of settings and files of faults: what they hold, and what is refused by one line."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from reveal_core.errors import UsageError
from reveal_core.profiles import load_profile
from tasks.compare_files import combination, combinations_of
from tasks.faultfiles import injected_faults, read_faults
from tasks.grids import parse_grid, read_grid

EXAMPLE = Path(__file__).parents[2] / "deployments" / "compare-grid.toml"


def test_settings_and_products_are_named_and_checked() -> None:
    grid = parse_grid(
        {
            "setting": [{"name": "default"}, {"name": "paper", "profile": "paper"}],
            "grid": {"profile": ["default"], "window_s": [2.0, 5.0], "statistics": [["level"]]},
        }
    )
    names = [setting.name for setting in grid.settings]
    assert names == [
        "default",
        "paper",
        "default window_s=2 statistics=level",
        "default window_s=5 statistics=level",
    ]
    assert grid.settings[2].profile == load_profile("default", {"window_s": 2.0, "statistics": ["level"]})
    assert grid.reference == "default"
    assert grid.settings[2].given == {"profile": "default", "window_s": 2.0, "statistics": ["level"]}


def test_settings_share_windows_where_these_do_not_depend_on_what_differs() -> None:
    grid = parse_grid({"setting": [{"name": "default"}], "grid": {"margin": [1.2, 2.0], "window_s": [3, 5]}})
    assert len(combinations_of(one.profile for one in grid.settings)) == 2
    assert combination(load_profile("default")) != combination(load_profile("paper"))
    assert combination(load_profile("default")) == combination(load_profile("default", {"margin": 2.0}))


def test_the_shipped_grid_compares_a_dozen_settings_with_the_publication_among_them() -> None:
    grid = parse_grid(read_grid(EXAMPLE))
    assert len(grid.settings) >= 12
    assert load_profile("paper") in [setting.profile for setting in grid.settings]
    assert len({setting.profile for setting in grid.settings if setting.profile}) == len(grid.settings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("setting = 3", "grid.toml: setting: Input should be a valid list"),
        ("colour = 1", "grid.toml: colour: Extra inputs are not permitted"),
        ("repeats = 0", "grid.toml: repeats: Input should be greater than or equal to 1"),
        ('[[setting]]\nname = "a"\nprofile = "b"', "grid.toml: setting a: unknown profile 'b'"),
        ('[[setting]]\nname = "a"\noverrides = {margin = 0.5}', "setting a: profile setting margin"),
        ('[[setting]]\nname = "a"\n[[setting]]\nname = "a"', "grid.toml: setting a: the name stands twice"),
        ('[[setting]]\nname = "a"', "grid.toml: reference: no setting is called 'default'"),
        ("[grid]\nwindow_s = []", "grid.toml: grid.window_s: at least one value is needed"),
        ("[grid]\nwindow_s = [2.5]", "grid.toml: grid default window_s=2.5: profile setting window_s"),
        ("", "no setting to compare"),
        ("[grid", "grid.toml cannot be read"),
    ],
)
def test_a_bad_grid_is_refused_by_one_line_that_names_file_and_key(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "grid.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_grid(tmp_path / "grid.toml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_grid_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml cannot be read: No such file"):
        read_grid(tmp_path / "none.toml")


FAULT = {"name": "x", "subsystem": "cpu", "start": "2026-11-29T20:05:00Z", "end": "2026-11-29T20:05:08Z"}


def test_faults_come_in_order_of_time_with_the_causes_that_are_right(tmp_path: Path) -> None:
    # What else the demo says of a fault may stand there too.
    later = {
        **FAULT,
        "start": "2026-11-29T20:05:07Z",
        "begun": "2026-11-29T20:05:05Z",
        "causes": ["cpu-quota"],
        "how": "ignored",
    }
    (tmp_path / "faults.json").write_text(json.dumps([later, FAULT]))
    one, other = injected_faults(read_faults(tmp_path / "faults.json"))
    assert one.right_causes == ("x",)
    assert other.right_causes == ("cpu-quota",)
    assert one.start < other.start
    assert one.begun is None
    assert other.begun == other.start - timedelta(seconds=2)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "faults.json: content: Input should be a valid list"),
        ("[", "faults.json cannot be read"),
        (json.dumps([{**FAULT, "subsystem": "sky"}]), "0.subsystem: 'sky' is none"),
        (json.dumps([{**FAULT, "end": FAULT["start"]}]), "0: the fault ends before it starts"),
        (json.dumps([{**FAULT, "begun": FAULT["end"]}]), "0: the fault starts before it was begun"),
        (json.dumps([{**FAULT, "end": "never"}]), "0: 'never' is not a time"),
        (json.dumps([{"name": "x"}]), "0.subsystem: Field required"),
    ],
)
def test_a_bad_file_of_faults_is_refused_by_one_line(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "faults.json").write_text(content)
    with pytest.raises(UsageError) as caught:
        read_faults(tmp_path / "faults.json")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
