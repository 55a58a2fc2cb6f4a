"""The HTTP side of an import from Prometheus: asks gently, waits, and says what went wrong."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.importing.prometheus_answers import AnswerError, data_of
from tasks.prometheus_access import SECRETS, Access, is_local

if TYPE_CHECKING:
    from requests import Response

PATIENCE_S = 10.0, 180.0
"""How long a connection, and each part of an answer, is waited for; Prometheus may take two minutes."""
TRIES = 6
LONGEST_WAIT_S = 300.0
"""A server that asks to be left alone for longer is not waited for."""
MOST_BYTES = 32 << 20
"""An answer that is larger is asked for in two halves."""
PIECE_BYTES = 1 << 20
_HEALING = (429, 502, 503, 504)
_ERRNO = re.compile(r"\[Errno -?\d+\] ([^'\")\]]+)")
_CERTIFICATE = re.compile(r"certificate verify failed: ([^('\"]+)")
_TLS = re.compile(r"\[\w+: (\w+)\]")
_SAID = 120
"""Characters of a text that is no answer of the API's."""


class TooMuchError(Exception):
    """The server cannot give so much at once; half of it may do."""


def seconds_of(ms: int) -> str:
    """Return a time in ms since 1970 as the API takes it, exactly.

    >>> seconds_of(1_764_446_400_123)
    '1764446400.123'
    """
    return f"{ms // 1000}.{ms % 1000:03d}"


class PrometheusServer:
    """A server, asked by as many threads as one likes.

    Every method returns an answer's body, and raises UnavailableError if the server cannot be reached or
    refuses, UsageError if it takes the question for wrong, and TooMuchError if the answer is too much for it.

    Parameters
    ----------
    url
        From `tasks.prometheus_access.server_url`.
    access
        How it is entered.
    connections
        Requests at once.
    say
        Told when it is waited for.
    wait
        Waits so many seconds; until `close` if not given.
    patience_s
        For a connection, and for each part of an answer.

    Raises
    ------
    UsageError
        If ``access`` does not fit together.
    """

    def __init__(
        self,
        url: str,
        access: Access,
        *,
        connections: int = 2,
        say: Callable[[str], None] = lambda _: None,
        wait: Callable[[float], object] | None = None,
        patience_s: tuple[float, float] = PATIENCE_S,
    ) -> None:
        import requests
        from requests.adapters import HTTPAdapter

        access.check(url)
        self.url = url
        self.access = access
        self.say = say
        self._closed = threading.Event()
        self._at_once = threading.BoundedSemaphore(connections)
        self.wait = wait or self._closed.wait
        self.patience_s = patience_s
        self._reached = False
        self._session = requests.Session()
        adapter = HTTPAdapter(pool_maxsize=connections)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        self._session.auth = access.enter
        self._session.headers.update({"User-Agent": "reveal", "Accept": "application/json"})
        if is_local(url):
            # Packing costs both sides more than the bytes do where there is no network between them.
            self._session.headers["Accept-Encoding"] = "identity"
        if access.insecure:
            import urllib3

            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # the import says it itself

    def label_values(self, label: str, selector: str, start: int, end: int) -> bytes:
        """Return the answer with a label's values among the series of [``start``, ``end``), in ms."""
        fields = {"match[]": selector, "start": seconds_of(start), "end": seconds_of(end)}
        return self._ask("GET", f"/api/v1/label/{label}/values", fields)

    def samples(self, selector: str, start: int, end: int) -> bytes:
        """Return the answer with every sample of series in [``start``, ``end``), in ms since 1970.

        A selector with a range, evaluated once, gives the samples as they were scraped, with their own times.
        Version 3 leaves out what lies on the beginning of the range, so it begins 1 ms before ``start``.
        """
        query = f"{selector}[{end - start}ms]"
        return self._ask("POST", "/api/v1/query", {"query": query, "time": seconds_of(end - 1)})

    def metadata(self) -> bytes:
        """Return the answer with the kind of each metric."""
        return self._ask("GET", "/api/v1/metadata", {})

    def close(self) -> None:
        """Close the connections; requests that wait for the server to heal are given up."""
        self._closed.set()
        self._session.close()

    def _ask(self, method: str, path: str, fields: Mapping[str, str]) -> bytes:
        """Ask until there is an answer, at most `TRIES` times."""
        import requests

        problem = ""
        for number in range(TRIES):
            delay = float(2**number)
            try:
                status, headers, body = self._once(method, path, fields)
            except requests.exceptions.SSLError as error:
                raise UnavailableError(f"{self.url}: no connection by TLS: {_why(error)}") from error
            except requests.RequestException as error:
                problem = _why(error)
                if not self._reached:  # a wrong address does not heal
                    raise UnavailableError(f"{self.url} cannot be reached: {problem}") from error
            else:
                self._reached = True
                if status in _HEALING:
                    problem, delay = self._healing(status, headers, body, delay)
                elif status != 200:
                    raise self._refusal(status, headers, body)
                elif body.rstrip().endswith(b"}"):
                    return body
                else:
                    problem = "its answer is cut off"
            if number + 1 == TRIES or self._closed.is_set():
                break
            self.say(f"{self.url}: {problem}; trying again in {delay:g} s")
            self.wait(delay)
        raise UnavailableError(f"{self.url}: {problem}, {TRIES} times in a row")

    def _once(
        self, method: str, path: str, fields: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        with (
            self._at_once,
            self._session.request(
                method,
                f"{self.url}{path}",
                params=fields if method == "GET" else None,
                data=fields if method == "POST" else None,
                timeout=self.patience_s,
                allow_redirects=False,
                stream=True,
                verify=self.access.verify,
                cert=self.access.certificate,
            ) as answer,
        ):
            return answer.status_code, answer.headers, self._body(answer)

    def _body(self, answer: Response) -> bytes:
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip()
        if answer.status_code == 200 and kind != "application/json":
            said = kind or "something that it gives no kind of"
            raise UnavailableError(f"{self.url} answers with {said} and not with JSON: is the address right?")
        pieces, size = [], 0
        for piece in answer.iter_content(PIECE_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_BYTES:
                raise TooMuchError(f"the answer is larger than {MOST_BYTES >> 20} MiB")
        return b"".join(pieces)

    def _healing(
        self, status: int, headers: Mapping[str, str], body: bytes, delay: float
    ) -> tuple[str, float]:
        """Return what the problem is, and how long to wait."""
        kind, said = _error_of(body)
        if kind in ("timeout", "canceled"):
            raise TooMuchError(said)
        asked = _retry_after(headers.get("Retry-After", ""))
        if asked is not None and asked > LONGEST_WAIT_S:
            raise UnavailableError(f"{self.url} answers {status} and asks to come back in {asked:.0f} s")
        return f"it answers {status} {said}".rstrip(), delay if asked is None else asked

    def _refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> Exception:
        kind, said = _error_of(body)
        if status in (401, 403):
            given = "it does not take what was given" if self.access.secret else SECRETS
            return UnavailableError(f"{self.url} refuses ({status}): {given}")
        if 300 <= status < 400:
            where = headers.get("Location", "nowhere").partition("?")[0]
            return UsageError(f"{self.url} sends on to {where}: give the address that it leads to")
        if status in (413, 422):
            return TooMuchError(said or f"it answers {status}")
        if status == 400 and kind:
            return UsageError(f"{self.url} does not take the question: {said}")
        if status in (404, 405):
            return UsageError(f"{self.url} has no Prometheus API: it answers {status}; is the address right?")
        return UnavailableError(f"{self.url} refuses ({status}): {said}")


def _error_of(body: bytes) -> tuple[str, str]:
    """Return kind and text of an error; the beginning of what was said where it is none of the API's."""
    try:
        data_of(body)
    except AnswerError as error:
        if error.kind:
            return error.kind, str(error)
    plain = re.sub(r"<[^>]*>", " ", body[:2000].decode("utf-8", "replace"))
    return "", " ".join(plain.split())[:_SAID]


def _retry_after(text: str) -> float | None:
    """Return the seconds that a server asks to be left alone; it says a number or a time.

    >>> _retry_after("7"), _retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), _retry_after("later")
    (7.0, 0.0, None)
    """
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        moment: Any = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())


def _why(error: Exception) -> str:
    """Return the reason of a failed request in a few words."""
    import requests

    text = str(error)
    if isinstance(error, requests.Timeout) or "timed out" in text:
        return "no answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "its answer is cut off"
    found = _ERRNO.search(text)
    if found is not None:
        return found[1].strip()
    if isinstance(error, requests.exceptions.SSLError):
        said = _CERTIFICATE.search(text) or _TLS.search(text)
        if said is not None:
            return said[1].strip()
    return "the connection was cut" if "Connection aborted" in text else type(error).__name__
