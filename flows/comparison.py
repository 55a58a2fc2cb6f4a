"""What ``compare-detectors`` does, over a runner as the other pipelines are."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from reveal_core.errors import UnavailableError
from tasks.compare_files import combination, combinations_of
from tasks.compare_plan import plan_comparison
from tasks.comparing import (
    abandon_comparison,
    begin_comparison,
    compare_setting,
    finish_comparison,
    prepare_host,
    prepare_windows,
)
from tasks.grids import parse_grid
from tasks.planning import parse_range
from tasks.runner import Runner


def compare_detectors(
    run: Runner,
    *,
    store: str,
    tracking_uri: str,
    host: str,
    start: str | None,
    end: str | None,
    fit_start: str | None,
    fit_end: str | None,
    grid: Mapping[str, Any],
    faults: Sequence[Mapping[str, Any]],
    seed: int,
    most_hosts: int | None = None,
) -> dict[str, Any]:
    """Judge a grid of settings on the same telemetry, each as a run of its own in MLflow."""
    chosen = parse_grid(grid)
    parse_range(start, end)
    known = [dict(fault) for fault in faults]
    plan = run.call(
        plan_comparison,
        store=store,
        host=host,
        start=start,
        end=end,
        fit_start=fit_start,
        fit_end=fit_end,
        faults=known,
        most_hosts=most_hosts,
        seed=seed,
    )
    hosts = plan["hosts"]
    common = {"tracking_uri": tracking_uri}
    parent = run.call(
        begin_comparison,
        **common,
        hardware_class=plan["hardware_class"],
        hosts=hosts,
        grid=dict(grid),
        faults=known,
        seed=seed,
        flow_run_id=run.run_id,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="reveal-compare-") as folder:
            prepared = run.map(
                prepare_host,
                [
                    {
                        "store": store,
                        "folder": folder,
                        "number": number,
                        "plan": one,
                        "count": chosen.perturbations,
                        "seed": seed,
                        "faults": known,
                    }
                    for number, one in enumerate(hosts)
                ],
            )
            shared = combinations_of(setting.profile for setting in chosen.settings)
            calls = [{"folder": folder, "hosts": hosts, "profile": profile} for profile in shared.values()]
            costs = {one["combination"]: one for one in run.map(prepare_windows, calls)}
            results = run.map(
                compare_setting,
                [
                    {
                        **common,
                        "parent": parent,
                        "folder": folder,
                        "hosts": hosts,
                        "name": setting.name,
                        "given": setting.given,
                        "profile": setting.profile.to_dict(),
                        "features": costs[combination(setting.profile)],
                        "repeats": chosen.repeats,
                        "seed": seed,
                        "faults": known,
                    }
                    for setting in chosen.settings
                ],
            )
        return dict(
            run.call(
                finish_comparison,
                **common,
                parent=parent,
                hosts=hosts,
                grid=dict(grid),
                results=results,
                notes=[one["note"] for one in prepared if one["note"]],
            )
        )
    except BaseException as error:
        try:
            abandon_comparison(tracking_uri, parent=parent)
        except UnavailableError as second:
            error.add_note(str(second))
        raise
