"""What people said of incidents: that they were real, false, or known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from reveal_core.incidents import iso

Verdict = Literal["real", "false", "known"]
VERDICTS: tuple[str, ...] = get_args(Verdict)
"""``real``: something was wrong. ``false``: nothing was. ``known``: understood, and not to be told again."""


@dataclass(frozen=True)
class Label:
    """What a person said of an incident.

    Attributes
    ----------
    host, incident, fingerprint
        Which one, and what kind it is of: later incidents of the host that are of the same kind are not told
        of if it was false or is known.
    verdict
        One of `VERDICTS`.
    start, end
        When the incident was on.
    subsystem, cause
        How it was explained, ``""`` for no cause: so that it can be counted what is right how often.
    by, at, why
        Who said so, when, and the reason.
    """

    host: str
    incident: str
    fingerprint: str
    verdict: Verdict
    start: datetime
    end: datetime
    subsystem: str
    cause: str
    by: str
    at: datetime
    why: str = ""

    @property
    def quiets(self) -> bool:
        """Whether the same again is not told of."""
        return self.verdict in ("false", "known")

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values; times are ISO 8601 in UTC."""
        return {
            name: iso(value) if isinstance(value, datetime) else value for name, value in asdict(self).items()
        }


def newest(labels: Iterable[Label]) -> dict[tuple[str, str], Label]:
    """Return the label that was given last, by host and fingerprint."""
    return {(label.host, label.fingerprint): label for label in sorted(labels, key=lambda label: label.at)}
