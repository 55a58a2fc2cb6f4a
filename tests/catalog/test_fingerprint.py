"""What a model remembers of the catalogue."""

from __future__ import annotations

from reveal_core.catalog import fingerprint, load_catalog


def test_it_tells_what_the_values_of_a_metric_mean() -> None:
    assert fingerprint(["meminfo.Cached", "no.such.metric"]) == {"meminfo.Cached": "gauge B 1 stock"}
    counter = fingerprint(["tcp.RetransSegs"])["tcp.RetransSegs"]
    assert counter.startswith("counter ")
    assert counter.endswith(" event transient")


def test_order_and_repetition_do_not_matter() -> None:
    names = list(load_catalog())
    assert list(fingerprint(names[::-1] + names).items()) == list(fingerprint(names).items())
