"""Challenger against champion: judged on telemetry that the challenger was not fitted on, and decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from reveal_core.errors import NoTelemetryError, UsageError
from reveal_core.evaluate.contest import Ground
from reveal_core.evaluate.gate import Observed
from reveal_core.incidents import iso
from reveal_core.timespec import from_ns, parse_time
from tasks.history import PIECE, pieces
from tasks.models import load_model, plugins_of
from tasks.planning import read_host
from tasks.registry import promote, set_decision
from tasks.tracking import CHALLENGER, ModelRef, Tracking

if TYPE_CHECKING:
    from reveal_core.evaluate.gate import Gate, GateRules
    from reveal_core.model import RevealModel
    from storage.store import Store

GATE_FILE = "gate.json"
GATE_TAG = "reveal.gate"

Plan = Mapping[str, str]


def hold_back(plans: Sequence[Plan], rules: GateRules) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Cut each host's range in two: what a challenger is fitted on, and the newest part that it is judged on.

    Only the range of a fit is known to be healthy: somebody vouches for it. So what is held back comes from
    there, and not from what was recorded since.

    Returns
    -------
    tuple
        Plans of the older parts and of the newer ones.
    """
    older, newer = [], []
    for plan in plans:
        start, end = parse_time(plan["start"]), parse_time(plan["end"])
        whole = (end - start).total_seconds()
        kept = min(max(rules.held_back * whole, rules.held_back_s), whole / 2.0)
        cut = iso(end - timedelta(seconds=kept))
        older.append({name: value for name, value in plan.items() if name != "read_to"} | {"end": cut})
        newer.append({name: value for name, value in plan.items() if name != "read_from"} | {"start": cut})
    return older, newer


def require_apart(plans: Sequence[Plan], judged: Sequence[Plan]) -> None:
    """Make sure that no host is judged on what it is fitted on.

    Raises
    ------
    UsageError
        If a range to judge on overlaps the range of the fit.
    """
    fitted = {plan["host"]: plan for plan in plans}
    for plan in judged:
        other = fitted.get(plan["host"])
        if other is None:
            continue
        if parse_time(plan["start"]) < parse_time(other["end"]) and parse_time(other["start"]) < parse_time(
            plan["end"]
        ):
            raise UsageError(
                f"the gate's range of {plan['host']} ({plan['start']} to {plan['end']}) overlaps the range "
                f"that is fitted ({other['start']} to {other['end']}): a model is not judged on what it knows"
            )


@dataclass(frozen=True)
class Decision:
    """What became of a challenger: its version as it is now, and the gate's result as plain values."""

    reference: ModelRef
    gate: dict[str, Any]


def decide(
    tracking: Tracking,
    source: Store,
    reference: ModelRef,
    model: RevealModel,
    champion: ModelRef,
    *,
    plans: Sequence[Plan],
    rules: GateRules,
    seed: int,
    force: str | None,
) -> Decision:
    """Judge a challenger, log the result to its run and its version, and promote it if it may be.

    Parameters
    ----------
    tracking, source
        Where the models are registered, and where the telemetry is.
    reference, model
        The challenger, registered.
    champion
        The version to beat, as it was when the fit began.
    plans
        Hosts and ranges to judge on.
    rules, seed
        Bounds, and the seed of the perturbations.
    force
        The reason to promote it whatever the gate says; None to obey the gate.

    Raises
    ------
    UsageError
        If another version became the champion meanwhile.
    UnavailableError
        If store or MLflow do not answer.
    """
    from reveal_core.evaluate.gate import FORCED, PROMOTED, REFUSED

    gate, notes = _judge(tracking, source, model, champion, plans, rules, seed)
    decision = PROMOTED if gate.passed else REFUSED if force is None else FORCED
    reason = gate.reason if decision != FORCED else f"{force} (against the gate: {gate.reason})"
    document = {
        "decision": decision,
        "reason": reason,
        "against": champion.label,
        "ranges": [{name: plan[name] for name in ("host", "start", "end")} for plan in plans],
        "notes": notes,
        **gate.to_dict(),
    }
    _log(tracking, reference, gate, document)
    if decision == REFUSED:
        set_decision(tracking, reference.name, reference.version, CHALLENGER, f"refused: {reason}")
        return Decision(reference, document)
    words = "gate passed" if decision == PROMOTED else f"forced: {reason}"
    promoted = promote(tracking, reference, champion=champion.version, why=words, gate=document)
    return Decision(promoted, document)


def _judge(
    tracking: Tracking,
    source: Store,
    model: RevealModel,
    champion: ModelRef,
    plans: Sequence[Plan],
    rules: GateRules,
    seed: int,
) -> tuple[Gate, list[str]]:
    from reveal_core.evaluate.contest import contest, gate_plan
    from reveal_core.evaluate.gate import judge
    from reveal_core.profiles import profile_from

    # A champion that cannot score any more must not keep one out that can.
    failure: UsageError | None = None
    models = [model]
    try:
        models.append(load_model(tracking, champion, plugins_of(model.profile)))
    except UsageError as error:
        failure = error
    stretches = _stretches(plans, rules, seed)
    injected, injections = gate_plan(rules, len(stretches), seed)
    results, notes = contest(_grounds(source, stretches), models, injected=injected, plan=injections)
    observed, against = results[0], results[1] if len(results) > 1 else failure
    if isinstance(observed, UsageError):
        raise observed
    if isinstance(against, Observed):
        notes += _known_to(champion, models[1], plans)
    else:
        notes.append(f"The champion cannot be compared with: {against}.")
        against = None
    budget = profile_from(model.profile).alarm_budget
    return judge(observed, against, rules=rules, budget_per_day=budget), notes


def _stretches(plans: Sequence[Plan], rules: GateRules, seed: int) -> list[dict[str, str]]:
    """Cut the ranges into stretches that are judged one at a time; of long ranges some, evenly spread."""
    room = max(1, int(timedelta(hours=rules.judged_hours) / PIECE))
    count = min(len(plans), room)  # of more hosts than there may be stretches some, evenly spread
    some = [plans[index * len(plans) // count] for index in range(count)]
    most = timedelta(hours=rules.judged_hours / count)
    found = []
    for number, plan in enumerate(some):
        start, end = parse_time(plan["start"]), parse_time(plan["end"])
        for since, until in pieces(start, end, most, np.random.default_rng((seed, number))):
            found.append({"host": plan["host"], "start": iso(since), "end": iso(until)})
    return found


def _grounds(source: Store, stretches: Sequence[Plan]) -> Iterator[Ground]:
    for plan in stretches:
        try:
            telemetry = read_host(source, plan, warm_up=True).telemetry
        except NoTelemetryError:
            continue  # the host was off for a while
        yield Ground(telemetry, parse_time(plan["start"]), parse_time(plan["end"]))


def _known_to(champion: ModelRef, rival: RevealModel, plans: Sequence[Plan]) -> list[str]:
    """Say so if the champion may have been fitted on what both are judged on: that flatters it."""
    if not any(rival.learned_within(parse_time(p["start"]), parse_time(p["end"])) for p in plans):
        return []
    begin, end = (iso(from_ns(ns)) for ns in (rival.trained_from_ns_, rival.trained_to_ns_))
    return [
        f"{champion.label} was fitted on a range that overlaps what both are judged on "
        f"({begin} to {end}): the comparison favours it."
    ]


def _log(tracking: Tracking, reference: ModelRef, gate: Gate, document: Mapping[str, Any]) -> None:
    """Put the gate's figures where the challenger's run and version show them."""
    from mlflow.entities import Metric

    client = tracking.client
    now = int(datetime.now(UTC).timestamp() * 1000)
    failed = [criterion.name for criterion in gate.criteria if not criterion.passed]
    with tracking.expected():
        client.log_batch(
            reference.run_id,
            metrics=[Metric(name, value, now, 0) for name, value in sorted(gate.metrics().items())],
        )
        client.log_dict(reference.run_id, dict(document), GATE_FILE)
        outcome = f"{document['decision']}: {', '.join(failed)}" if failed else str(document["decision"])
        client.set_tag(reference.run_id, GATE_TAG, outcome)
        client.set_model_version_tag(reference.name, reference.version, GATE_TAG, outcome)
        for criterion in gate.criteria:
            shown = f"{'met' if criterion.passed else 'not met'}: {criterion.text}"
            client.set_model_version_tag(
                reference.name, reference.version, f"{GATE_TAG}.{criterion.name}", shown
            )
