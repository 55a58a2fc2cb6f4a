"""Where OTLP requests go: over HTTP to a receiver, or into a file, a request a line."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol

import orjson
import requests
from requests.adapters import HTTPAdapter
from urllib3 import BaseHTTPResponse, Retry

from reveal_core.errors import UnavailableError
from reveal_core.exporting.otlp_access import Target, place_of

TRIES = 6
HEALING = (429, 502, 503, 504)
"""Answers after which the protocol says to try again; after others the same request fails again."""
LONGEST_WAIT_S = 300
"""Of what a receiver asks for by Retry-After."""
BACKOFF_S = 1.0
_REJECTED = {"logs": "rejectedLogRecords", "metrics": "rejectedDataPoints"}
_SAID = 200


class Sink(Protocol):
    """Somewhere that requests go."""

    def put(self, signal: str, request: Mapping[str, Any]) -> int:
        """Deliver a request of a signal, ``logs`` or ``metrics``; return how many items were rejected."""
        ...


class _Patience(Retry):
    """How often a request is sent again, and how long after."""

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """Return what the receiver asks for, at most `LONGEST_WAIT_S`."""
        asked = super().get_retry_after(response)
        return None if asked is None else min(asked, LONGEST_WAIT_S)


class Receiver:
    """A receiver of OTLP over HTTP, in the JSON encoding.

    A request that was refused for now is sent again, as the protocol says: what an answer got lost of may
    arrive twice.

    Parameters
    ----------
    targets
        By signal.
    backoff_s
        Where the receiver asks for no time, the third try comes after twice this, s, and each later one after
        twice as long as the one before.

    Attributes
    ----------
    said
        What the receiver said of items that it rejected, once each.
    """

    def __init__(self, targets: Mapping[str, Target], *, backoff_s: float = BACKOFF_S) -> None:
        retry = _Patience(
            total=None,
            connect=0,
            read=False,
            redirect=0,
            other=0,
            status=TRIES - 1,
            allowed_methods=None,
            status_forcelist=HEALING,
            backoff_factor=backoff_s,
            raise_on_status=False,
        )
        self.targets = targets
        self.said: dict[str, None] = {}
        self._session = requests.Session()
        self._session.auth = lambda request: request  # nothing of the environment (.netrc)
        self._session.headers.update({"User-Agent": "reveal", "Content-Type": "application/json"})
        self._session.mount("http://", HTTPAdapter(max_retries=retry))
        self._session.mount("https://", HTTPAdapter(max_retries=retry))

    def put(self, signal: str, request: Mapping[str, Any]) -> int:
        """See `Sink.put`.

        Raises
        ------
        UnavailableError
            If the receiver cannot be reached, does not take the request, or asks for patience too often.
        """
        target = self.targets[signal]
        body = orjson.dumps(request)
        headers = dict(target.headers)
        if target.gzip:
            body = gzip.compress(body, mtime=0)
            headers["Content-Encoding"] = "gzip"
        answer = self._post(target, body, headers)
        if answer.status_code in HEALING:
            raise UnavailableError(f"{place_of(target.url)}: {_line(answer)}, {TRIES} times in a row")
        if not 200 <= answer.status_code < 300:
            raise UnavailableError(f"{place_of(target.url)} does not take it: {_line(answer)}")
        return self._rejected(signal, answer)

    def _post(self, target: Target, body: bytes, headers: Mapping[str, str]) -> requests.Response:
        place = place_of(target.url)
        try:
            return self._session.post(
                target.url,
                data=body,
                headers=dict(headers),
                timeout=target.timeout_s,
                allow_redirects=False,
                verify=target.ca_file or True,
                cert=(target.certificate, target.key)
                if target.certificate and target.key
                else target.certificate,
            )
        except requests.Timeout as error:
            raise UnavailableError(f"{place}: no answer within {target.timeout_s:g} s") from error
        except (requests.RequestException, OSError) as error:
            raise UnavailableError(f"{place} cannot be reached: {_why(error)}") from error

    def _rejected(self, signal: str, answer: requests.Response) -> int:
        """Return how many items a receiver that took a request says it left out."""
        try:
            partial = (orjson.loads(answer.content) if answer.content else {}).get("partialSuccess") or {}
            count = int(partial.get(_REJECTED[signal]) or 0)
            said = " ".join(str(partial.get("errorMessage") or "").split())[:_SAID]
        except (AttributeError, TypeError, ValueError):  # some answer with a text, and have taken it
            return 0
        if said:
            self.said[said] = None
        return count

    def close(self) -> None:
        """Close the connections."""
        self._session.close()


class Lines:
    """A file with a request a line, as the collector's file exporter writes them."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.said: dict[str, None] = {}

    def put(self, signal: str, request: Mapping[str, Any]) -> int:
        """See `Sink.put`."""
        self.file.write(orjson.dumps(request) + b"\n")
        return 0


@contextlib.contextmanager
def lines_into(path: Path) -> Iterator[Lines]:
    """Open a file for requests, packed if its name ends in ``.gz``; after an error it is as it was before.

    Raises
    ------
    UnavailableError
        If it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with temporary.open("wb") as plain:
                if path.suffix == ".gz":
                    with gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as packed:
                        yield Lines(packed)
                else:
                    yield Lines(plain)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UnavailableError(f"{path} cannot be written: {error.strerror}") from error


def _line(answer: requests.Response) -> str:
    """Return an answer in one line: its number and the beginning of what it says."""
    text = answer.text
    try:
        message = orjson.loads(answer.content).get("message")  # a Status, as the protocol has it
        text = message if isinstance(message, str) else text
    except (AttributeError, ValueError):
        text = re.sub(r"<[^>]*>", " ", text[:2000])
    said = " ".join(text.split())[:_SAID]
    return f"{answer.status_code} {said or answer.reason or ''}".rstrip()


def _why(error: Exception) -> str:
    """Return the reason of a failed request in a few words: addresses in its text may hold secrets."""
    found = re.search(r"\[Errno -?\d+\] ([^'\")\]]+)|certificate verify failed: ([^('\"]+)", str(error))
    return (found[1] or found[2]).strip() if found else type(error).__name__
