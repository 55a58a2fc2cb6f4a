"""Answers of the Prometheus HTTP API: raw samples of series, and lists of names.

Its documented form: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from reveal_core.importing.findings import Findings
from reveal_core.importing.prometheus_names import NAME
from reveal_core.importing.types import Floats, Ints

MS = 1_000_000
"""Nanoseconds of a millisecond, the resolution of Prometheus' times."""
_FIRST_S, _LAST_S = 31_536_000, 7_258_118_400  # 1971 and 2200


class AnswerError(Exception):
    """An answer that holds no data.

    Attributes
    ----------
    kind
        What Prometheus calls it (``bad_data``, ``execution``, ``timeout`` …); ``""`` where the answer is none
        of the API's.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(" ".join(text.split()) or kind)
        self.kind = kind


@dataclass(frozen=True, eq=False, slots=True)
class RawSeries:
    """Samples of a series, as they were scraped.

    Attributes
    ----------
    labels
        Its name among them.
    ts
        UTC, ns since 1970, rising; shape (n,). Series of the same times share the array.
    values
        Shape (n,); may hold NaN and infinities.
    """

    labels: Mapping[str, str]
    ts: Ints
    values: Floats


def data_of(body: bytes) -> tuple[Any, list[str]]:
    """Return an answer's data, and the warnings that came with it.

    Raises
    ------
    AnswerError
        If it is an error, or none of the API's answers.
    """
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise AnswerError("", f"it is no JSON, or cut off: {error}") from error
    status = answer.get("status") if isinstance(answer, dict) else None
    if status == "error":
        raise AnswerError(str(answer.get("errorType") or "error"), str(answer.get("error") or ""))
    if status != "success" or "data" not in answer:
        raise AnswerError("", "it is JSON, but no answer of the Prometheus API")
    warnings = answer.get("warnings")
    told = [str(one) for one in warnings] if isinstance(warnings, list) else []
    return answer["data"], told


def names_of(body: bytes) -> tuple[list[str], list[str]]:
    """Return the values of an answer to a question for label values, and its warnings.

    Raises
    ------
    AnswerError
        If there are none.
    """
    data, told = data_of(body)
    if data is None:  # some servers say so where there is nothing
        return [], told
    if not isinstance(data, list) or not all(isinstance(one, str) for one in data):
        raise AnswerError("", "it holds no list of names")
    return data, told


def kinds_of(body: bytes) -> dict[str, str]:
    """Return the kind of each metric, from an answer to a question for metadata.

    Raises
    ------
    AnswerError
        If it holds none.
    """
    data, _ = data_of(body)
    if not isinstance(data, dict):
        raise AnswerError("", "it holds no metadata")
    found = {}
    for name, entries in data.items():
        listed = entries if isinstance(entries, list) else []
        kinds = {str(entry.get("type")) for entry in listed if isinstance(entry, dict)}
        found[name] = kinds.pop() if len(kinds) == 1 else "unknown"
    return found


def series_of(body: bytes, findings: Findings) -> Iterator[RawSeries]:
    """Yield the series of an answer to a question with a range.

    Samples that are none are told and left out, one by one; so are samples of a time that the series had
    already.

    Raises
    ------
    AnswerError
        If the answer holds no series of samples.
    """
    data, told = data_of(body)
    for warning in told:
        findings.note(f"the server warns: {warning}")
    if not isinstance(data, dict) or data.get("resultType") != "matrix":
        raise AnswerError("", "it holds no samples over a range")
    result = data.get("result")
    if not isinstance(result, list):
        raise AnswerError("", "it holds no samples over a range")
    reader = _Samples(findings)
    for entry in result:
        labels = entry.get("metric") if isinstance(entry, dict) else None
        if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
            findings.skip("series without labels")
            continue
        if entry.get("histograms"):
            findings.skip("native histograms are not read", item=labels.get(NAME, ""))
        pairs = entry.get("values", [])
        if not isinstance(pairs, list):
            findings.skip("series whose samples are no list", item=labels.get(NAME, ""))
        elif pairs:
            ts, values = reader.read(labels.get(NAME, ""), pairs)
            if len(ts):
                yield RawSeries(labels, ts, values)


class _Samples:
    """Turns pairs of time and text into arrays; series that were scraped together get one array of times."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._times: tuple[Any, ...] = ()
        self._ts: Ints = np.empty(0, dtype=np.int64)

    def read(self, name: str, pairs: Sequence[Any]) -> tuple[Ints, Floats]:
        """Return times in ns and values of one series, in order of time."""
        try:
            times, texts = zip(*pairs, strict=True)
            if times != self._times:
                self._ts = _nanoseconds(times)
                self._times = times
            return self._ts, _numbers(texts)
        except (TypeError, ValueError, OverflowError):
            self._times = ()
            return self._one_by_one(name, pairs)

    def _one_by_one(self, name: str, pairs: Sequence[Any]) -> tuple[Ints, Floats]:
        """Return the samples that are some, where at least one is none or stands out of order."""
        found: dict[int, float] = {}
        for pair in pairs:
            try:
                time, text = pair
                moment = int(_nanoseconds((time,))[0])
                value = float(text)
            except (TypeError, ValueError, OverflowError):
                self.findings.skip("samples that are none", item=name, detail=str(pair))
                continue
            if moment in found:
                self.findings.skip("samples of a time that the series has already", item=name)
            else:
                found[moment] = value
        order = sorted(found)
        values = np.array([found[moment] for moment in order], dtype=np.float64)
        return np.array(order, dtype=np.int64), values


def _numbers(texts: tuple[Any, ...]) -> Floats:
    """Return texts as numbers.

    As JSON they are read in a third of the time, but NaN and infinities are none there.
    """
    try:
        values = np.array(orjson.loads(f"[{','.join(texts)}]"), dtype=np.float64)
        if values.shape == (len(texts),):
            return values
    except (TypeError, ValueError):
        pass
    return np.fromiter(map(float, texts), np.float64, len(texts))


def _nanoseconds(times: tuple[Any, ...]) -> Ints:
    """Return times in seconds as ns, exact to the millisecond that Prometheus keeps.

    Raises
    ------
    ValueError
        If one is no time, or they do not rise.
    """
    seconds = np.array(times, dtype=np.float64)
    if seconds.ndim != 1:
        raise ValueError("a time is a list")
    if not ((seconds > _FIRST_S) & (seconds < _LAST_S)).all():
        raise ValueError("a time is before 1971, after 2199 or none")
    ts: Ints = np.rint(seconds * 1000).astype(np.int64) * MS
    if len(ts) > 1 and not (np.diff(ts) > 0).all():
        raise ValueError("times do not rise")
    return ts
