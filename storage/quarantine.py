"""Quarantine: a file that cannot be read is put aside with the reason beside it, and the run goes on."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from reveal_core.errors import UnavailableError
from storage.backend import Backend
from storage.layout import quarantine_key

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Quarantined:
    """A file that could not be read.

    Attributes
    ----------
    key
        Where it was.
    reason
        One line; it says so if the file could not be moved.
    moved
        Whether it now lies under ``quarantine/<key>`` with ``quarantine/<key>.reason.txt`` beside it.
    """

    key: str
    reason: str
    moved: bool


def put_aside(backend: Backend, key: str, data: bytes, reason: str) -> Quarantined:
    """Move a bad file to quarantine; leave it where it is if the store cannot be written."""
    reason = " ".join(reason.split())
    place = quarantine_key(key)
    try:
        # The original goes last: after a kill in between, the next reader finds the file again.
        backend.write(f"{place}.reason.txt", f"{reason}\n".encode())
        backend.write(place, data)
        backend.remove(key)
    except UnavailableError as error:
        logger.warning("%s cannot be read (%s) and stays where it is: %s", key, reason, error)
        return Quarantined(key, f"{reason}; left in place: {error}", moved=False)
    logger.warning("%s cannot be read (%s): moved to %s", key, reason, place)
    return Quarantined(key, reason, moved=True)
