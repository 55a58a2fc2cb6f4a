"""A host that stays out of its habits: held as another regime until somebody says that it is the new normal.

A threshold that follows a host learns from what it flagged, or the rate of alarms would double. The price is
that a fault which lasts for days becomes usual and its alarm ends by itself. So an alarm that stays on for
hours is held: from then on the threshold learns no more, until a person acknowledges the change or the alarm
is over.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from reveal_core.incidents import iso
from reveal_core.timespec import from_ns, to_ns

CALM_S = 600.0
"""An alarm is over once no window has been strange for this long."""

MOSTLY = 0.5
"""An alarm stays on if at least this share of its windows is strange: one now and then is no regime."""


@dataclass(frozen=True)
class Regime:
    """A change of a host that lasts.

    Attributes
    ----------
    host, model
        Which host, and the name of the registered model that it is strange to.
    since
        When the alarm began, UTC.
    until
        When it was last strange, if it is over; None while it goes on.
    acknowledged, by, why
        When a person accepted the change as normal, who, and the reason; None and empty until then.
    """

    host: str
    model: str
    since: datetime
    until: datetime | None = None
    acknowledged: datetime | None = None
    by: str = ""
    why: str = ""

    @property
    def held(self) -> bool:
        """Whether the threshold stays where it was before the change."""
        return self.until is None and self.acknowledged is None

    def acknowledge(self, time: datetime, by: str, why: str) -> Self:
        """Return it as accepted by a person."""
        return replace(self, acknowledged=time, by=by, why=why)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values; times are ISO 8601 in UTC."""
        return {
            name: iso(value) if isinstance(value, datetime) else value for name, value in asdict(self).items()
        }


def find_regime(start_ns: NDArray[np.int64], strange: NDArray[np.bool_], hold_s: float) -> int | None:
    """Return when an alarm began that is still on and has been for long, ns since the epoch; None if none is.

    Parameters
    ----------
    start_ns
        Start of each window, ascending, shape (n,); to the present.
    strange
        Which are beyond their threshold.
    hold_s
        How long an alarm must have been on.
    """
    alarms = start_ns[strange]
    if not len(alarms) or start_ns[-1] - alarms[-1] > CALM_S * 1e9:
        return None
    gaps = np.flatnonzero(np.diff(alarms) > CALM_S * 1e9)
    first = int(alarms[gaps[-1] + 1]) if len(gaps) else int(alarms[0])
    of_alarm = start_ns >= first
    if start_ns[-1] - first < hold_s * 1e9 or strange[of_alarm].mean() < MOSTLY:
        return None
    return first


def last_strange(start_ns: NDArray[np.int64], strange: NDArray[np.bool_], since: datetime) -> datetime | None:
    """Return when a host in another regime was last strange, if that is over; None while it goes on.

    Over means calm for `CALM_S` at the end of the windows.
    """
    if not len(start_ns):
        return None
    alarms = start_ns[strange & (start_ns >= to_ns(since))]
    last = int(alarms[-1]) if len(alarms) else to_ns(since)
    calm = start_ns[-1] - last > CALM_S * 1e9
    return from_ns(last) if calm else None
