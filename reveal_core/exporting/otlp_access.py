"""Where OTLP goes and how it is entered: by an address, or by the variables of the specification.

https://opentelemetry.io/docs/specs/otel/protocol/exporter/ has them. What is secret stands in variables and
never on the command line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reveal_core.errors import UsageError

PREFIX = "OTEL_EXPORTER_OTLP_"
"""Of the variables that are looked at."""
SIGNALS = ("logs", "metrics")
_TIMEOUT_MS = 10_000
_LONGEST_MS = 600_000
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A header's name, RFC 9110."""


@dataclass(frozen=True)
class Target:
    """Where the requests of a signal go.

    Attributes
    ----------
    url
        The whole address.
    headers
        Sent with each request; they may hold secrets.
    timeout_s
        How long an answer is waited for, s.
    gzip
        Whether requests are packed.
    ca_file
        Certificates that are trusted in place of the system's.
    certificate, key
        The client's own.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = _TIMEOUT_MS / 1000
    gzip: bool = False
    ca_file: str | None = None
    certificate: str | None = None
    key: str | None = None


def targets_of(endpoint: str | None, variables: Mapping[str, str]) -> dict[str, Target]:
    """Return the target of each signal.

    Parameters
    ----------
    endpoint
        Base address from the command line; it goes before the variables.
    variables
        Of the environment.

    Raises
    ------
    UsageError
        If no address is given, or something said is not what it should be; values are not repeated.
    """
    return {signal: _target(signal, endpoint, variables) for signal in SIGNALS}


def _target(signal: str, endpoint: str | None, variables: Mapping[str, str]) -> Target:
    def said(name: str) -> tuple[str, str]:
        """Return a variable and its value: the signal's own, else the one for all."""
        own = f"{PREFIX}{signal.upper()}_{name}"
        return (own, variables[own].strip()) if variables.get(own, "").strip() else _general(name)

    def _general(name: str) -> tuple[str, str]:
        return f"{PREFIX}{name}", variables.get(f"{PREFIX}{name}", "").strip()

    if endpoint is not None:
        url = _joined(_address("--endpoint", endpoint), signal)
    else:
        name, value = said("ENDPOINT")
        if not value:
            raise UsageError(
                f"where to is not said: give --endpoint URL or --out FILE, or set {PREFIX}ENDPOINT"
            )
        address = _address(name, value)
        # The address of a signal is taken as it stands, the one for all is a base.
        url = _joined(address, signal) if name == f"{PREFIX}ENDPOINT" else address
    return Target(
        url=url,
        headers=_headers(*said("HEADERS")),
        timeout_s=_timeout_ms(*said("TIMEOUT")) / 1000,
        gzip=_packed(*said("COMPRESSION")),
        ca_file=_file(*said("CERTIFICATE")),
        certificate=_file(*said("CLIENT_CERTIFICATE")),
        key=_file(*said("CLIENT_KEY")),
    )


def place_of(url: str) -> str:
    """Return an address without what may be secret: a query.

    >>> place_of("https://otlp.example:4318/v1/logs?key=1")
    'https://otlp.example:4318/v1/logs'
    """
    return url.partition("?")[0]


def _joined(base: str, signal: str) -> str:
    head, mark, query = base.partition("?")
    return f"{head.rstrip('/')}/v1/{signal}{mark}{query}"


def _address(name: str, text: str) -> str:
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine:
        raise UsageError(f"{name}: an address of OTLP over HTTP is expected, like http://collector:4318")
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"{name}: an address must hold no user or password: set {PREFIX}HEADERS")
    return text


def _headers(name: str, text: str) -> dict[str, str]:
    """Return headers from ``key=value,key=value``, values percent-encoded, as W3C Baggage writes them."""
    found = {}
    for part in filter(None, map(str.strip, text.split(","))):
        key, mark, value = part.partition("=")
        plain = unquote(value.strip())
        if not mark or not _NAME.fullmatch(key.strip()) or not re.fullmatch(r"[\t -~]*", plain):
            raise UsageError(f"{name}: key=value,key=value is expected, values percent-encoded")
        found[key.strip()] = plain
    return found


def _timeout_ms(name: str, text: str) -> int:
    if not text:
        return _TIMEOUT_MS
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 0 < int(text) <= _LONGEST_MS:
        raise UsageError(f"{name}: a time in ms is expected, at most {_LONGEST_MS}")
    return int(text)


def _packed(name: str, text: str) -> bool:
    if text not in ("", "none", "gzip"):
        raise UsageError(f"{name}: gzip or none is expected")
    return text == "gzip"


def _file(name: str, text: str) -> str | None:
    if text and not Path(text).is_file():
        raise UsageError(f"{name}: {text} is no file")
    return text or None
