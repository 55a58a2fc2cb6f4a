"""What a challenger is judged on, and a champion that cannot be held against it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_telemetry import SYNTHETIC_START

from reveal_core.errors import UsageError
from reveal_core.evaluate.contest import gate_plan
from reveal_core.evaluate.gate import GateRules
from reveal_core.incidents import iso
from reveal_core.timespec import parse_time
from tasks.fitting import fit_hosts
from tasks.models import MODEL_FILE
from tasks.planning import classify_hosts, plan_hosts
from tasks.promoting import _stretches, hold_back, require_apart
from tasks.tracking import Tracking

RULES = GateRules()


def plan(start: float, end: float, host: str = "node-1") -> dict[str, str]:
    return {
        "host": host,
        "start": iso(SYNTHETIC_START + timedelta(seconds=start)),
        "end": iso(SYNTHETIC_START + timedelta(seconds=end)),
        "hardware_class": "c",
        "read_from": iso(SYNTHETIC_START + timedelta(seconds=start - 60)),
        "read_to": iso(SYNTHETIC_START + timedelta(seconds=end + 60)),
    }


def seconds(one: dict[str, str]) -> float:
    return (parse_time(one["end"]) - parse_time(one["start"])).total_seconds()


@given(st.lists(st.floats(1.0, 86400.0), min_size=1, max_size=4))
def test_what_is_held_back_is_the_newest_part_and_meets_the_rest_without_a_gap(lengths: list[float]) -> None:
    plans = [plan(0.0, length, f"node-{n}") for n, length in enumerate(lengths)]
    older, newer = hold_back(plans, RULES)
    for whole, old, new in zip(plans, older, newer, strict=True):
        assert (old["host"], old["start"], new["end"]) == (whole["host"], whole["start"], whole["end"])
        assert old["end"] == new["start"]
        assert old["read_from"] == whole["read_from"]
        assert new["read_to"] == whole["read_to"]
        assert "read_to" not in old
        assert "read_from" not in new
        assert seconds(new) <= seconds(whole) / 2 + 0.002
        wanted = max(RULES.held_back * seconds(whole), RULES.held_back_s)
        assert seconds(new) == pytest.approx(min(wanted, seconds(whole) / 2), abs=0.002)
        require_apart([old], [new])


@given(st.one_of(st.integers(1, 5), st.just(300)), st.floats(60.0, 20 * 86400.0))
def test_no_more_is_judged_than_the_rules_say_and_perturbations_are_spread(hosts: int, length: float) -> None:
    plans = [plan(0.0, length, f"node-{n}") for n in range(hosts)]
    stretches = _stretches(plans, RULES, seed=0)
    assert sum(seconds(one) for one in stretches) <= RULES.judged_hours * 3600.0 + 1.0
    assert len({one["host"] for one in stretches}) == min(hosts, 144)
    for one in stretches:
        assert parse_time(plans[0]["start"]) <= parse_time(one["start"]) < parse_time(one["end"])
        assert parse_time(one["end"]) <= parse_time(plans[0]["end"])
    chosen, injections = gate_plan(RULES, len(stretches), seed=0)
    assert len(chosen) == min(len(stretches), RULES.injected_stretches)
    assert all(0 <= number < len(stretches) for number in chosen)
    assert RULES.injections <= injections.count * len(chosen) < RULES.injections + len(chosen)
    assert gate_plan(replace(RULES, injections=0), len(stretches), seed=0)[0] == []


def test_a_model_is_not_judged_on_what_it_is_fitted_on() -> None:
    require_apart([plan(0, 100)], [plan(50, 150, "node-2"), plan(100, 150), plan(-50, 0)])
    for start, end in ((50, 150), (-50, 1), (20, 30)):
        with pytest.raises(
            UsageError, match=r"the gate's range of node-1 .* overlaps the range that is fitted"
        ):
            require_apart([plan(0, 100)], [plan(start, end)])


def test_a_champion_that_cannot_be_read_keeps_nobody_out(fitted_store) -> None:
    store, tracking = str(fitted_store.path), Tracking(fitted_store.tracking_uri)

    def fit(**options) -> dict:
        plans = plan_hosts(store, host="*", start=None, end=iso(SYNTHETIC_START + timedelta(seconds=110)))
        return fit_hosts(
            store,
            tracking_uri=tracking.uri,
            hardware_class="test-damaged",
            plans=classify_hosts(store, plans=plans),
            profile="default",
            overrides={"detectors": [["zscore", "ZScoreDetector", []]], "folds": 2, "margin": 5.0},
            seed=0,
            flow_run_id=None,
            **options,
        )

    first = fit(promote=False)
    model_id = tracking.client.get_run(first["run_id"]).outputs.model_outputs[0].model_id
    folder = Path(tracking.client.get_logged_model(model_id).artifact_location.removeprefix("file://"))
    (folder / MODEL_FILE).write_bytes(b"no model")
    with pytest.raises(UsageError, match=r"setting method\.gate\.nonsense is not known"):
        fit(promote=True, gate={"nonsense": 1})
    second = fit(promote=True, gate={"injections": 0, "minimum_windows": 20})
    gate = second["gate"]
    assert (second["alias"], gate["decision"]) == ("champion", "promoted"), gate
    assert [c["name"] for c in gate["criteria"]] == [
        "windows",
        "alarm_rate",
        "feature_coverage",
        "window_coverage",
    ]
    assert len(gate["notes"]) == 1
    assert gate["notes"][0].startswith(
        "The champion cannot be compared with: model reveal-test-damaged@1 at "
    )
    assert tracking.resolve("reveal-test-damaged@previous").version == "1"
