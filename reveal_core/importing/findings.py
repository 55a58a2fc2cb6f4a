"""What an import has to say: what was left out and why, what was decided, what has no catalogue entry."""

from __future__ import annotations

from dataclasses import dataclass

MOST_ENTRIES = 1000
"""Entries of a list that are told apart; beyond, they are only counted."""
_LONGEST_DETAIL = 60


@dataclass
class _Skipped:
    line: int | None
    detail: str
    count: int


class Findings:
    """Collects what an import met, in bounded memory: what happens again at the same place is counted.

    Attributes
    ----------
    where
        What is read at present, for messages.
    """

    def __init__(self) -> None:
        self.where = ""
        self._skipped: dict[tuple[str, str], _Skipped] = {}
        self._more = 0
        self._notes: dict[str, int] = {}
        self._unmapped: dict[str, str] = {}

    def skip(
        self, reason: str, *, item: str = "", line: int | None = None, detail: str = "", count: int = 1
    ) -> None:
        """Say that something is not in the store.

        Parameters
        ----------
        reason
            Why, the same words for the same reason.
        item
            What; the file or part that is read at present if not given.
        line
            Line of the file, counted from 1.
        detail
            What stood there the first time.
        count
            How many rows, columns or samples.
        """
        key = item or self.where, reason
        known = self._skipped.get(key)
        if known is not None:
            known.count += count
        elif len(self._skipped) < MOST_ENTRIES:
            self._skipped[key] = _Skipped(line, " ".join(detail.split())[:_LONGEST_DETAIL], count)
        else:
            self._more += count

    def note(self, text: str) -> None:
        """Say what was decided where the source leaves room for more than one reading."""
        if text in self._notes or len(self._notes) < MOST_ENTRIES:
            self._notes[text] = self._notes.get(text, 0) + 1

    def unmapped(self, column: str, metric: str) -> None:
        """Say under which metric a column is kept that the catalogue does not know."""
        if len(self._unmapped) < MOST_ENTRIES:
            self._unmapped.setdefault(metric, column)

    @property
    def skipped(self) -> list[dict[str, str]]:
        """What is not in the store: ``item`` and ``reason``, in the order in which it was met."""
        entries = [
            {
                "item": _item(item, entry),
                "reason": f"{reason} (first: {entry.detail!r})" if entry.detail else reason,
            }
            for (item, reason), entry in self._skipped.items()
        ]
        if self._more:
            entries.append(
                {"item": f"{self._more} more", "reason": "of these or other kinds, not listed one by one"}
            )
        return entries

    @property
    def notes(self) -> list[str]:
        """What was decided, each once, with how often."""
        return [text if count == 1 else f"{text} ({count} times)" for text, count in self._notes.items()]

    @property
    def kept_as(self) -> list[dict[str, str]]:
        """Columns that the catalogue does not know: ``column`` and the ``metric`` that holds them."""
        return [{"column": column, "metric": metric} for metric, column in sorted(self._unmapped.items())]


def _item(item: str, entry: _Skipped) -> str:
    place = item if entry.line is None else f"{item}, line {entry.line}"
    return place if entry.count == 1 else f"{place}, and {entry.count - 1} more"
