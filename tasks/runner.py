"""How stages are run: called directly here, as tasks of a flow in `tasks.prefect_tasks`.

A pipeline is written once, over a runner, so that a command without an orchestrator and a flow with one do
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tasks.pool import map_apart, worth_it

Stage = Callable[..., Any]
"""A function that loads, computes and saves; arguments and result are plain values (keys, ids, counts)."""


class Runner(Protocol):
    """Runs stages."""

    @property
    def run_id(self) -> str | None:
        """Id of the flow run that the stages belong to, None without an orchestrator."""
        ...

    def call(self, stage: Stage, /, **arguments: Any) -> Any:
        """Run one stage and return its result; its exception comes through."""
        ...

    def map(self, stage: Stage, calls: Sequence[Mapping[str, Any]], *, heavy: bool = False) -> list[Any]:
        """Run a stage once per set of arguments, side by side if possible; return the results in order.

        Every call is run, even if one fails; the first exception comes through after that. Calls that keep a
        core busy are ``heavy``: where there are many, they are run in processes of their own.
        """
        ...


class DirectRunner:
    """Calls stages one after another in this process.

    Parameters
    ----------
    announce
        Called with a sentence before each stage, for progress on a terminal.
    workers
        Processes that heavy calls are spread over; 1 for this process alone.
    """

    run_id: str | None = None

    def __init__(self, announce: Callable[[str], None] | None = None, workers: int = 1) -> None:
        self._announce = announce or (lambda _text: None)
        self._workers = workers

    def call(self, stage: Stage, /, **arguments: Any) -> Any:
        """Run one stage."""
        self._announce(stage_title(stage))
        return stage(**arguments)

    def map(self, stage: Stage, calls: Sequence[Mapping[str, Any]], *, heavy: bool = False) -> list[Any]:
        """Run a stage once per set of arguments, one after another unless they are heavy and many."""
        if heavy and worth_it(len(calls), self._workers):
            title = stage_title(stage)
            self._announce(title)
            return map_apart(
                self._workers,
                stage,
                calls,
                lambda done: self._announce(f"{title} ({done} of {len(calls)} done)"),
            )
        results: list[Any] = []
        failures: list[Exception] = []
        for number, arguments in enumerate(calls, 1):
            self._announce(
                f"{stage_title(stage)} ({number} of {len(calls)})" if len(calls) > 1 else stage_title(stage)
            )
            try:
                results.append(stage(**arguments))
            except Exception as error:  # noqa: BLE001  one group of hosts must not cost the others their results
                failures.append(error)
        if failures:
            raise failures[0]
        return results


def stage_title(stage: Stage) -> str:
    """Return what a stage does, for people: the first line of its docstring.

    >>> stage_title(stage_title)
    'Return what a stage does, for people: the first line of its docstring'
    """
    return (stage.__doc__ or stage.__name__).strip().splitlines()[0].rstrip(".")
