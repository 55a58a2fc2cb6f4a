"""Profiles and the settings that change them: what may be written, and how a mistake is told."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.errors import UsageError
from reveal_core.features.windowing import STATISTICS
from reveal_core.profiles import PROFILES, Statistic, load_profile, profile_from


def written(text: str) -> dict[str, Any]:
    """Return overrides as ``reveal.toml`` gives them."""
    return tomllib.loads(text)["method"]["overrides"]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
def test_every_profile_holds_to_its_own_rules(profile) -> None:
    assert load_profile(profile.name) == profile
    assert profile_from(json.loads(json.dumps(profile.to_dict()))) == profile


def test_statistics_are_those_that_windows_have() -> None:
    assert set(get_args(Statistic)) == set(STATISTICS)


@settings(max_examples=40, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "margin": st.floats(1, 9),
            "statistics": st.lists(st.sampled_from(STATISTICS), min_size=1, unique=True),
            "exclude": st.lists(st.text(max_size=5)),
            "folds": st.integers(2, 9),
            "keep_events": st.booleans(),
            "detectors": st.dictionaries(
                st.sampled_from(["one", "two"]),
                st.fixed_dictionaries({"class": st.just("ZScoreDetector"), "clip": st.floats(1, 9)}),
            ),
        },
    )
)
def test_what_settings_change_survives_a_trip_through_json(overrides) -> None:
    profile = load_profile("default", overrides)
    assert profile_from(json.loads(json.dumps(profile.to_dict()))) == profile


def test_values_take_the_form_that_the_method_expects() -> None:
    profile = load_profile(
        "default", {"statistics": ["level"], "exclude": ["a.*"], "margin": 2, "folds": "3"}
    )
    assert profile.statistics == ("level",)
    assert profile.exclude == ("a.*",)
    assert isinstance(profile.margin, float)
    assert profile.folds == 3


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"margin": "wide"}, "margin: Input should be a valid number"),
        ({"margin": 0.5}, "margin: Input should be greater than or equal to 1, not 0.5"),
        ({"margin": True}, "margin: a number is expected, not True"),
        ({"margin": float("inf")}, "margin: Input should be a finite number"),
        ({"space": "rolled"}, "space: Input should be 'rollup' or 'instance', not 'rolled'"),
        ({"threshold": "guess"}, "threshold: Input should be 'budget' or 'percentile'"),
        ({"statistics": ["level", "median"]}, r"statistics\.1: Input should be 'level', 'spread'"),
        ({"statistics": "level"}, "statistics: a list is expected, not 'level'"),
        ({"statistics": []}, "statistics: at least one is expected"),
        ({"exclude": [3]}, r"exclude\.0: Input should be a valid string"),
        ({"keep_events": 7}, "keep_events: Input should be a valid boolean"),
        ({"folds": 2.5}, "folds: Input should be a valid integer"),
        ({"trim": 0.9}, "trim: Input should be less than 0.5"),
        ({"correlation": 0}, "correlation: Input should be greater than 0"),
        ({"window_s": 2.5}, "window_s: 2.5 s is no whole number of strides of 1 s"),
        ({"stride_s": 5}, "window_s: 3 s is no whole number of strides of 5 s"),
        ({"agreement": 9}, "agreement: 9 of . detectors can never agree"),
        ({"detectors": "zscore"}, "detectors: a table or a list is expected"),
        ({"detectors": []}, "detectors: at least one is expected"),
        ({"detectors": {"z": 3}}, r"detectors\.z: a table of class and parameters, or false, is expected"),
        ({"detectors": {"z": {"clip": 3}}}, r"detectors\.z: profile default has no such detector"),
        ({"detectors": {"z": False}}, r"detectors\.z: profile default has no such detector"),
        ({"detectors": {"z": {"class": 3}}}, r"detectors\.z\.class: Input should be a valid string"),
        ({"detectors": {"a b": {"class": "ZScoreDetector"}}}, r"detectors\.a b\.name: String should match"),
        ({"detectors": [{"class": "ZScoreDetector"}]}, r"detectors\.0: it has no name"),
        ({"detectors": [["z", "ZScoreDetector"]]}, r"detectors\.z\.parameters: Field required"),
        ({"detectors": [["z", "ZScoreDetector", []]] * 2}, "detectors: a name stands twice: z, z"),
        ({"detectors": [["c", "CoverageDetector", []]]}, "detectors: none of them sees signals"),
        ({"detectors": {"z": {"class": "Oracle"}}}, "detector z: unknown class 'Oracle': choose from ZScore"),
        ({"detectors": {"zscore": {"clipp": 3}}}, "detector zscore: ZScoreDetector has no parameter 'clipp'"),
        ({"detectors": {"zscore": {"clip": -3}}}, "clip: Input should be greater than 0, not -3"),
        ({"detectors": {"s": {"class": "sklearn.svm.SVC"}}}, "detector s: sklearn.svm.SVC is no outlier"),
    ],
    ids=str,
)
def test_a_value_that_a_setting_does_not_allow_is_one_line_that_names_it(overrides, said) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        load_profile("default", overrides)
    assert "\n" not in str(caught.value)


def test_a_table_of_detectors_adds_changes_and_leaves_out() -> None:
    overrides = written("""
        [method.overrides.detectors]
        forest = false
        [method.overrides.detectors.zscore]
        combine = "max"
        [method.overrides.detectors.lof]
        class = "sklearn.neighbors.LocalOutlierFactor"
        n_neighbors = 20
        metric_params = {}
    """)
    profile = load_profile("default", overrides)
    names = [name for name, _, _ in profile.detectors]
    assert names == [name for name, _, _ in PROFILES[0].detectors if name != "forest"] + ["lof"]
    assert profile.detectors[0] == ("zscore", "ZScoreDetector", (("combine", "max"),))
    parameters = (("n_neighbors", 20), ("metric_params", {}))
    assert profile.detectors[-1] == ("lof", "sklearn.neighbors.LocalOutlierFactor", parameters)
    assert profile_from(json.loads(json.dumps(profile.to_dict()))) == profile


def test_parameters_are_changed_singly_and_a_class_starts_anew() -> None:
    changed = load_profile("paper", {"detectors": {"mahalanobis": {"kept": 0.8}}}).detectors[1]
    assert changed[1:] == ("PCAMahalanobisDetector", (("kept", 0.8), ("ridge", 1e-9), ("clip", None)))
    anew = load_profile(
        "paper", {"detectors": {"mahalanobis": {"class": "PCAMahalanobisDetector", "kept": 0.8}}}
    )
    assert anew.detectors[1][2] == (("kept", 0.8),)


def test_a_list_of_detectors_replaces_all() -> None:
    overrides = written("""
        [[method.overrides.detectors]]
        name = "svm"
        class = "sklearn.svm.OneClassSVM"
        nu = 0.05
    """)
    assert load_profile("default", overrides).detectors == (
        ("svm", "sklearn.svm.OneClassSVM", (("nu", 0.05),)),
    )


def test_a_profile_that_comes_with_a_model_imports_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "detector_of_others.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    plain = load_profile("default").to_dict()
    plain["detectors"] = [["other", "detector_of_others.Detector", []]]
    assert profile_from(plain).detectors[0][1] == "detector_of_others.Detector"
    assert "detector_of_others" not in sys.modules
    with pytest.raises(SystemExit, match="imported"):
        load_profile("default", {"detectors": plain["detectors"]})
