"""Asking a Prometheus server: waiting, refusals, secrets and TLS."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_fake import FakePrometheus, Fault, serving

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.lab.processes import free_port
from tasks.prometheus_access import Access, server_url
from tasks.prometheus_server import PrometheusServer, TooMuchError

BEGIN = 1_764_446_400_000


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with serving() as found:
        found.add("up", [(BEGIN + 1000 * n, "1") for n in range(10)], instance="n1:9100", job="node")
        yield found


def server(
    fake: FakePrometheus, access: Access | None = None, **more: Any
) -> tuple[PrometheusServer, list[float]]:
    waited: list[float] = []
    found = PrometheusServer(server_url(fake.url), access or Access(), wait=waited.append, **more)
    return found, waited


def ask(found: PrometheusServer) -> bytes:
    return found.samples('{job="node"}', BEGIN, BEGIN + 3000)


def test_a_question_for_samples(fake: FakePrometheus) -> None:
    found, waited = server(fake)
    assert ask(found).count(b'"1"') == 3
    (request,) = fake.requests
    assert (request.method, request.path) == ("POST", "/api/v1/query")
    assert request.fields == {"query": '{job="node"}[3000ms]', "time": "1764446402.999"}
    assert request.headers["Accept-Encoding"] == "identity"
    assert "Authorization" not in request.headers
    assert waited == []


def test_a_question_for_names(fake: FakePrometheus) -> None:
    found, _ = server(fake)
    assert b"n1:9100" in found.label_values("instance", '{job="node"}', BEGIN, BEGIN + 1000)
    assert fake.requests[0].fields == {
        "match[]": '{job="node"}',
        "start": "1764446400.000",
        "end": "1764446401.000",
    }
    assert b'"data": {}' in found.metadata()


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_it_waits_as_long_as_it_is_asked_to(fake: FakePrometheus, status: int) -> None:
    fake.faults.extend([Fault(status, headers={"Retry-After": "7"}), Fault(status, b"<h1>Busy</h1>")])
    said: list[str] = []
    found, waited = server(fake, say=said.append)
    assert ask(found).count(b'"1"') == 3
    assert waited == [7.0, 2.0]
    assert said[1] == f"{fake.url}: it answers {status} Busy; trying again in 2 s"


def test_it_waits_until_a_time(fake: FakePrometheus) -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    fake.faults.append(Fault(503, headers={"Retry-After": moment}))
    found, waited = server(fake)
    ask(found)
    assert 50 < waited[0] <= 60


def test_it_does_not_wait_for_hours(fake: FakePrometheus) -> None:
    fake.faults.append(Fault(429, headers={"Retry-After": "7200"}))
    found, waited = server(fake)
    with pytest.raises(UnavailableError, match="answers 429 and asks to come back in 7200 s"):
        ask(found)
    assert waited == []


def test_it_gives_up_after_a_while(fake: FakePrometheus) -> None:
    fake.faults.extend([Fault(503)] * 20)
    found, waited = server(fake)
    with pytest.raises(UnavailableError, match="it answers 503, 6 times in a row"):
        ask(found)
    assert waited == [1, 2, 4, 8, 16]
    assert len(fake.requests) == 6


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(reset=True), "the connection was cut"),
        (Fault(cut=True), "its answer is cut off"),
        (Fault(body=b'{"status": "succ'), "its answer is cut off"),
        (Fault(stall_s=30.0), "no answer in time"),
    ],
)
def test_what_the_network_breaks_is_asked_again(fake: FakePrometheus, fault: Fault, said: str) -> None:
    told: list[str] = []
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        found.patience_s = patience  # what comes next is not to hang on how busy this machine is

    found = PrometheusServer(fake.url, Access(), say=told.append, wait=wait)
    patience = found.patience_s
    ask(found)
    fake.faults.append(fault)
    if fault.stall_s:
        found.patience_s = 5.0, 0.2
    assert ask(found).count(b'"1"') == 3
    assert waited == [1.0]
    assert told == [f"{fake.url}: {said}; trying again in 1 s"]


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    waited: list[float] = []
    with pytest.raises(UnavailableError, match=f"{url} cannot be reached: Connection refused"):
        ask(PrometheusServer(url, Access(), wait=waited.append))
    assert waited == []


BAD_DATA = b'{"status": "error", "errorType": "bad_data", "error": "invalid parameter \\"query\\": oh"}'
TIMEOUT = b'{"status": "error", "errorType": "timeout", "error": "query timed out"}'


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        (Fault(400, BAD_DATA), UsageError, 'does not take the question: invalid parameter "query": oh'),
        (Fault(404, b"nothing"), UsageError, "has no Prometheus API: it answers 404"),
        (Fault(301, headers={"Location": "https://x/?a=b"}), UsageError, "sends on to https://x/: give"),
        (Fault(200, b"<p>Log in", {"Content-Type": "text/html"}), UnavailableError, "with text/html and not"),
        (Fault(500, b"<b>oh\ndear</b>"), UnavailableError, r"refuses \(500\): oh dear"),
        (Fault(401), UnavailableError, r"refuses \(401\): give a token by --token-file"),
        (Fault(403), UnavailableError, r"refuses \(403\): give a token"),
        (Fault(422, TIMEOUT), TooMuchError, "query timed out"),
        (Fault(413), TooMuchError, "it answers 413"),
        (Fault(503, TIMEOUT), TooMuchError, "query timed out"),
    ],
)
def test_refusals_are_one_line(fake: FakePrometheus, fault: Fault, error: type, said: str) -> None:
    fake.faults.append(fault)
    found, waited = server(fake)
    with pytest.raises(error, match=said) as raised:
        ask(found)
    assert "\n" not in str(raised.value)
    assert (waited, len(fake.requests)) == ([], 1)


def test_an_answer_that_is_too_large_is_not_read(
    fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.prometheus_server.MOST_BYTES", 50)
    with pytest.raises(TooMuchError, match="larger than"):
        ask(server(fake)[0])


def test_a_closed_server_is_not_waited_for(fake: FakePrometheus) -> None:
    found = PrometheusServer(fake.url, Access())
    fake.faults.append(Fault(503, headers={"Retry-After": "300"}))
    found.close()
    with pytest.raises(UnavailableError, match="503"):
        ask(found)


class TestSecrets:
    def test_a_token_file_is_read_for_each_request(self, fake: FakePrometheus, tmp_path: Path) -> None:
        path = tmp_path / "token"
        path.write_text("first\n")
        found, _ = server(fake, Access(token_file=str(path)))
        ask(found)
        path.write_text("second")
        ask(found)
        assert [r.headers["Authorization"] for r in fake.requests] == ["Bearer first", "Bearer second"]

    def test_a_token_of_the_settings(self, fake: FakePrometheus) -> None:
        fake.token = "s3cret"
        ask(server(fake, Access(token="s3cret"))[0])
        with pytest.raises(UnavailableError, match="does not take what was given") as raised:
            ask(server(fake, Access(token="wr0ng"))[0])
        assert "wr0ng" not in str(raised.value)

    def test_user_and_password(self, fake: FakePrometheus) -> None:
        ask(server(fake, Access(user="ann", password="pä55"))[0])
        header = fake.requests[0].headers["Authorization"]
        assert base64.b64decode(header.removeprefix("Basic ")).decode() == "ann:pä55"

    def test_netrc_is_not_read(
        self, fake: FakePrometheus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        netrc = tmp_path / "netrc"
        netrc.write_text("default login ann password secret\n")
        netrc.chmod(0o600)
        monkeypatch.setenv("NETRC", str(netrc))
        ask(server(fake)[0])
        assert "Authorization" not in fake.requests[0].headers

    def test_nothing_secret_shows(self) -> None:
        shown = repr(Access(token="s3cret", user="ann", password="pa55"))
        assert "s3cret" not in shown
        assert "pa55" not in shown

    @pytest.mark.parametrize(
        ("url", "said"),
        [
            ("http://ann:pa55@h:9090", "must hold no user or password: give a token by"),
            ("h:9090", "the address of a server is expected"),
            ("ftp://h", "the address of a server is expected"),
            ("http://h:99999", "the address of a server is expected"),
            ("http://h/?token=s3cret", "ends with its path"),
        ],
    )
    def test_addresses(self, url: str, said: str) -> None:
        with pytest.raises(UsageError, match=said) as raised:
            server_url(url)
        assert "pa55" not in str(raised.value)
        assert "s3cret" not in str(raised.value)
        assert server_url("https://h/prometheus/") == "https://h/prometheus"

    @pytest.mark.parametrize(
        ("access", "said"),
        [
            (Access(token="a", user="b"), "exclude each other"),
            (Access(password="b"), "REVEAL_PROMETHEUS__USER is not"),
            (Access(token_file="/nowhere/token"), "token file /nowhere/token cannot be read: No such file"),
            (Access(token_file="/dev/null"), "token file /dev/null holds no token"),
            (Access(token="two words"), "REVEAL_PROMETHEUS__TOKEN holds no token"),
            (Access(ca_file="/nowhere/ca"), "--ca-file: /nowhere/ca is no file"),
            (Access(key=__file__), "--key is of no use for http://h"),
            (Access(insecure=True), "--insecure is of no use for http://h"),
        ],
    )
    def test_what_does_not_fit_together(self, access: Access, said: str) -> None:
        with pytest.raises(UsageError, match=said):
            PrometheusServer("http://h", access)


OPENSSL = shutil.which("openssl")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return a certificate of loopback that nobody knows, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    made = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    made += ["-keyout", key, "-out", cert, "-subj", "/CN=reveal", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([str(OPENSSL), *made], check=True, capture_output=True)
    return cert, key


@pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed, which makes the certificate")
class TestTLS:
    def test_a_certificate_that_nobody_knows_is_refused(self, certificate: tuple[str, str]) -> None:
        with serving(certificate) as fake:
            found, waited = server(fake)
            with pytest.raises(UnavailableError, match="no connection by TLS: self"):
                ask(found)
            assert (waited, fake.requests) == ([], [])

    def test_unless_it_is_named_or_none_is_asked_for(self, certificate: tuple[str, str]) -> None:
        cert, key = certificate
        with serving(certificate) as fake:
            for access in (
                Access(ca_file=cert),
                Access(insecure=True),
                Access(ca_file=cert, cert=cert, key=key),
            ):
                ask(server(fake, access)[0])
            assert len(fake.requests) == 3
        with pytest.raises(UsageError, match="--key is of no use without --cert"):
            PrometheusServer("https://h", Access(key=key))
        with pytest.raises(UsageError, match="exclude each other"):
            PrometheusServer("https://h", Access(insecure=True, ca_file=cert))
