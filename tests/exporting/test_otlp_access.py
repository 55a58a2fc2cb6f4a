"""Where OTLP goes: the command line's address, or the variables of the specification."""

from __future__ import annotations

from pathlib import Path

import pytest

from reveal_core.errors import UsageError
from reveal_core.exporting.otlp_access import Target, place_of, targets_of

BASE = "OTEL_EXPORTER_OTLP_"


def urls(endpoint: str | None, **variables: str) -> list[str]:
    found = targets_of(endpoint, {BASE + name: value for name, value in variables.items()})
    assert list(found) == ["logs", "metrics"]
    return [target.url for target in found.values()]


@pytest.mark.parametrize("base", ["http://c:4318", "http://c:4318/"])
def test_the_path_of_a_signal_is_put_to_a_base(base: str) -> None:
    expected = ["http://c:4318/v1/logs", "http://c:4318/v1/metrics"]
    assert urls(base) == expected
    assert urls(None, ENDPOINT=base) == expected
    assert urls(base, ENDPOINT="http://other", LOGS_ENDPOINT="http://another/x") == expected


def test_an_address_of_a_signal_is_taken_as_it_stands() -> None:
    assert urls(None, ENDPOINT="https://c/otlp", LOGS_ENDPOINT="http://logs:9/any?stream=a") == [
        "http://logs:9/any?stream=a",
        "https://c/otlp/v1/metrics",
    ]
    assert place_of("http://logs:9/any?stream=a") == "http://logs:9/any"


def test_headers_are_as_w3c_baggage_writes_them() -> None:
    said = {"HEADERS": " api-key = s%20e=c%2Cr , x=1,", "METRICS_HEADERS": "Authorization=Basic%20eA=="}
    found = targets_of("http://c", {BASE + name: value for name, value in said.items()})
    assert found["logs"].headers == {"api-key": "s e=c,r", "x": "1"}
    assert found["metrics"].headers == {"Authorization": "Basic eA=="}
    assert "s e=c,r" not in repr(found)


def test_what_else_the_specification_has(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("")
    said = {
        f"{BASE}TIMEOUT": "2500",
        f"{BASE}COMPRESSION": "gzip",
        f"{BASE}CERTIFICATE": str(file),
        f"{BASE}CLIENT_CERTIFICATE": str(file),
        f"{BASE}CLIENT_KEY": str(file),
        f"{BASE}LOGS_TIMEOUT": "100",
    }
    found = targets_of("https://c", said)
    assert found["metrics"] == Target("https://c/v1/metrics", {}, 2.5, True, str(file), str(file), str(file))
    assert found["logs"].timeout_s == 0.1
    plain = targets_of("https://c", {})["logs"]
    assert (plain.timeout_s, plain.gzip, plain.ca_file, plain.certificate) == (10.0, False, None, None)


@pytest.mark.parametrize(
    ("endpoint", "variables", "said"),
    [
        (None, {}, "where to is not said"),
        (None, {"ENDPOINT": " "}, "where to is not said"),
        (None, {"LOGS_ENDPOINT": "http://c"}, "where to is not said"),
        ("c:4318", {}, "--endpoint: an address of OTLP over HTTP is expected"),
        (None, {"ENDPOINT": "ftp://c"}, "OTEL_EXPORTER_OTLP_ENDPOINT: an address"),
        (None, {"ENDPOINT": "http://c", "METRICS_ENDPOINT": "http://[1"}, "METRICS_ENDPOINT: an address"),
        ("http://me:secret@c", {}, "must hold no user or password"),
        ("http://c", {"HEADERS": "no mark"}, "HEADERS: key=value,key=value is expected"),
        ("http://c", {"HEADERS": "bad name=1"}, "HEADERS: key=value,key=value is expected"),
        ("http://c", {"HEADERS": "a=x%0D%0Ay:secret"}, "HEADERS: key=value,key=value is expected"),
        ("http://c", {"TIMEOUT": "10s"}, "TIMEOUT: a time in ms"),
        ("http://c", {"TIMEOUT": "0"}, "TIMEOUT: a time in ms"),
        ("http://c", {"TIMEOUT": "9" * 5000}, "TIMEOUT: a time in ms"),
        ("http://c", {"COMPRESSION": "zstd"}, "COMPRESSION: gzip or none"),
        ("http://c", {"CERTIFICATE": "/no/file"}, "CERTIFICATE: /no/file is no file"),
    ],
)
def test_what_is_wrong_is_one_line(endpoint: str | None, variables: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        targets_of(endpoint, {BASE + name: value for name, value in variables.items()})
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)
