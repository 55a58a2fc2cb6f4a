"""The investigating stage: one host and one range, in depth, without a registered model."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from reveal_core.incidents import iso
from reveal_core.timespec import parse_time
from tasks.planning import read_host
from tasks.publishing import analysed_input, model_info, put_report
from tasks.scoring import save_analysis

if TYPE_CHECKING:
    from storage.store import Store

RECENT, DENSE = timedelta(minutes=10), timedelta(minutes=10)
"""What ended longer ago is over, and asking its host for more detail would not show it; so long it is asked
for."""
TRANSDUCTIVE = (
    "No baseline was given, so the model learned from the range that it then judged: "
    "it shows what differs within the range, and misses what was wrong throughout."
)


def investigate_host(
    store: str,
    *,
    report_id: str,
    plan: dict[str, str],
    baseline: dict[str, str] | None,
    profile: str,
    overrides: Mapping[str, Any],
    seed: int,
    command: str,
) -> dict[str, Any]:
    """Comparing with the baseline.

    Parameters
    ----------
    store
        Where telemetry is read and the results are put.
    report_id
        What the report is called; the same id again replaces it, so a retry is harmless.
    plan, baseline
        Host and range to judge, and range to learn from, from `tasks.planning`; the range itself if None.
    profile, overrides, seed
        Method settings.
    command
        The command that makes the report again.

    Returns
    -------
    dict
        As `tasks.publishing.publish_report`.

    Raises
    ------
    UsageError
        If there is too little telemetry to learn from.
    UnavailableError
        If the store cannot be reached.
    """
    from reveal_core.method import analyse, fit_model
    from reveal_core.profiles import load_profile
    from storage.store import Store

    settings = load_profile(profile, overrides)
    target = Store(store)
    healthy = read_host(target, baseline or plan, warm_up=False)
    fitted = fit_model([healthy.telemetry], settings, seed=seed)
    read = read_host(target, plan, warm_up=True)
    start, end = parse_time(plan["start"]), parse_time(plan["end"])
    analysis = analyse(fitted, read.telemetry, start=start, end=end)
    result = save_analysis(target, f"investigate@{report_id}", analysis, read)
    host = analysed_input(analysis, read, start=start, end=end)
    learned = f"{baseline['start']} to {baseline['end']}" if baseline else "the range itself"
    asked = ask_denser(target, plan["host"], end, read.telemetry.facts)
    notes = [
        *asked,
        *result["notes"],
        f"Fitted for this investigation on {learned}; the model was not registered.",
    ]
    return put_report(
        target,
        report_id=report_id,
        title=f"Investigation of {plan['host']}",
        hosts=[host],
        model=model_info(fitted, name="investigation", version="", alias=""),
        injected=[],
        notes=notes if baseline else [TRANSDUCTIVE, *notes],
        quarantined=list({item["key"]: item for item in result["quarantined"]}.values()),
        command=command,
    )


def ask_denser(target: Store, host: str, end: datetime, facts: Mapping[str, Any]) -> list[str]:
    """Ask a host that samples sparsely while it is calm for dense samples, if what is looked at is recent.

    Returns
    -------
    list of str
        A note that says so; empty where nothing was asked for.
    """
    now = datetime.now(UTC)
    if facts.get("interval") != "adaptive" or now - end > RECENT:
        return []
    until = now + DENSE
    target.ask_dense(host, until)
    return [f"{host} was asked to sample densely until {iso(until)}: what comes shows more detail."]
