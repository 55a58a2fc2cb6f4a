"""The page in a real browser: it draws every plot, complains of nothing, and asks for nothing."""

import pytest
from headless_browser import BROWSER, Browser
from report_samples import CREATED, END, FAULTS, MODEL, NOTES, START, host_input

from reveal_core.report.model import build_report
from reveal_core.report.render_html import render_html

HOSTILE = '<img src=x onerror="document.title=1">'
ALL_DRAWN = "document.querySelectorAll('figure.plot:not(.drawn)').length === 0"
TRACE = "getComputedStyle([...document.querySelectorAll('.metric .js-line')][0]).stroke"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    running = Browser(tmp_path_factory.mktemp("browser"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def html():
    return render_html(build_report("r1", "Demo", CREATED, START, END, [host_input()], MODEL, FAULTS, NOTES))


@pytest.fixture(scope="module")
def drawn(browser, html):
    """Return a page of which every plot is drawn."""
    page = browser.open(html)
    page.wait(ALL_DRAWN)
    return page


def test_a_request_and_a_complaint_would_be_noticed(browser):
    page = browser.open('<!doctype html><img src="http://elsewhere.invalid/x.png"><script>throw 1</script>')
    assert page.requests == {"http://elsewhere.invalid/x.png"}
    assert len(page.complaints) == 2


def test_every_plot_is_drawn_and_nothing_is_asked_for(drawn):
    page = drawn
    assert page.value("document.querySelectorAll('figure.plot').length") == 11
    assert page.value("document.querySelectorAll('figure.plot .main-svg .js-line').length") >= 11
    assert page.value("[...document.querySelectorAll('button.copy')].every((b) => !b.hidden)")
    assert page.requests == set()
    assert page.complaints == []


def test_plots_follow_the_colour_scheme_and_the_button(drawn):
    page = drawn
    assert page.value(TRACE) == "rgb(39, 54, 75)"
    page.scheme("dark")
    page.wait(f"{TRACE} === 'rgb(198, 211, 228)'")
    assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(14, 18, 23)"
    page.value("document.getElementById('theme').click()")
    page.wait(f"{TRACE} === 'rgb(39, 54, 75)'")
    assert page.complaints == []


def test_plots_are_drawn_only_as_they_come_into_view(browser, html):
    page = browser.open(html, height=700)
    page.wait("document.querySelectorAll('.timeline.drawn').length === 1")
    assert page.value("document.querySelectorAll('.metric.drawn').length") == 0
    page.value("[...document.querySelectorAll('.metric')].at(-1).scrollIntoView({behavior: 'instant'})")
    page.wait("[...document.querySelectorAll('.metric')].at(-1).classList.contains('drawn')")


def test_paper_shows_the_static_drawings(drawn):
    page = drawn
    page.call("Emulation.setEmulatedMedia", media="print")
    shown = "[...document.querySelectorAll('svg.static')].map((s) => getComputedStyle(s).visibility)"
    assert set(page.value(shown)) == {"visible"}
    assert page.value("getComputedStyle(document.querySelector('.live')).display") == "none"
    page.call("Emulation.setEmulatedMedia", media="screen")


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_never_scrolls_sideways(drawn, width):
    drawn.size(width, 9000)
    drawn.wait(f"innerWidth === {width}")
    drawn.wait(f"document.documentElement.scrollWidth <= {width}")


def test_names_run_nothing_and_a_foreign_script_is_refused(browser):
    report = build_report("r1", HOSTILE, CREATED, START, END, [host_input(HOSTILE)], MODEL, FAULTS, [HOSTILE])
    html = render_html(report)
    page = browser.open(html.replace("</body>", "<script>document.title = 1</script></body>"))
    page.wait(ALL_DRAWN)
    (refused,) = page.complaints
    assert "Content Security Policy" in refused
    assert page.requests == set()
    assert page.value("document.images.length") == 0
    assert page.value("document.title") == f"{report.headline} – {HOSTILE}"
