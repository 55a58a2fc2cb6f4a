"""The fitting stage: healthy telemetry in, a registered model out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.planning import read_hosts
from tasks.tracking import Tracking


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
        Whether the version becomes the champion.
    flow_run_id
        Id of the flow run, for the run's tags.

    Returns
    -------
    dict
        ``run_id``, ``model``, ``version``, ``alias``, ``features``, ``windows``, ``metrics``,
        ``hardware_class``, ``hosts``, ``notes``, ``run_url``.

    Raises
    ------
    UsageError
        If the profile is not known or the telemetry is too little to learn from.
    UnavailableError
        If the store or MLflow cannot be reached.
    """
    from reveal_core.method import fit_model
    from reveal_core.profiles import load_profile
    from storage.store import Store
    from tasks.models import log_fit

    settings = load_profile(profile, overrides)
    tracking = Tracking(tracking_uri)
    # Asked before the work, not after it: a tracker that is down should not cost a fit.
    _ = tracking.client
    model = fit_model(read_hosts(Store(store), plans), settings, seed=seed)
    facts = model.facts()
    hosts = [plan["host"] for plan in plans]
    logged = log_fit(
        tracking,
        model,
        hardware_class=hardware_class,
        hosts=hosts,
        seed=seed,
        promote=promote,
        flow_run_id=flow_run_id,
    )
    return {
        **logged,
        "features": facts["features"],
        "windows": facts["windows"],
        "profile": settings.name,
        "hardware_class": hardware_class,
        "hosts": hosts,
        "threshold_rule": facts["threshold_rule"],
        "provisional": facts["provisional"],
    }
