"""The metric catalogue as a page for people: ``docs/metrics.md``.

``python -m reveal_core.catalog.document docs/metrics.md`` writes it anew after the catalogue changed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from reveal_core.catalog import Metric, catalog_files, load_catalog

_INTRODUCTION = """\
# Metrics

Every metric that Reveal knows, by the kernel's own names. This page is made from the catalogue
(`reveal_core/catalog/metrics`) by `python -m reveal_core.catalog.document docs/metrics.md`: change the
catalogue, not the page.

- *unit* is what people see: of the rate for a counter, of the level for a gauge. Counters are stored raw.
- *event*: stands still while all is well, so it is kept although it never moved while a model learned.
- *failure*: an event that is a fault by itself, of the hardware or of the clock: a single one is an incident.
- *capacity*: says what a device can do, whatever a job does: a fall of it is an incident.
- *stock*: stays displaced long after its cause, so it is judged by change.
- *dips*: the kernel may let it go back a little, which counts as no increase.
- *transient*: instances come and go with jobs, so of them the highest counts and not their mean.
"""

_MARKS = ("event", "failure", "capacity", "stock", "dips", "transient")


def render_catalog() -> str:
    """Return the catalogue as Markdown: a section per file, a line per metric, then what is left out."""
    catalog = load_catalog()
    parts = [_INTRODUCTION]
    for file in catalog_files():
        parts += [f"## {file.name.removesuffix('.toml')}\n", f"{file.comment}\n"]
        parts += ["| metric | subsystem | kind | unit | marks | description |", "|---|---|---|---|---|---|"]
        parts += [_row(catalog[name]) for name in file.data["metrics"]]
        left_out = file.data.get("left_out", {})
        if left_out:
            parts += [
                "\nLeft out: " + "; ".join(f"`{name}` ({reason})" for name, reason in left_out.items()) + "."
            ]
        parts.append("")
    return "\n".join(parts)


def _row(metric: Metric) -> str:
    marks = [name for name in _MARKS if getattr(metric, name)]
    cells = (
        f"`{metric.name}`",
        metric.subsystem,
        metric.kind,
        metric.physical_unit,
        ", ".join(marks),
        metric.description,
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_catalog(), encoding="utf-8")
