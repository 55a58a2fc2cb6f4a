"""Aliases of a registered model, and the trail of who moved them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from reveal_core.errors import UsageError
from tasks import audit, registry
from tasks.audit import aliases, history, moved_elsewhere
from tasks.tracking import ModelRef, Tracking

Register = Callable[[str], ModelRef]


@pytest.fixture
def tracking(fitted_store) -> Tracking:
    return Tracking(fitted_store.tracking_uri)


@pytest.fixture
def add(fitted_store, tracking: Tracking) -> Register:
    """Return a function that registers the fitted model once more, under another name."""
    run_id = fitted_store.model["run_id"]
    model_id = tracking.client.get_run(run_id).outputs.model_outputs[0].model_id
    return lambda name: registry.register(tracking, name, run_id, model_id)


def test_the_first_version_is_champion_and_later_ones_only_when_promoted(
    tracking: Tracking, add: Register
) -> None:
    name = "test-aliases"
    first = add(name)
    assert (first.version, first.alias) == ("1", "champion")
    assert tracking.resolve(name).version == "1"
    assert add(name).alias == "challenger"
    assert tracking.resolve(name).version == "1"
    assert tracking.resolve(f"{name}@challenger").version == "2"
    third = add(name)
    promoted = registry.promote(tracking, third, champion="1", why="it is better")
    assert (promoted.version, promoted.alias) == ("3", "champion")
    assert aliases(tracking, name) == {"champion": "3", "previous": "1"}
    assert tracking.resolve(f"models:/{name}@previous").version == "1"
    assert tracking.resolve(f"{name}/2") == ModelRef(name, "2", "", first.run_id)
    tags = {v.version: v.tags[registry.DECISION] for v in registry.versions(tracking, name)}
    assert tags == {
        3: "champion: it is better",
        2: "challenger: not compared yet",
        1: "champion: first version",
    }


def test_rolling_back_is_one_step_and_a_second_time_goes_forth_again(
    tracking: Tracking, add: Register
) -> None:
    name = "test-rollback"
    add(name)
    with pytest.raises(UsageError, match="no previous champion to go back to: its champion is version 1"):
        registry.roll_back(tracking, name, why="no")
    registry.promote(tracking, add(name), champion="1", why="new")
    back, before = registry.roll_back(tracking, name, why="too many alarms")
    assert (back.version, before) == ("1", "2")
    assert aliases(tracking, name) == {"champion": "1", "previous": "2"}
    assert registry.roll_back(tracking, name, why="it was the network")[0].version == "2"
    events = history(tracking, name)
    assert [event.action for event in events] == ["register", "register", "promote", "rollback", "rollback"]
    assert events[3].changes == {"champion": ["2", "1"], "previous": ["1", "2"]}
    assert [event.why for event in events[3:]] == ["too many alarms", "it was the network"]
    assert [event.when for event in events] == sorted(event.when for event in events)
    assert {event.who for event in events} == {audit.who()}
    assert "@" in audit.who()


def test_a_name_that_is_not_there_is_told_with_those_that_are(tracking: Tracking) -> None:
    for call in (history, lambda *where: registry.roll_back(*where, why="x")):
        with pytest.raises(UsageError, match=r"no model reveal-nowhere at .*it holds .*reveal-2cpu"):
            call(tracking, "reveal-nowhere")


def test_a_promotion_decided_on_another_champion_moves_nothing(tracking: Tracking, add: Register) -> None:
    name = "test-stale"
    add(name)
    second, third = add(name), add(name)
    registry.promote(tracking, second, champion="1", why="first come")
    with pytest.raises(UsageError, match=r"champion of test-stale at .* is version 2, not version 1"):
        registry.promote(tracking, third, champion="1", why="too late")
    assert aliases(tracking, name)["champion"] == "2"
    with pytest.raises(UsageError, match="is the champion already"):
        registry.promote(tracking, second, champion="2", why="again")


def test_two_who_move_the_champion_at_once_are_told(
    tracking: Tracking, add: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "test-race"
    add(name)
    second, third = add(name), add(name)
    client = tracking.client
    plain = client.set_registered_model_alias

    def interrupted(model: str, alias: str, version: str) -> None:
        plain(model, alias, version)
        if alias == "champion":
            plain(model, alias, third.version)  # the other one, right after us

    monkeypatch.setattr(client, "set_registered_model_alias", interrupted)
    with pytest.raises(UsageError, match="is version 3, not version 2 as expected: somebody else moved it"):
        registry.promote(tracking, second, champion="1", why="mine")
    assert [event.action for event in history(tracking, name)][-2:] == ["promote", "conflict"]
    assert aliases(tracking, name)["champion"] == "3"


def test_an_alias_that_was_moved_in_mlflow_itself_shows(tracking: Tracking, add: Register) -> None:
    name = "test-elsewhere"
    add(name)
    add(name)
    assert moved_elsewhere(history(tracking, name), aliases(tracking, name)) == []
    tracking.client.set_registered_model_alias(name, "champion", "2")
    assert moved_elsewhere(history(tracking, name), aliases(tracking, name)) == [
        "champion is version 2, but the trail left it at version 1: it was moved outside Reveal."
    ]


def test_entries_stay_within_what_a_tag_holds(tracking: Tracking, add: Register) -> None:
    name = "test-long"
    add(name)
    gate = {
        "decision": "forced",
        "against": f"{name}@1",
        "criteria": [
            {"name": f"criterion-{n}", "value": 0.1234567, "bound": 0.5, "passed": False, "text": "x" * 500}
            for n in range(12)
        ],
    }
    registry.promote(tracking, add(name), champion="1", why="why " * 1000, gate=gate)
    tags = tracking.client.get_registered_model(name).tags
    assert max(len(value) for key, value in tags.items() if key.startswith(audit.AUDIT)) < 5000
    event = history(tracking, name)[-1]
    assert event.gate is not None
    assert event.gate["criteria"]["criterion-0"] == [0.1234567, 0.5, False]
    assert json.dumps(event.gate)
