"""Looking into one host after an incident, in depth."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from reveal_core.errors import UsageError
from tasks.investigating import investigate_host
from tasks.planning import parse_range, plan_hosts
from tasks.publishing import report_name
from tasks.runner import Runner
from tasks.subject import choose_baseline, find_subject


def investigate_incident(
    run: Runner,
    *,
    store: str,
    host: str | None,
    start: str | None,
    end: str | None,
    baseline_start: str | None,
    baseline_end: str | None,
    profile: str,
    overrides: Mapping[str, Any],
    seed: int,
    incident: str | None = None,
    alert: Mapping[str, Any] | None = None,
    own_baseline: bool = True,
) -> dict[str, Any]:
    """Judge one host's range against a healthy stretch, and publish a report.

    Parameters
    ----------
    run
        Runs the stages.
    store
        Where telemetry is read and the results are put.
    host, start, end
        What to look at.
    baseline_start, baseline_end
        A healthy range to compare with.
    profile, overrides, seed
        Method settings.
    incident, alert
        In place of host and range: an incident's id, or what a webhook was sent.
    own_baseline
        Without a baseline: whether one is looked for in the hour before; else, or where there is none, the
        range is compared with itself.
    """
    if (baseline_start is None) != (baseline_end is None):
        missing = "end" if baseline_end is None else "start"
        raise UsageError(f"a baseline needs a start and an end: --baseline-{missing} is missing")
    if incident is not None or alert is not None:
        if host is not None or start is not None or end is not None:
            raise UsageError("an incident says which host and when: leave out host, start and end")
        subject = run.call(find_subject, store=store, incident=incident, alert=alert)
        host, start, end = subject["host"], subject["start"], subject["end"]
    if host is None or start is None or end is None:
        raise UsageError("an investigation needs --host, --start and --end, or --incident")
    parse_range(start, end)
    parse_range(baseline_start, baseline_end)
    plan = _one_host(run.call(plan_hosts, store=store, host=host, start=start, end=end), host)
    if baseline_start is None and own_baseline:
        found = run.call(choose_baseline, store=store, host=plan["host"], start=plan["start"])
        if found is not None:
            baseline_start, baseline_end = found["start"], found["end"]
    baseline = None
    command = ["reveal", "investigate", "--store", store, "--host", plan["host"]]
    command += ["--start", plan["start"], "--end", plan["end"], "--profile", profile, "--seed", str(seed)]
    if baseline_start is not None:
        baseline = run.call(
            plan_hosts, store=store, host=plan["host"], start=baseline_start, end=baseline_end
        )[0]
        command += ["--baseline-start", baseline["start"], "--baseline-end", baseline["end"]]
    else:
        command += ["--baseline", "none"]
    document = run.call(
        investigate_host,
        store=store,
        report_id=report_name("investigate", datetime.now(UTC), *command),
        plan=plan,
        baseline=baseline,
        profile=profile,
        overrides=dict(overrides),
        seed=seed,
        command=shlex.join(command),
    )
    return dict(document)


def _one_host(plans: Sequence[dict[str, str]], pattern: str) -> dict[str, str]:
    if len(plans) > 1:
        names = ", ".join(plan["host"] for plan in plans[:8])
        raise UsageError(f"{pattern!r} matches {len(plans)} hosts ({names}): an investigation is of one")
    return plans[0]
