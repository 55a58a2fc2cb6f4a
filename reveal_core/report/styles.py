"""The look of pages, put together from small files: colours of both themes once, then the parts asked for.

The page that lists reports is the store's, and looks like a report: so this module imports nothing heavy.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

REPORT_PARTS = ("base", "tables", "plots", "fleet", "incident", "small")
INDEX_PARTS = ("base", "tables", "index")
_LIGHT = ':root:not([data-theme="light"])'


def own_text(name: str) -> str:
    """Return a file of the package's templates."""
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


@cache
def style(*parts: str) -> str:
    """Return a style sheet: the themes, the named parts, and what changes on paper.

    The dark colours hold where the reader's system asks for them, or the page's button has set them; paper is
    light whatever the screen was.
    """
    light, dark, paper = (own_text(f"{name}.css") for name in ("light", "dark", "paper"))
    sheets = [
        f":root {{\n{light}}}",
        f"@media (prefers-color-scheme: dark) {{ {_LIGHT} {{\n{dark}}} }}",
        f':root[data-theme="dark"] {{\n{dark}color-scheme: dark; }}',
        ':root[data-theme="light"] { color-scheme: light; }',
        *(own_text(f"{part}.css") for part in parts),
        f"@media print {{\n:root, :root[data-theme], {_LIGHT} {{\n{light}color-scheme: light; }}\n{paper}}}",
    ]
    return "\n".join(sheets)
