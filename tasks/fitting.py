"""The fitting stage: healthy telemetry in, a registered model out, which may take the champion's place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tasks.tracking import CHAMPION, ModelRef, Tracking

if TYPE_CHECKING:
    from reveal_core.evaluate.gate import GateRules
    from reveal_core.evaluate.reference import Reference
    from reveal_core.model import RevealModel
    from reveal_core.profiles import Profile
    from reveal_core.windows import Windows


def fit_hosts(
    store: str,
    *,
    tracking_uri: str,
    hardware_class: str,
    plans: list[dict[str, str]],
    profile: str,
    overrides: Mapping[str, Any],
    seed: int,
    promote: bool,
    flow_run_id: str | None,
    gate: Mapping[str, Any] | None = None,
    gate_plans: list[dict[str, str]] | None = None,
    force: str | None = None,
    trigger: str | None = None,
    without_incidents: bool = False,
) -> dict[str, Any]:
    """Learning what healthy telemetry looks like.

    Parameters
    ----------
    store, tracking_uri
        Where telemetry is read and the model is registered.
    hardware_class, plans
        The hosts of one class and the range of each, from `tasks.planning`.
    profile, overrides, seed
        Method settings.
    promote
        Whether the version is to become the champion if the gate lets it. The first version of a class does
        so without: there is none to compare it with.
    flow_run_id
        Id of the flow run, for the run's tags.
    gate
        Bounds of `reveal_core.evaluate.gate.GateRules` to replace.
    gate_plans
        Healthy ranges to judge challenger and champion on; without, the newest part of ``plans`` is held back
        for it.
    force
        The reason to promote against the gate; None to obey it.
    trigger
        What the fit is for, where nobody asked for it by hand.
    without_incidents
        Whether to leave out windows that lie in incidents of the store.

    Returns
    -------
    dict
        ``run_id``, ``model``, ``version``, ``alias``, ``features``, ``windows``, ``metrics``,
        ``hardware_class``, ``run_url``; ``hosts`` that it learned from, drawn with the seed where there are
        many, of so many ``candidates``; ``left_out``, ``host`` and ``reason`` of those that nothing can be
        learned from; ``gate``, the decision and every criterion, None where the gate was not asked.

    Raises
    ------
    UsageError
        If the profile or a setting is not known, the telemetry is too little to learn from, most hosts have
        nothing healthy to show, or another version became the champion meanwhile.
    UnavailableError
        If the store or MLflow cannot be reached.
    """
    from reveal_core.evaluate.gate import GateRules
    from reveal_core.evaluate.rules import with_settings
    from reveal_core.profiles import load_profile, profile_from
    from storage.store import Store
    from tasks.fit_runs import log_fit
    from tasks.history import healthy_windows, sample_hosts
    from tasks.models import registered_name

    # By way of plain values: what came through a flow's parameters has lists for tuples.
    settings = profile_from(load_profile(profile, overrides).to_dict())
    rules = with_settings(GateRules(), gate or {}, "method.gate")
    tracking, source = Tracking(tracking_uri), Store(store)
    # Asked before the work, not after it: a tracker that is down should not cost a fit.
    champion = _champion(tracking, registered_name(hardware_class)) if promote else None
    plans, judged = _divide(plans, champion, rules, gate_plans)
    some = sample_hosts(plans, seed)
    windows, left_out = healthy_windows(
        source, some, settings, seed=seed, without_incidents=without_incidents
    )
    model, reference = _fit(windows, settings, seed)
    facts = model.facts()
    hosts = [plan["host"] for plan in some if plan["host"] not in left_out]
    logged = log_fit(
        tracking,
        model,
        reference,
        hardware_class=hardware_class,
        hosts=hosts,
        seed=seed,
        flow_run_id=flow_run_id,
        trigger=trigger,
    )
    found = None
    if champion is not None:
        from tasks.promoting import decide

        decision = decide(
            tracking,
            source,
            ModelRef(logged["model"], logged["version"], logged["alias"], logged["run_id"]),
            model,
            champion,
            plans=judged,
            rules=rules,
            seed=seed,
            force=force,
        )
        found = decision.gate
        logged["alias"] = decision.reference.alias
    return {
        **logged,
        "features": facts["features"],
        "windows": facts["windows"],
        "profile": settings.name,
        "hardware_class": hardware_class,
        "hosts": hosts,
        "candidates": len(plans),
        "left_out": [{"host": host, "reason": reason} for host, reason in left_out.items()],
        "threshold_rule": facts["threshold_rule"],
        "provisional": facts["provisional"],
        "gate": found,
    }


def _champion(tracking: Tracking, name: str) -> ModelRef | None:
    from tasks.audit import aliases

    return tracking.resolve(f"{name}@{CHAMPION}") if CHAMPION in aliases(tracking, name) else None


def _divide(
    plans: list[dict[str, str]],
    champion: ModelRef | None,
    rules: GateRules,
    gate_plans: list[dict[str, str]] | None,
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return what is fitted and what is judged; without a champion nothing is judged."""
    from tasks.promoting import hold_back, require_apart

    if champion is None:
        return plans, []
    if gate_plans is None:
        return hold_back(plans, rules)
    require_apart(plans, gate_plans)
    return plans, gate_plans


def _fit(windows: Sequence[Windows], profile: Profile, seed: int) -> tuple[RevealModel, Reference]:
    """Return the model of healthy windows, and how the features that its detectors see were distributed."""
    from reveal_core.evaluate.drift import reference_of
    from reveal_core.model import RevealModel

    model = RevealModel(profile.to_dict(), seed).fit(windows)
    return model, reference_of(model, windows)
