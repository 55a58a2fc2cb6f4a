"""Faults that this machine cannot have, replayed over a store's healthy telemetry, and judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from reveal_core.incidents import iso
from reveal_core.timespec import parse_time
from tasks.planning import hardware_class, parse_range, plan_hosts, read_host

LEARNED_SHARE = 0.4
"""Share of the range that a model is fitted on; faults are replayed in the rest."""


def replay_faults(
    store: str,
    *,
    host: str,
    start: str | None,
    end: str | None,
    profile: str,
    overrides: Mapping[str, Any],
    count: int,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Fit a model on the beginning of a recording, replay faults in the rest of a copy, and judge them.

    Parameters
    ----------
    store, host, start, end
        As `tasks.planning.plan_hosts`; the first host that matches is taken.
    profile, overrides
        Method settings.
    count
        Faults, as far as they fit one after another.
    seed
        Of what is drawn at random, and of the fit.
    say
        Told what is going on.

    Returns
    -------
    dict
        ``replayed`` (True), ``runs`` and ``summary`` as a campaign's, each run with ``replayed``; ``pieces``
        and ``recording``: ``store``, ``host``, ``start``, ``judged_from``, ``end``, ``profile``,
        ``hardware_class`` and ``seconds``.

    Raises
    ------
    UsageError
        If there is no telemetry or too little of it.
    UnavailableError
        If the store cannot be reached.
    """
    from reveal_core.evaluate.campaign import judge_pieces
    from reveal_core.evaluate.campaign_summary import summarise
    from reveal_core.evaluate.replayed import judged_replay, place, replay
    from reveal_core.evaluate.replayed_devices import add_devices
    from reveal_core.method import analyse, build_series, fit_model
    from reveal_core.profiles import load_profile
    from reveal_core.telemetry import Telemetry
    from storage.store import Store

    began = time.perf_counter()
    parse_range(start, end)
    settings = load_profile(profile, overrides)
    plan = plan_hosts(store, host=host, start=start, end=end)[0]
    say(f"reading {plan['host']}")
    recorded = read_host(Store(store), plan, warm_up=False).telemetry
    first, last = parse_time(plan["start"]), parse_time(plan["end"])
    split = first + timedelta(seconds=LEARNED_SHARE * (last - first).total_seconds())
    faults = place(split, last, count, seed)
    telemetry = add_devices(recorded, build_series(recorded), seed)
    written = replay(telemetry, faults)
    say("fitting")
    early = telemetry.frame.filter(telemetry.frame["ts"] < split)
    learned = Telemetry(telemetry.host, early, telemetry.channels, telemetry.facts)
    model = fit_model([learned], settings, seed=seed)
    say(f"judging {len(faults)} faults")
    found = analyse(model, written, start=split, end=last)
    piece = judged_replay(written, faults, found.incidents, start=split, end=last, seed=seed)
    runs, lines = judge_pieces([piece])
    return {
        "replayed": True,
        "runs": [{**run.to_dict(), "replayed": True} for run in runs],
        # Targets are for real faults.
        "summary": {name: part for name, part in summarise(runs, lines).items() if name != "targets"},
        "pieces": lines,
        "recording": {
            "store": store,
            "host": plan["host"],
            "start": plan["start"],
            "judged_from": iso(split),
            "end": plan["end"],
            "profile": settings.name,
            "seed": seed,
            "hardware_class": hardware_class(telemetry.facts),
            "seconds": round(time.perf_counter() - began, 1),
        },
    }
