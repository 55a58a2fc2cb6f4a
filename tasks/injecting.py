"""The method judged on a store's own telemetry, by perturbations written into it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from reveal_core.errors import UsageError
from reveal_core.incidents import iso
from reveal_core.timespec import parse_time
from tasks.models import load_model
from tasks.planning import classify_hosts, parse_range, plan_hosts, read_host
from tasks.scoring import choose_model
from tasks.tracking import ModelRef, Tracking

if TYPE_CHECKING:
    from reveal_core.evaluate.injected import InjectedResult, InjectionPlan
    from reveal_core.model import RevealModel
    from storage.store import Store

FITTED_SHARE = 0.6
"""Share of the range that a model is fitted on where none is registered for it; the rest is perturbed."""


def evaluate_injected(
    store: str,
    *,
    tracking_uri: str,
    host: str,
    start: str | None,
    end: str | None,
    model: str | None,
    profile: str | None,
    overrides: Mapping[str, Any],
    count: int,
    seed: int,
    plugins: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Write perturbations into the telemetry of some hosts, and judge what a model makes of them.

    Parameters
    ----------
    store, tracking_uri
        Where telemetry is read, and where models are registered.
    host, start, end
        As `tasks.planning.plan_hosts`.
    model
        Reference to a registered model; the champion of each host's hardware class if None.
    profile, overrides
        Method settings of a model that is fitted on the first `FITTED_SHARE` of each host's range and judged
        on the rest; None for registered models.
    count
        Perturbations on each host.
    seed
        Of what is drawn at random.
    plugins
        Detectors of other libraries that a registered model may hold, by the operator's settings.
    say
        Told what is going on.

    Returns
    -------
    dict
        ``store``, ``hosts`` (with ``host``, ``start``, ``end``, ``model`` of each), ``model``, ``plan``,
        ``summary``, ``by_kind``, ``by_target``, ``by_size``, ``by_subsystem``, ``faults`` (with ``host``),
        ``notes`` and ``seconds``; see `reveal_core.evaluate.injected_result`.

    Raises
    ------
    UsageError
        If there is no telemetry or too little of it, no such model, or both model and profile are given.
    UnavailableError
        If the store or MLflow cannot be reached.
    """
    if model is not None and profile is not None:
        raise UsageError(
            "a registered model or a profile is judged, not both: leave out --model or --profile"
        )
    from reveal_core.evaluate.injected import InjectionPlan
    from reveal_core.evaluate.injected_result import pooled
    from reveal_core.profiles import load_profile
    from storage.store import Store

    began = time.perf_counter()
    parse_range(start, end)
    settings = load_profile(profile, overrides) if profile is not None else None
    plan = InjectionPlan(count=count, seed=seed)
    plans = plan_hosts(store, host=host, start=start, end=end)
    source = Store(store)
    models = {} if settings else _registered(store, tracking_uri, model, plans, plugins)
    results: list[InjectedResult] = []
    hosts, faults, notes = [], [], []
    for number, one in enumerate(plans, 1):
        say(f"{one['host']} ({number} of {len(plans)})")
        if settings is not None:
            fitted, one = _fitted(source, one, settings, seed)
            label = f"profile {settings.name}"
        else:
            fitted, label = models[one["host"]]
            notes += _seen_before(fitted, one)
        result = _judge(source, one, fitted, plan)
        results.append(result)
        hosts.append({"host": one["host"], "start": one["start"], "end": one["end"], "model": label})
        faults += [{"host": one["host"], **fault} for fault in result.to_dict()["faults"]]
        if len(result.faults) < count:
            notes.append(
                f"{one['host']}: {len(result.faults)} perturbations fit into the range, not {count}."
            )
    return {
        "store": store,
        "hosts": hosts,
        "model": ", ".join(dict.fromkeys(entry["model"] for entry in hosts)),
        "plan": asdict(plan),
        **pooled(results).to_dict(),
        "faults": faults,
        "notes": notes,
        "seconds": round(time.perf_counter() - began, 1),
    }


def _registered(
    store: str, tracking_uri: str, model: str | None, plans: list[dict[str, str]], plugins: Sequence[str]
) -> dict[str, tuple[RevealModel, str]]:
    """Return the model of each host, with its name and version."""
    classes = {p["host"]: p["hardware_class"] for p in classify_hosts(store, plans=plans)}
    chosen = choose_model(tracking_uri, model=model, hardware_classes=list(classes.values()))
    tracking = Tracking(tracking_uri)
    loaded = {}
    for name, reference in chosen.items():
        version = ModelRef(**reference)
        loaded[name] = (load_model(tracking, version, plugins), version.label)
    return {host: loaded[name] for host, name in classes.items()}


def _fitted(
    source: Store, plan: dict[str, str], settings: Any, seed: int
) -> tuple[RevealModel, dict[str, str]]:
    """Return a model of the first part of a range, and the plan of the rest."""
    from reveal_core.method import fit_model

    start, end = parse_time(plan["start"]), parse_time(plan["end"])
    split = iso(start + timedelta(seconds=FITTED_SHARE * (end - start).total_seconds()))
    early = {key: value for key, value in plan.items() if key != "read_to"}
    telemetry = read_host(source, {**early, "end": split}, warm_up=False).telemetry
    late = {key: value for key, value in plan.items() if key != "read_from"}
    return fit_model([telemetry], settings, seed=seed), {**late, "start": split}


def _judge(
    source: Store, plan: dict[str, str], fitted: RevealModel, injection: InjectionPlan
) -> InjectedResult:
    from reveal_core.evaluate.injected import evaluate_injected as judge

    read = read_host(source, plan, warm_up=True)
    start, end = parse_time(plan["start"]), parse_time(plan["end"])
    return judge(fitted, read.telemetry, injection, start=start, end=end)


def _seen_before(fitted: RevealModel, plan: dict[str, str]) -> list[str]:
    if not fitted.learned_within(parse_time(plan["start"]), parse_time(plan["end"])):
        return []
    return [f"{plan['host']}: the model learned from part of this range, which may hide false incidents."]
