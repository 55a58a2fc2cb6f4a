"""What a host's past in the store says of its threshold, and whether it is held as another regime."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reveal_core.errors import UsageError
from reveal_core.incidents import iso
from reveal_core.regimes import CALM_S, Regime, find_regime, last_strange
from reveal_core.timespec import from_ns, to_ns
from tasks.tracking import ModelRef

if TYPE_CHECKING:
    import polars as pl

    from reveal_core.detect.following import Follower
    from reveal_core.model import RevealModel
    from reveal_core.scores import Scores
    from storage.store import Store

HOUR = timedelta(hours=1)


def follower_of(
    target: Store, fitted: RevealModel, reference: ModelRef, host: str, start: datetime, end: datetime
) -> Follower | None:
    """Return what sets a host's threshold over a range; None where the model's profile has no budget.

    An hour's threshold is set by the first run that scores a window of it and read back by later ones: only
    the first reads days of scores.
    """
    from reveal_core.detect.following import Follower, Past
    from reveal_core.profiles import profile_from

    profile = profile_from(fitted.profile)
    if profile.threshold != "budget":
        return None
    regime = target.read_regime(reference.name, host)
    frozen = regime.since if regime is not None and regime.held else None
    hour = start.replace(minute=0, second=0, microsecond=0)
    memory = timedelta(days=profile.memory_days)
    known: dict[int, float] = {}
    past = target.read_past(reference.name, host, hour, start) if start > hour else None
    if past is not None:
        same = past.filter(past["version"] == int(reference.version))
        known = {to_ns(hour): float(same["threshold"][-1])} if same.height else {}
    if past is None or not known or end > hour + HOUR:
        since = min(hour, frozen or hour) - memory
        past = target.read_past(reference.name, host, since, start)
    watched = past.filter(past["coverage"] > 0.0)
    return Follower(
        past=Past(watched["start"].dt.epoch("ns").to_numpy(), watched["fused"].to_numpy()),
        own=fitted.threshold,
        budget_per_day=profile.alarm_budget,
        margin=profile.margin,
        memory_s=memory.total_seconds(),
        frozen_ns=to_ns(frozen) if frozen is not None else None,
        known=known,
    )


def follow_regime(
    target: Store, fitted: RevealModel, reference: ModelRef, host: str, scores: Scores
) -> Regime | None:
    """Return the regime that a host is held in after these scores, having stored what changed.

    Called once the scores are stored. A regime that is over, or was acknowledged, stays in the store until
    another begins.
    """
    from reveal_core.profiles import profile_from

    profile = profile_from(fitted.profile)
    if profile.threshold != "budget" or not scores.frame.height:
        return None
    end = scores.frame["start"][-1] + timedelta(seconds=profile.stride_s)
    known = target.read_regime(reference.name, host)
    open_ = known is not None and known.until is None and known.since < end
    if not open_ and not _strange(scores.frame)[-round(CALM_S / profile.stride_s) :].any():
        return None
    reach = timedelta(seconds=2.0 * profile.hold_s)
    since = min(end - reach, known.since) if open_ and known is not None else end - reach
    past = target.read_past(reference.name, host, since, end)
    times, strange = past["start"].dt.epoch("ns").to_numpy(), _strange(past)
    if open_ and known is not None:
        until = last_strange(times, strange, known.since)
        if until is not None:
            target.put_regime(Regime(**{**vars(known), "until": until}))
            return None
        return known if known.held else None
    begun = find_regime(times, strange, profile.hold_s)
    if begun is None:
        return None
    regime = Regime(host, reference.name, from_ns(begun))
    if known is not None and known.until is not None and regime.since <= known.until:
        return None  # these are the windows of one that is over: an old range was scored again
    target.put_regime(regime)
    return regime


def regime_note(regime: Regime) -> str:
    """Return a regime as a sentence of a report."""
    return (
        f"{regime.host} has been out of its habits since {iso(regime.since)} and is held as another regime: "
        "its threshold learns no more until the alarm is over or somebody accepts the change as normal with "
        f"reveal regimes acknowledge --host {regime.host}."
    )


def _strange(frame: pl.DataFrame) -> NDArray[np.bool_]:
    return np.asarray((frame["fused"] > frame["threshold"]).to_numpy())


def list_regimes(store: str) -> list[dict[str, Any]]:
    """Return the newest regime of every host that ever had one.

    Returns
    -------
    list of dict
        Fields of `reveal_core.regimes.Regime`, and ``held``.

    Raises
    ------
    UnavailableError
        If the store cannot be reached.
    """
    from storage.store import Store

    source = Store(store)
    source.check()
    return [{**regime.to_dict(), "held": regime.held} for regime in source.regimes()]


def acknowledge_regimes(store: str, *, host: str, why: str) -> list[dict[str, Any]]:
    """Accept the changes of hosts as their new normal: the threshold then learns from what came after.

    Parameters
    ----------
    store
        Root of the store.
    host
        A host's label, or a shell pattern over labels.
    why
        The reason, for whoever asks later.

    Returns
    -------
    list of dict
        Those acknowledged, as `list_regimes`.

    Raises
    ------
    UsageError
        If no such host is held.
    UnavailableError
        If the store cannot be reached or written.
    """
    from storage.store import Store

    target = Store(store)
    target.check(write=True)
    held = [regime for regime in target.regimes() if regime.held]
    chosen = [regime for regime in held if fnmatchcase(regime.host, host)]
    if not chosen:
        names = ", ".join(sorted({regime.host for regime in held})) or "none"
        raise UsageError(f"no host {host!r} is held in store {store}; held are: {names}")
    now = datetime.now(UTC)
    done = [regime.acknowledge(now, getpass.getuser(), why) for regime in chosen]
    for regime in done:
        target.put_regime(regime)
    return [{**regime.to_dict(), "held": regime.held} for regime in done]
