"""The cause catalogue: sound as data, and each signature named first by its own signals."""

import pytest

from reveal_core.attribute.causes import Signal, load_causes, rank_causes, speaking, strength
from reveal_core.catalog import load_catalog
from reveal_core.features.derived import BUSIEST_CORE, DERIVED
from reveal_core.features.rates import CHANGE_SUFFIX

CAUSES = {c.id: c for c in load_causes()}


def word(term, signal):
    return f"{term.says}: {signal.metric}"


def signal(metric, excess, part="value", statistic="level"):
    return Signal(metric, part, statistic, excess, 0)


def signature(cause, excess=20.0):
    """Every term of a cause, moved in its direction."""
    sign = {"up": 1.0, "down": -1.0}
    return [
        signal(
            t.metrics[0].replace("*", "x"),
            sign[t.direction] * excess,
            (t.parts or ("max",))[0],
            t.statistic or "level",
        )
        for t in cause.terms
    ]


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_a_cause_is_named_first_by_its_own_signature(cause):
    ranked = rank_causes(signature(cause), word)
    best = ranked[0]
    same = {c.id for c in ranked if c.confidence == pytest.approx(best.confidence)}
    assert cause.id in same | set(best.same_signals)


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_an_entry_tells_what_to_do(cause):
    assert cause.explanation.endswith(".")
    assert cause.fix.endswith(".")
    assert cause.source
    assert cause.checks
    assert cause.commands
    assert bool(cause.same_signals) == bool(cause.caveat)
    assert set(cause.same_signals) <= set(CAUSES)


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_a_signature_names_only_metrics_that_exist(cause):
    known = set(load_catalog()) | {BUSIEST_CORE, *(d.name for d in DERIVED)}
    known |= {f"{m.name}{CHANGE_SUFFIX}" for m in load_catalog().values() if m.stock}
    for term in (*cause.terms, *cause.against):
        for pattern in term.metrics:
            stem = pattern.rstrip("*")
            assert any(name.startswith(stem) if "*" in pattern else name == pattern for name in known), (
                pattern
            )


def test_nothing_is_named_when_nothing_moved():
    assert rank_causes([], word) == ()


def test_a_required_signal_cannot_be_replaced_by_others():
    loss = CAUSES["packet-loss"]
    others = [signal(t.metrics[-1], 20.0, "max") for t in loss.terms if not t.required]
    assert "packet-loss" not in {c.id for c in rank_causes(others, word)}


def test_what_speaks_against_lowers_the_confidence_and_is_shown():
    cause = CAUSES["cpu-contention"]
    alone = {c.id: c for c in rank_causes(signature(cause), word)}["cpu-contention"]
    throttled = [*signature(cause), signal("cgroup.throttled_time", 50.0, "max")]
    beside = {c.id: c for c in rank_causes(throttled, word)}
    assert "cpu-contention" not in beside or beside["cpu-contention"].confidence < alone.confidence
    assert rank_causes(throttled, word)[0].id == "cpu-quota"


def test_a_term_hears_only_its_direction_part_and_statistic():
    term = CAUSES["interrupt-imbalance"].terms[0]
    assert speaking(term, [signal("irq.device", -9.0, "imbalance")]) is None
    assert speaking(term, [signal("irq.device", 9.0, "max")]) is None
    heard = speaking(term, [signal("irq.device", 9.0, "imbalance"), signal("irq.total", 12.0, "imbalance")])
    assert heard is not None
    assert heard.metric == "irq.total"


def test_strength_grows_with_the_excess_and_stays_below_1():
    values = [strength(signal("x", e)) for e in (0.0, 1.0, 10.0, 1e9)]
    assert values == sorted(values)
    assert values[0] == 0.0
    assert values[-1] <= 1.0
    assert strength(None) == 0.0
