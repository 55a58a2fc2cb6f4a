"""Draw the reports that the documentation shows, from samples made from a seed.

    .venv/bin/python tests/report/report_pictures.py --out docs
    .venv/bin/python tests/report/report_pictures.py --out /some/folder --whole

The first writes the pictures that docs/reports.md shows. With ``--whole`` every sample is drawn from top to
bottom, on a desk, on a telephone, in the dark and as pages of paper: to be looked at after a change of looks.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from pathlib import Path

from headless_browser import Browser, Page
from PIL import Image
from sample_reports import fifty_hosts, one_incident, quiet_hour

from reveal_core.report.render_html import render_html

SAMPLES = {"quiet": quiet_hour, "incident": one_incident, "fleet": fifty_hosts}
HEIGHTS = {"quiet": 1030, "incident": 1960, "fleet": 1930}
"""How much of each page the documentation shows, in pixels."""
BEGINS = {"quiet": "body", "incident": "article", "fleet": "body"}
"""What it shows first."""
DESK, PHONE = 1200, 390
TALLEST = 16_000
"""A picture taller than this is cut: browsers draw no more at once."""
SETTLED = """[...document.querySelectorAll('figure.plot:not(.drawn)')].every(
  (figure) => !figure.checkVisibility() || figure.getBoundingClientRect().top > innerHeight)"""
"""Every plot is drawn that is neither folded away nor below what the view shows."""


def main() -> None:
    """Draw the pictures into a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--whole", action="store_true")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        browser = Browser(Path(folder))
        try:
            for name, sample in SAMPLES.items():
                draw(browser, name, render_html(sample()), arguments.out, whole=arguments.whole)
        finally:
            browser.close()


def draw(browser: Browser, name: str, html: str, out: Path, *, whole: bool) -> None:
    """Draw one page: its beginning for the documentation, or all of it in every way it is read."""
    if not whole:
        page = browser.open(html, width=DESK, height=TALLEST)
        page.wait(SETTLED)
        top = page.value(f"document.querySelector({BEGINS[name]!r}).getBoundingClientRect().top - 20")
        save(page, out / f"report-{name}.png", HEIGHTS[name], max(round(top), 0))
        return
    (out / f"report-{name}.html").write_text(html, encoding="utf-8")
    for way, width, scheme in (("desk", DESK, "light"), ("phone", PHONE, "light"), ("dark", DESK, "dark")):
        page = browser.open(html, width=width, height=TALLEST, scheme=scheme)
        page.wait(SETTLED)
        save(page, out / f"report-{name}-{way}.png", min(page.value("document.body.scrollHeight"), TALLEST))
    (out / f"report-{name}.pdf").write_bytes(page.paper())


def save(page: Page, path: Path, height: int, top: int = 0) -> None:
    """Save what a page shows, in a file as small as its colours allow."""
    image = Image.open(io.BytesIO(page.picture(height, top))).convert("RGB")
    # Not by the median, which would give rare colours, such as those of a subsystem, to their neighbours.
    image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {image.width} x {image.height}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
