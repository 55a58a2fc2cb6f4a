"""Pages of a fleet and of one incident in a real browser, for people who see, listen or use a telephone."""

from __future__ import annotations

from importlib.resources import files

import pytest
from headless_browser import BROWSER, Browser, Page
from sample_reports import fifty_hosts, one_incident, quiet_hour

from reveal_core.report.render_html import render_html
from storage.reports import render_index, report_head

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
RUN = """(async () => {
  const part = {include: [["html"]], exclude: [[".live"], ["article ~ article"], [".each"]]};
  const result = await axe.run(part, {resultTypes: ["violations"], preload: false, %s});
  const serious = result.violations.filter((found) => ["serious", "critical"].includes(found.impact));
  return serious.map((found) =>
    `${found.id}: ${found.nodes.map((node) => node.html.slice(0, 160)).slice(0, 3).join(" ")}`);
})()"""
"""Left out is what repeats others: plots over drawings, further incidents, the row of each quiet host."""
ROWS = """[...document.querySelectorAll(".heatarea .mark")].map((mark) => {
  const heat = mark.closest(".heat"), box = mark.getBoundingClientRect();
  const name = [...heat.querySelectorAll("li")].find((li) => {
    const row = li.getBoundingClientRect();
    return row.top <= box.top + box.height / 2 && box.top + box.height / 2 < row.bottom;
  });
  return mark.getAttribute("aria-label").includes(` on ${name?.textContent}:`);
})"""
DRAWN = """[...document.querySelectorAll(".heatarea svg")].filter((svg) => svg.checkVisibility()).map((svg) =>
  Math.abs(svg.getBoundingClientRect().height
    - svg.closest(".heat").querySelector("ul").getBoundingClientRect().height))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    running = Browser(tmp_path_factory.mktemp("browser"))
    yield running
    running.close()


def index_page() -> str:
    heads = [
        report_head(f"r{n}", {"headline": "Nothing unusual on a", "created": f"2026-11-29T20:0{n}:00.000Z"})
        for n in range(3)
    ]
    some = {
        "headline": "2 incidents on a",
        "incidents": [{"state": "open"}, {}],
        "start": "2026-11-29T20:00:00.000Z",
    }
    return render_index([*heads, report_head("s", some)])


SAMPLES = {
    "quiet": lambda: render_html(quiet_hour()),
    "incident": lambda: render_html(one_incident()),
    "fleet": lambda: render_html(fifty_hosts()),
    "index": index_page,
}


@pytest.fixture(scope="module")
def pages(browser):
    return {name: browser.open(make(), height=900) for name, make in SAMPLES.items()}


def violations(page: Page, options: str = "") -> list[str]:
    if not page.value("'axe' in window"):
        # What is beyond the view is laid out only as it comes near: here all of it is looked at.
        page.value(
            "document.head.insertAdjacentHTML('beforeend', "
            "'<style>.incident { content-visibility: visible !important }</style>')"
        )
        page.value(f"{AXE};0")
    return list(page.value(RUN % options))


def test_a_violation_would_be_noticed(browser):
    page = browser.open(
        '<!doctype html><html lang="en"><title>t</title><p style="color: #bbb">Pale</p><img src="x">'
    )
    assert [found.partition(":")[0] for found in violations(page)] == ["color-contrast", "image-alt"]


@pytest.mark.parametrize("name", list(SAMPLES))
def test_nothing_serious_stands_between_a_page_and_anybody(pages, name):
    page = pages[name]
    page.scheme("light")
    assert violations(page) == []
    page.scheme("dark")
    assert violations(page, 'runOnly: ["color-contrast"]') == []


@pytest.mark.parametrize("name", list(SAMPLES))
@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_scrolls_sideways(pages, name, width):
    page = pages[name]
    page.size(width, 900)
    page.wait(f"innerWidth === {width}")
    page.wait(f"document.documentElement.scrollWidth <= {width}")


@pytest.mark.parametrize("name", ["incident", "fleet"])
def test_a_link_shows_what_it_names_however_much_lies_between(browser, name):
    # Incidents beyond the view are laid out as they come near, so that their heights are not known before.
    page = browser.open(SAMPLES[name](), height=900)
    names = page.value(
        "[...document.querySelectorAll('.summary a, nav a')].map((a) => a.hash).filter(Boolean)"
    )
    assert any(hash_.startswith("#incident-") for hash_ in names)
    for hash_ in [*names[-3:], *names[:3], names[len(names) // 2]]:
        page.value(f'document.querySelector(\'.summary a[href="{hash_}"], nav a[href="{hash_}"]\').click()')
        top = f"document.getElementById('{hash_[1:]}').getBoundingClientRect().top"
        end = "Math.abs(scrollY + innerHeight - document.documentElement.scrollHeight) < 2"
        page.wait(f"Math.abs({top}) < 40 || ({end} && {top} > 0 && {top} < innerHeight)")


@pytest.mark.parametrize("width", [360, 1280])
def test_rows_of_the_heat_map_lie_beside_their_names(pages, width):
    page = pages["fleet"]
    page.size(width, 900)
    page.wait(f"innerWidth === {width}")
    assert max(page.value(DRAWN)) < 1
    assert page.value(ROWS) == [True] * 19


def test_a_mark_leads_to_its_incident_and_a_row_opens(pages):
    page = pages["fleet"]
    page.size(1280, 900)
    page.value("document.querySelector('.heatarea a.mark[aria-label*=\"rack-8-11\"]').click()")
    page.wait("location.hash.endsWith('rack-8-11-0001')")
    page.wait("Math.abs(document.querySelector(location.hash).getBoundingClientRect().top) < 60")
    page.value("location.hash = document.querySelector('.members li[id]').id")
    page.wait("document.querySelector('.members').open")


def test_paper_opens_what_is_folded_but_not_every_quiet_host(pages):
    page = pages["fleet"]
    assert page.paper().startswith(b"%PDF")
    page.wait("[...document.querySelectorAll('details:not(.onscreen)')].every((folded) => folded.open)")
    assert not page.value("document.querySelector('details.each').open")


@pytest.mark.parametrize("name", list(SAMPLES))
def test_pages_ask_for_nothing_and_complain_of_nothing(pages, name):
    assert pages[name].requests == set()
    assert pages[name].complaints == []
