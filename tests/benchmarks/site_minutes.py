"""Bring a site up as the documentation says, wait for the schedule's reports, and take pictures of its pages.

    .venv/bin/python tests/benchmarks/site_minutes.py --minutes 11 --pictures docs

Needs Chromium for the pictures, and a machine that does little else.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

PAGES = {"prefect": "{prefect}/runs", "mlflow": "{mlflow}/#/models", "reports": "{reports}"}
SIZE = "1280,900"
SETTLE_MS = 15_000
"""Virtual time that a page may take to ask for what it shows."""
STEP_S = 2.0


def addresses(folder: Path, process: subprocess.Popen, patience_s: float) -> dict[str, str]:
    """Return where the pages are, once the site has said so."""
    until = time.monotonic() + patience_s
    while not (folder / "site.json").exists():
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit("the site did not come up")
        time.sleep(STEP_S)
    return dict(json.loads((folder / "site.json").read_text(encoding="utf-8")))


def scored(prefect: str) -> list[dict[str, Any]]:
    """Return the completed runs of score-fleet."""
    body = {
        "flows": {"name": {"any_": ["score-fleet"]}},
        "flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}},
    }
    request = urllib.request.Request(
        f"{prefect}/api/flow_runs/filter",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return list(json.load(answer))


def take_pictures(told: dict[str, str], folder: Path, scratch: Path) -> list[str]:
    """Take a picture of each page; return the files."""
    browser = shutil.which("chromium")
    if browser is None:
        raise SystemExit("there is no Chromium to take pictures with")
    files = []
    for name, address in PAGES.items():
        files.append(str(folder / f"site-{name}.png"))
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={scratch / 'browser'}", f"--window-size={SIZE}"]
        command += [f"--virtual-time-budget={SETTLE_MS}", f"--screenshot={files[-1]}"]
        subprocess.run([*command, address.format(**told)], check=True, capture_output=True, timeout=120)
    return files


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=11.0)
    parser.add_argument("--learn", default="4m")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--no-objects", action="store_true")
    arguments = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="site-") as scratch:
        folder = Path(scratch) / "site"
        command = [sys.executable, "-m", "flows.cli", "site", "--dir", str(folder)]
        command += ["--learn", arguments.learn, *(["--no-objects"] if arguments.no_objects else [])]
        begun = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            told = addresses(folder, process, 240.0)
            found["up_seconds"] = round(time.monotonic() - begun, 1)
            times: list[float] = []
            while time.monotonic() - begun < 60.0 * arguments.minutes and process.poll() is None:
                new = len(scored(told["prefect"])) - len(times)
                times += [round(time.monotonic() - begun, 1)] * new
                time.sleep(STEP_S)
            found["report_seconds"] = times
            if arguments.pictures:
                found["pictures"] = take_pictures(told, arguments.pictures, Path(scratch))
        finally:
            process.send_signal(signal.SIGINT)
            try:
                found["exit_code"] = process.wait(90)
            except subprocess.TimeoutExpired:
                process.kill()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
