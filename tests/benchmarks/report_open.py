"""Measure how long the page of a large fleet takes to be made, and to open in a headless Chromium.

    .venv/bin/python tests/benchmarks/report_open.py --hosts 1000 --runs 5

The fleet is made from a seed: an hour of every host with a window a second, most of them quiet and given
without samples, as scheduled scoring gives them; one rack loses packets and single hosts have faults of their
own. Opening counts from the navigation to the end of the page's load event, with a new view each time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

from fleet_samples import CREATED, HOUR_S, START, host_input, trend
from headless_browser import Browser
from report_samples import LOSS, MODEL
from sample_reports import BUSY_CORE, DISK, HOT_GPU, ODD, loss

from reveal_core.incidents import FleetIncident
from reveal_core.report.model import Report, build_report
from reveal_core.report.render_html import render_html
from reveal_core.report.render_json import report_dict
from tasks.memory import peak_memory_bytes

RACK = 25
"""Hosts of a rack."""
EVERY = 40
"""Of the hosts of other racks, one in so many has a fault of its own."""
FIGURES = """(() => {
  const [load] = performance.getEntriesByType("navigation");
  const [paint] = performance.getEntriesByName("first-contentful-paint");
  const elements = document.getElementsByTagName("*").length;
  return {loaded: load.loadEventEnd, painted: paint.startTime, elements};
})()"""


def fleet(count: int) -> tuple[Report, float]:
    """Return a report of so many hosts, and the seconds that building it took."""
    singles = (BUSY_CORE, HOT_GPU, DISK, ODD)
    hosts, struck = [], []
    for n in range(count):
        rack, place = divmod(n, RACK)
        name = f"rack-{rack:02d}-{place:02d}"
        faults = (
            [loss(1890 + 3 * place)] if rack == 1 else [singles[n // EVERY % 4]] if n % EVERY == 7 else []
        )
        struck += [name] if rack == 1 else []
        silent = [(600, 900)] if n % 97 == 5 else []
        hosts.append(host_input(name, faults, silent=silent, sampled=bool(faults)))
    end = START + timedelta(seconds=HOUR_S)
    shared = FleetIncident(
        id="fleet-1",
        subsystem="network",
        cause=LOSS.id,
        title=LOSS.title,
        hosts=tuple(struck),
        of_hosts=count,
        where="rack-01-*",
        start=START + timedelta(seconds=1890),
        end=end,
        incidents=tuple(f"{name}-0001" for name in struck),
    )
    started = time.perf_counter()
    report = build_report(
        "fleet",
        f"Score of {count:,} hosts",
        CREATED,
        START,
        end,
        hosts,
        replace(MODEL, name="reveal-64cpu-8gpu"),
        fleet=[shared] if len(struck) > 1 else (),
        trend=replace(trend(), host_days=(float(count),) * 14),
    )
    return report, time.perf_counter() - started


def opened(browser: Browser, html: str) -> dict[str, Any]:
    """Return the browser's own figures of opening a page, in milliseconds."""
    page = browser.open(html, width=1280, height=900)
    page.wait("performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
    page.wait("performance.getEntriesByName('first-contentful-paint').length > 0")
    figures: dict[str, Any] = page.value(FIGURES)
    page.call("Page.close")
    return figures


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    report, built_s = fleet(arguments.hosts)
    made = time.perf_counter()
    html = render_html(report)
    rendered = time.perf_counter()
    document = json.dumps(report_dict(report))
    with tempfile.TemporaryDirectory(prefix="report-open-") as folder:
        browser = Browser(Path(folder))
        try:
            runs = [opened(browser, html) for _ in range(arguments.runs)]
        finally:
            browser.close()
    figures = {
        "hosts": arguments.hosts,
        "incidents": len(report.incidents),
        "build_s": round(built_s, 2),
        "render_s": round(rendered - made, 2),
        "page_mb": round(len(html.encode()) / 1e6, 2),
        "json_mb": round(len(document) / 1e6, 2),
        "peak_rss_mb": round(peak_memory_bytes() / 1e6),
        "elements": runs[0]["elements"],
        "first_paint_ms": [round(run["painted"]) for run in runs],
        "load_ms": [round(run["loaded"]) for run in runs],
        "load_median_ms": round(statistics.median(run["loaded"] for run in runs)),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
