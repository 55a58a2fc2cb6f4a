"""Queueing disciplines that drop packets, in a network namespace of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reveal_core.collect.sources.qdisc import METRICS

INSIDE = """
import json, socket, subprocess, sys
from pathlib import Path
from collect_parts import open_source, read
from reveal_core.collect.sources.qdisc import QdiscSource

def run(command):
    done = subprocess.run(command.split(), capture_output=True, text=True)
    if done.returncode:
        print(json.dumps({"skip": f"{command}: {done.stderr.strip()}"}))
        raise SystemExit
    return done.stdout

run("ip link add name qd0 numtxqueues 2 type veth peer name qd1 numtxqueues 2")
for interface in ("qd0", "qd1"):
    run(f"ip link set dev {interface} addrgenmode none")  # or IPv6 sends packets of its own
run("ip address add 192.0.2.1/24 dev qd0")
for command in sys.argv[1].split(";"):
    run(f"tc {command}")
run("ip link set dev qd1 up")
run("ip link set dev qd0 up")
run("ip neighbour add 192.0.2.2 lladdr 02:00:00:00:00:02 dev qd0 nud permanent")
source = open_source(QdiscSource, Path("/"))
told = {"idle": read(source), "busy": [], "tc": []}
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for _ in range(2):
        for _ in range(200):
            sender.sendto(bytes(1000), ("192.0.2.2", 9))
        told["busy"].append(read(source))
        shown = json.loads(run("tc -s -j qdisc show dev qd0"))
        told["tc"].append([one["drops"] for one in shown if one.get("root")])
run("ip link delete qd0")
told["deleted"] = read(source)
told["gone"] = len(source.columns.gone)
told["errors"] = list(source.columns.errors)
print(json.dumps(told))
"""
SLOW = "tbf rate 1kbit burst 2kb limit 3kb"
SHAPERS = {
    "tbf": f"qdisc add dev qd0 root {SLOW}",
    "mq": "qdisc add dev qd0 root handle 1: mq;"
    f"qdisc add dev qd0 parent 1:1 {SLOW};qdisc add dev qd0 parent 1:2 {SLOW}",
    "htb": "qdisc add dev qd0 root handle 1: htb default 1;"
    "class add dev qd0 parent 1: classid 1:1 htb rate 1kbit burst 2kb;"
    "qdisc add dev qd0 parent 1:1 pfifo limit 3",
}


@pytest.mark.root
@pytest.mark.parametrize("shaper", SHAPERS)
def test_a_shaper_that_drops_shows_and_is_gone_with_its_interface(shaper: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("making a network namespace needs root")
    for tool in ("unshare", "ip", "tc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    # The namespace has no name, so it is gone with its process, however that ends; so are its interfaces.
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", INSIDE, SHAPERS[shaper]],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    if "skip" in told:
        pytest.skip(told["skip"])
    assert told["idle"] == {}  # nothing was sent yet
    names = {f"qdisc.{metric}/qd0" for metric in METRICS}
    first, second = told["busy"]
    assert set(first) == set(second) == names
    assert 0 < first["qdisc.drops/qd0"] < second["qdisc.drops/qd0"]
    assert told["tc"] == [[first["qdisc.drops/qd0"]], [second["qdisc.drops/qd0"]]]
    assert second["qdisc.overlimits/qd0"] > 0
    assert 0 < second["qdisc.backlog_packets/qd0"] <= 4
    assert second["qdisc.backlog_bytes/qd0"] > 1000 * (second["qdisc.backlog_packets/qd0"] - 1)
    assert told["deleted"] == {}
    assert told["gone"] == len(names)
    assert told["errors"] == []
