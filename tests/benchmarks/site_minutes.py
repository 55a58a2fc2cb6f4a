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

from playwright.sync_api import sync_playwright

PAGES = {
    "prefect": "{prefect}/runs",
    "mlflow": "{mlflow}/#/models?workflowType=machine_learning",
    "reports": "{reports}",
}
SIZE: Any = {"width": 1280, "height": 960}
FLAGS = ["--no-sandbox", "--disable-quic", "--disable-background-networking", "--disable-component-update"]
NO_GREETING = "localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')"
"""MLflow's assistant opens by itself at a first visit, over half of the page."""
SETTLE_MS = 8_000
"""What a page may take to show what it asks for; Prefect's asks for ever."""
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


def take_pictures(told: dict[str, str], folder: Path) -> list[str]:
    """Take a picture of each page once it has stopped asking for more; return the files."""
    files = []
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport=SIZE, reduced_motion="reduce")
        page.add_init_script(NO_GREETING)
        for name, address in PAGES.items():
            files.append(str(folder / f"site-{name}.png"))
            page.goto(address.format(**told))
            page.wait_for_timeout(SETTLE_MS)
            page.keyboard.press("Escape")  # what greets a first visitor
            page.wait_for_timeout(1000)
            page.screenshot(path=files[-1])
        browser.close()
    return files


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=11.0)
    parser.add_argument("--learn", default="3m")
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
                found["pictures"] = take_pictures(told, arguments.pictures)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                found["exit_code"] = process.wait(90)
            except subprocess.TimeoutExpired:
                process.kill()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
