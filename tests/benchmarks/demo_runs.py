"""Run the demo several times in a row and write what it found as a table.

    .venv/bin/python tests/benchmarks/demo_runs.py --runs 10 --out docs/demo-runs.md

A run counts as it comes: none is repeated or left out. Counted is what the demo prints with ``--json``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

REVEAL = Path(sys.executable).with_name("reveal")


def run_once(folder: Path, arguments: list[str]) -> dict[str, Any]:
    """Run the demo once and return its document, or what it said when it failed."""
    command = [str(REVEAL), "demo", "--dir", str(folder), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return {"failed": lines[-1] if lines else f"exit code {done.returncode}"}
    return dict(json.loads(done.stdout))


def fault_row(run: int, match: dict[str, Any]) -> str:
    """Return a fault's row: when it was found, and as what."""
    delay = f"{match['delay_s']:+.1f} s" if match["found"] else "missed"
    mark = {True: "yes", False: "no", None: "–"}
    cells = [
        str(run),
        match["fault"],
        match["subsystem"],
        delay,
        match["found_subsystem"] or "–",
        mark[match["subsystem_right"]],
        match["found_cause"] or "–",
        mark[match["cause_right"]],
    ]
    return f"| {' | '.join(cells)} |"


def table(documents: list[dict[str, Any]]) -> list[str]:
    """Return the table of all runs and the sums below it."""
    head = ["run", "fault injected", "its subsystem", "delay", "named", "right", "cause named", "right"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    matches: list[dict[str, Any]] = []
    false = failed = 0
    for number, document in enumerate(documents, 1):
        if "failed" in document:
            failed += 1
            lines.append(f"| {number} | the run failed: {document['failed']} | | | | | | |")
            continue
        matches += document["faults"]
        lines += [fault_row(number, match) for match in document["faults"]]
        false += len(document["false_incidents"])
        by_id = {incident["id"]: incident for incident in document["incidents"]}
        for name in document["false_incidents"]:
            subsystem = by_id[name]["subsystem"]
            lines.append(f"| {number} | none, a false incident | – | – | {subsystem} | no | {name} | no |")
    found = [m for m in matches if m["found"]]
    delays = sorted(m["delay_s"] for m in found)
    seconds = [d["seconds"] for d in documents if "seconds" in d]
    lines += [
        "",
        f"- runs: {len(documents)}, failed: {failed}",
        f"- faults injected: {len(matches)}, found: {len(found)}",
        f"- right subsystem first: {sum(bool(m['subsystem_right']) for m in found)} of {len(found)}",
        f"- right cause first: {sum(bool(m['cause_right']) for m in found)} of {len(found)}",
        f"- false incidents: {false}",
    ]
    if delays:
        lines.append(f"- delay of the incident's beginning: median {delays[len(delays) // 2]:+.1f} s")
    if seconds:
        lines.append(f"- a run took {min(seconds):.0f} to {max(seconds):.0f} s")
    return lines


def machine() -> str:
    """Return the machine's size in a line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB of memory, Linux {platform.release().split('-')[0]}"


def main() -> None:
    """Run, and write the table after each run, so that an interrupted series keeps what it has."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("arguments", nargs="*", help="further arguments of reveal demo, after --")
    options = parser.parse_args()
    documents: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="reveal-demo-runs-") as folder:
        for _ in range(options.runs):
            documents.append(run_once(Path(folder), options.arguments))
            command = " ".join(["reveal demo", *options.arguments])
            text = "\n".join(
                [f"`{command}`, {len(documents)} times in a row ({machine()})", "", *table(documents), ""]
            )
            if options.out is not None:
                options.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
