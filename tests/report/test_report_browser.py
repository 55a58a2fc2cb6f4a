"""The page in a real browser: it draws every plot, complains of nothing, and asks for nothing."""

import json
import re
import shutil
import subprocess

import pytest
from report_samples import CREATED, END, FAULTS, MODEL, NOTES, START, host_input

from reveal_core.report.model import build_report
from reveal_core.report.render_html import render_html

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = '<img src=x onerror="document.title=1">'
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]


def requests_of_pages(log: str) -> set[str]:
    """Return the addresses that pages asked for; what the browser asks for on its own has no origin."""
    lines = (line.strip().rstrip(",") for line in log.splitlines())
    events = (json.loads(line) for line in lines if '"initiator"' in line and line.startswith('{"params"'))
    asked = (event["params"] for event in events if "url" in event["params"])
    return {
        p["url"] for p in asked if p["initiator"] != "not an origin" and p["url"].startswith(("http", "ws"))
    }


@pytest.fixture(scope="module")
def visit(tmp_path_factory):
    """Return a function that opens a page and gives its DOM, its console and the addresses it asked for."""

    def open_page(html: str):
        folder = tmp_path_factory.mktemp("browser")
        page = folder / "report.html"
        page.write_text(html, encoding="utf-8")
        log = folder / "net.json"
        command = [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}", "--enable-logging=stderr",
            "--window-size=1280,9000", "--virtual-time-budget=5000", "--dump-dom", page.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        return done.stdout, console, requests_of_pages(log.read_text(encoding="utf-8", errors="replace"))

    return open_page


def test_a_request_would_be_noticed(visit):
    _, _, asked = visit('<!doctype html><img src="http://elsewhere.invalid/x.png">')
    assert asked == {"http://elsewhere.invalid/x.png"}


def test_every_plot_is_drawn_and_nothing_is_asked_for(visit):
    report = build_report("r1", "Demo", CREATED, START, END, [host_input()], MODEL, FAULTS, NOTES)
    dom, console, asked = visit(render_html(report))
    assert console == []
    assert asked == set()
    figures = re.findall(r'<figure class="([^"]*)"', dom)
    assert len(figures) == 11
    assert all("drawn" in figure for figure in figures)
    assert dom.count('class="main-svg"') >= 11
    assert dom.count('<button type="button" class="copy"') == 4
    assert 'class="copy" hidden' not in dom
    assert "stroke: rgb(39, 54, 75)" in dom


def test_names_run_nothing_and_a_foreign_script_is_refused_in_the_dark(visit):
    report = build_report("r1", HOSTILE, CREATED, START, END, [host_input(HOSTILE)], MODEL, FAULTS, [HOSTILE])
    html = render_html(report).replace('<html lang="en">', '<html lang="en" data-theme="dark">')
    dom, console, asked = visit(html.replace("</footer>", "</footer><script>document.title = 1</script>"))
    (refused,) = console
    assert "Content Security Policy" in refused
    assert asked == set()
    assert "<img" not in re.sub(r"<script.*?</script>", "", dom, flags=re.S)
    assert "<title>1</title>" not in dom
    assert dom.count('class="main-svg"') >= 11
    assert "stroke: rgb(198, 211, 228)" in dom
    assert "stroke: rgb(39, 54, 75)" not in dom
