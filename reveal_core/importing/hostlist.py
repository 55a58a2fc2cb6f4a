"""Lists of hosts as schedulers write them in short: ``node[01-03,07],gpu1``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from reveal_core.errors import UsageError

MOST_HOSTS = 100_000
"""A list of more hosts is taken for a mistake."""

_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


def expand_hosts(text: str, where: str) -> tuple[str, ...]:
    """Return the hosts of a list in the order in which they stand, each once.

    A name may hold several pairs of brackets. Numbers are as wide as the first of their range is written.

    Parameters
    ----------
    text
        The list; blanks around its items do not count.
    where
        Begins the line of an error.

    Raises
    ------
    UsageError
        If it names no host, is not written as a list, or names more than `MOST_HOSTS`.

    Examples
    --------
    >>> expand_hosts("node[01-03,07],gpu1", "a list")
    ('node01', 'node02', 'node03', 'node07', 'gpu1')
    >>> expand_hosts("r[1-2]n[8-10]-ib", "a list")[:4]
    ('r1n8-ib', 'r1n9-ib', 'r1n10-ib', 'r2n8-ib')
    """
    found: dict[str, None] = {}
    for item in _items(text, where):
        parts = _parts(item, text, where)
        count = 1
        for part in parts:
            count *= len(part)
        if count + len(found) > MOST_HOSTS:
            raise UsageError(f"{where}: {_shown(text)} names more than {MOST_HOSTS} hosts")
        found.update(dict.fromkeys("".join(pieces) for pieces in product(*parts)))
    if not found:
        raise UsageError(f"{where}: no host is named")
    return tuple(found)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


def _items(text: str, where: str) -> Iterator[str]:
    """Yield the items of a list, which commas part that are not within brackets."""
    depth, begin = 0, 0
    for place, sign in enumerate(f"{text},"):
        depth += {"[": 1, "]": -1}.get(sign, 0)
        if depth not in (0, 1):
            break
        if sign == "," and depth == 0:
            item = text[begin:place].strip()
            begin = place + 1
            if item:
                yield item
    if depth != 0:
        raise UsageError(f"{where}: the brackets of {_shown(text)} do not fit")


def _parts(item: str, text: str, where: str) -> list[list[str]]:
    """Return what stands outside of brackets, as lists of one, and the numbers of each pair of brackets."""
    parts: list[list[str]] = []
    for number, piece in enumerate(re.split(r"\[([^\[\]]*)\]", item)):
        if number % 2 == 0:
            if any(sign.isspace() for sign in piece):
                raise UsageError(f"{where}: there is a blank within a name of {_shown(text)}")
            parts.append([piece])
            continue
        names: list[str] = []
        for some in piece.split(","):
            match = _RANGE.fullmatch(some.strip())
            if match is None:
                raise UsageError(f"{where}: [{piece}] in {_shown(text)} holds no numbers and ranges")
            names += _numbers(match[1], match[2] or match[1], text, where)
        parts.append(names)
    return parts


def _numbers(first: str, last: str, text: str, where: str) -> list[str]:
    low, high = int(first), int(last)
    if high < low:
        raise UsageError(f"{where}: the range {first}-{last} in {_shown(text)} runs backwards")
    if high - low >= MOST_HOSTS:
        raise UsageError(f"{where}: {_shown(text)} names more than {MOST_HOSTS} hosts")
    return [f"{number:0{len(first)}d}" for number in range(low, high + 1)]
