"""What a host is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from collect_parts import HOST_TREE

from reveal_core.collect.facts import default_host, host_facts, safe_label


def test_facts_of_the_captured_host() -> None:
    facts = host_facts(HOST_TREE)
    assert facts["memory_bytes"] == 3742148 * 1024
    assert [node["name"] for node in facts["numa_nodes"]] == ["node0", "node1"]
    assert facts["nics"] == [{"name": "eth0", "address": "01:01:01:01:01:01", "speed_mbps": 1000}]
    assert facts["gpus"] == []
    json.dumps(facts)


def test_facts_of_nothing_are_none(tmp_path: Path) -> None:
    facts = host_facts(tmp_path)
    assert facts["cpu"] == {"model": None, "sockets": None, "cores": None, "logical": None}
    assert facts["boot_id"] == "unknown"


@pytest.mark.parametrize(
    ("name", "label"),
    [("node-17", "node-17"), ("a b/c", "a-b-c"), ("..", "host"), ("", "host"), ("é", "host")],
)
def test_labels_are_safe_in_paths(name: str, label: str) -> None:
    assert safe_label(name) == label
    assert default_host()
