"""How a Prometheus server is entered: its address, what is secret, and TLS."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from reveal_core.errors import UsageError

if TYPE_CHECKING:
    from requests import PreparedRequest

SECRETS = (
    "give a token by --token-file or REVEAL_PROMETHEUS__TOKEN, or user and password by "
    "REVEAL_PROMETHEUS__USER and REVEAL_PROMETHEUS__PASSWORD"
)
_LOCAL = re.compile(r"localhost|127\.[\d.]+|::1")


def server_url(text: str) -> str:
    """Return the address of a server after a look at its form.

    Raises
    ------
    UsageError
        If it is none, or holds a password: everybody who lists processes would see it.
    """
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine:
        raise UsageError("the address of a server is expected, like http://prometheus:9090")
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"an address must hold no user or password: {SECRETS}")
    if parts.query or parts.fragment:
        raise UsageError("the address of a server ends with its path: http://prometheus:9090")
    return text.rstrip("/")


def is_local(url: str) -> bool:
    """Return whether a server is on this machine.

    >>> is_local("http://127.0.0.1:9090"), is_local("https://prometheus")
    (True, False)
    """
    return _LOCAL.fullmatch(urlsplit(url).hostname or "") is not None


@dataclass(frozen=True)
class Access:
    """How a server is entered. What is secret shows in no text of it.

    Attributes
    ----------
    token
        Sent as a bearer token.
    token_file
        File that holds the token; read anew for each request, for some are renewed while an import runs.
    user, password
        Basic authentication.
    ca_file
        Certificates that are trusted in place of the system's.
    cert, key
        The client's own; the key may stand in the file of the certificate.
    insecure
        Take any certificate of the server's.
    """

    token: str = field(default="", repr=False)
    token_file: str | None = None
    user: str | None = None
    password: str = field(default="", repr=False)
    ca_file: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure: bool = False

    @property
    def secret(self) -> bool:
        """Whether anything secret is sent."""
        return bool(self.token) or self.token_file is not None or self.user is not None

    @property
    def verify(self) -> bool | str:
        """What the server's certificate is checked against, as requests takes it."""
        return False if self.insecure else self.ca_file or True

    @property
    def certificate(self) -> tuple[str, str] | str | None:
        """The client's certificate, as requests takes it."""
        return (self.cert, self.key) if self.cert and self.key else self.cert

    def check(self, url: str) -> None:
        """Make sure that what is said fits together and the files are there.

        Raises
        ------
        UsageError
            If not.
        """
        if bool(self.token) + (self.token_file is not None) + (self.user is not None) > 1:
            raise UsageError("a token, a token file, and user and password exclude each other: give one")
        if self.password and self.user is None:
            raise UsageError("REVEAL_PROMETHEUS__PASSWORD is set, and REVEAL_PROMETHEUS__USER is not")
        if self.token:
            _one_token(self.token, "REVEAL_PROMETHEUS__TOKEN")
        if self.token_file is not None:
            read_token(self.token_file)
        tls = {"--ca-file": self.ca_file, "--cert": self.cert, "--key": self.key}
        for option, path in tls.items():
            if path is not None and not Path(path).is_file():
                raise UsageError(f"{option}: {path} is no file")
        given = [option for option, path in tls.items() if path is not None]
        given += ["--insecure"] if self.insecure else []
        if given and not url.startswith("https:"):
            raise UsageError(f"{given[0]} is of no use for {url}: it is no https address")
        if self.key is not None and self.cert is None:
            raise UsageError("--key is of no use without --cert")
        if self.insecure and self.ca_file is not None:
            raise UsageError("--insecure and --ca-file exclude each other")

    def enter(self, request: PreparedRequest) -> PreparedRequest:
        """Put what is secret into a request, and nothing of the environment (.netrc)."""
        from requests.auth import HTTPBasicAuth

        if self.user is not None:
            entered: PreparedRequest = HTTPBasicAuth(self.user.encode(), self.password.encode())(request)
            return entered
        token = read_token(self.token_file) if self.token_file is not None else self.token
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return request


def read_token(path: str) -> str:
    """Return the token that a file holds.

    Raises
    ------
    UsageError
        If it cannot be read, or holds none.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"token file {path} cannot be read: {error.strerror}") from error
    return _one_token(text.decode("ascii", "replace").strip(), f"token file {path}")


def _one_token(token: str, where: str) -> str:
    if not re.fullmatch(r"[!-~]+", token):
        raise UsageError(f"{where} holds no token, or something beside it")
    return token
