"""Running stages directly."""

from __future__ import annotations

import pytest

from reveal_core.errors import UsageError
from tasks.runner import DirectRunner


def halve(number: int) -> int:
    """Halving a number."""
    if number % 2:
        raise UsageError(f"{number} is odd")
    return number // 2


def test_every_call_is_made_even_if_one_fails() -> None:
    told: list[str] = []
    with pytest.raises(UsageError, match="3 is odd"):
        DirectRunner(told.append).map(halve, [{"number": 2}, {"number": 3}, {"number": 4}])
    assert told == ["Halving a number (1 of 3)", "Halving a number (2 of 3)", "Halving a number (3 of 3)"]


def test_results_come_in_order() -> None:
    runner = DirectRunner()
    assert runner.map(halve, [{"number": 8}, {"number": 2}]) == [4, 1]
    assert runner.call(halve, number=6) == 3
    assert runner.run_id is None
