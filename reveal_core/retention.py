"""How long a store keeps what, by kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta

from reveal_core.errors import UsageError
from reveal_core.timespec import parse_age


@dataclass(frozen=True)
class Retention:
    """How long each kind is kept; None for ever.

    Attributes
    ----------
    raw
        Telemetry as it was collected. What is older is down-sampled.
    telemetry
        Telemetry in either form.
    unjudged
        How much longer than `raw` or `telemetry` a stretch stays as it was collected while no run has judged
        it; None until one has.
    scores
        Scores of windows.
    incidents
        Incidents that nobody labelled, what became of them, and silences that are over.
    reports
        Reports, but the latest.
    quarantine
        Files that could not be read.
    compact_after
        How long after an hour is over its small segments are merged; None for never.
    """

    raw: timedelta | None = timedelta(days=14)
    telemetry: timedelta | None = timedelta(days=90)
    unjudged: timedelta | None = timedelta(days=7)
    scores: timedelta | None = timedelta(days=90)
    incidents: timedelta | None = timedelta(days=400)
    reports: timedelta | None = timedelta(days=90)
    quarantine: timedelta | None = timedelta(days=30)
    compact_after: timedelta | None = timedelta(hours=1)

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Retention:
        """Return it from texts as people write them: ``{"raw": "14d", "reports": "forever"}``.

        Raises
        ------
        UsageError
            If a name is none of the attributes, or a text is no duration.
        """
        known = [field.name for field in fields(cls)]
        found: dict[str, timedelta | None] = {}
        for name, text in texts.items():
            if name not in known:
                raise UsageError(f"retention.{name} is no setting: there are {', '.join(known)}")
            try:
                found[name] = parse_age(text)
            except UsageError as error:
                raise UsageError(f"retention.{name}: {error}") from error
        return cls(**found)
