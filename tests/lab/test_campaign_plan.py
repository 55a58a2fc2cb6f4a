"""A campaign's plan: the same for the same seed, every fault in turn, and within its bounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reveal_core.lab.campaign_plan import GAP_S, INTENSITY, LENGTH_S, CampaignPlan, plan_piece

PLAN = CampaignPlan(
    seed=3,
    faults=("a", "b", "c", "d", "e"),
    variants=("training", "inference"),
    piece_faults=4,
    healthy_s=300.0,
    control_s=180.0,
)


@given(seed=st.integers(0, 2**32), number=st.integers(0, 50), count=st.integers(1, 20))
def test_a_piece_is_a_pure_function_of_seed_and_number(seed: int, number: int, count: int) -> None:
    plan = replace(PLAN, seed=seed, piece_faults=count)
    piece = plan_piece(plan, number)
    assert plan_piece(plan, number) == piece
    assert len(piece.faults) == count
    for fault in piece.faults:
        assert GAP_S[0] <= fault.gap_s <= GAP_S[1]
        assert LENGTH_S[0] <= fault.seconds <= LENGTH_S[1]
        assert INTENSITY[0] <= fault.intensity <= INTENSITY[1]
    assert piece.faults[-1].control_s == plan.control_s


def test_pieces_differ_and_so_do_seeds() -> None:
    pieces = [plan_piece(PLAN, number) for number in range(6)]
    assert len({piece.seed for piece in pieces}) == 6
    assert len({piece.faults for piece in pieces}) == 6
    assert plan_piece(replace(PLAN, seed=4), 0) != pieces[0]
    assert [piece.variant for piece in pieces] == ["training", "inference"] * 3


def test_every_fault_comes_once_before_any_comes_again() -> None:
    names = [fault.name for number in range(10) for fault in plan_piece(PLAN, number).faults]
    for first in range(0, len(names), len(PLAN.faults)):
        assert sorted(names[first : first + len(PLAN.faults)]) == sorted(PLAN.faults)
    assert Counter(names) == dict.fromkeys(PLAN.faults, 8)
    assert len({tuple(names[first : first + 5]) for first in range(0, 40, 5)}) > 1


def test_a_shorter_piece_is_the_beginning_of_the_whole_one() -> None:
    whole, part = plan_piece(PLAN, 2), plan_piece(PLAN, 2, most=2)
    assert part.seed == whole.seed
    assert [replace(f, control_s=0.0) for f in part.faults] == [
        replace(f, control_s=0.0) for f in whole.faults[:2]
    ]
    assert part.faults[-1].control_s == PLAN.control_s


def test_controls_lie_amid_the_faults_and_after_them() -> None:
    piece = plan_piece(PLAN, 0)
    assert [bool(fault.control_s) for fault in piece.faults] == [False, True, False, True]
    spent = sum(fault.gap_s + fault.seconds for fault in piece.faults)
    assert piece.seconds == 30.0 + 300.0 + spent + 2 * 180.0
