"""A segment that several simulated hosts have, under the name of each: so it is encoded only once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reveal_core.segment import FACTS_KEY, Segment

_FOOTER_TAIL = 8
"""Bytes after a Parquet footer: its length and the magic number."""


class Copied:
    """A segment that other hosts have too.

    Samples, times and the channel table stay as they are. Host, boot and facts stand as plain text in the
    file's footer, in a text of the same length.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        length = int.from_bytes(segment.data[-_FOOTER_TAIL:-4], "little")
        split = len(segment.data) - _FOOTER_TAIL - length
        self._body, self._footer = segment.data[:split], segment.data[split:]
        metadata = pq.read_metadata(pa.BufferReader(segment.data)).metadata or {}
        self._head = metadata[FACTS_KEY]

    def as_host(self, host: str, boot: str, facts: Mapping[str, Any]) -> Segment:
        """Return the segment of another host.

        Raises
        ------
        ValueError
            If the other host's name and facts take more or less room.
        """
        said = {**json.loads(self._head), "host": host, "boot": boot, "facts": dict(facts)}
        head = json.dumps(said, separators=(",", ":"), sort_keys=True).encode()
        if len(head) != len(self._head) or self._footer.count(self._head) != 1:
            raise ValueError(f"what {host} is does not fit into the place of {self._segment.host}")
        data = self._body + self._footer.replace(self._head, head)
        return replace(self._segment, host=host, boot=boot, data=data)
