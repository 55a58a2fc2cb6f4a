"""The cause catalogue as a page for people: ``docs/causes.md``.

``python -m reveal_core.attribute.document docs/causes.md`` writes it anew after the catalogue changed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from reveal_core.attribute.causes import Cause, Term, load_causes
from reveal_core.attribute.matching import LEAST_CONFIDENCE
from reveal_core.channels import SUBSYSTEMS
from reveal_core.incidents import ACTIONS

_TITLES = {"cpu": "CPU", "gpu": "GPU", "memory": "Memory", "network": "Network", "storage": "Storage"}

_INTRODUCTION = """\
# Causes

Everything that Reveal can name as the cause of an incident. This page is made from the catalogue
(`reveal_core/attribute/causes`) by `python -m reveal_core.attribute.document docs/causes.md`: change the
catalogue, not the page.

A cause is recognised by the directions in which metrics leave the band that they kept while the host was
healthy, in standard units, never by a threshold of one workload. Each line under *shows by* is one signal
with the metrics that can carry it: the one that moved furthest speaks, and how far it moved decides how much
it counts. **Required** signals must be there. What stands under *speaks against it* lowers the confidence,
because it explains the same by something else. Signals that a host does not sample are left out of the
reckoning: they can neither speak for a cause nor be missed. Metrics are those of [metrics.md](metrics.md); a
trailing `.change` is the change of a stock per second, and `telemetry.coverage.<source>` the share of a
source's samples that arrived.

Causes are ranked by confidence, and none is named below {least}: then the cause is *unknown*, and the report
shows what moved. What a cause suggests to do is one of: {actions}. Errors of programs, ends of jobs and
phases that Reveal has not seen suggest to check the application: the hardware is not blamed for them.

## Adding a cause

An entry is data. Add it to the file of its subsystem in `reveal_core/attribute/causes`:

```toml
[[cause]]
id = "scratch-disk-full"             # lower case, digits and hyphens; unique
title = "The scratch disk is full"   # as a headline
subsystem = "storage"                # {subsystems}
explanation = "Whole sentences: what happens, and why the job feels it."
fix = "Whole sentences: what to do about it."
action = "check-application"         # one of those above
source = "statvfs(3)"                # kernel documentation, a standard, a manual, a paper
commands = ["df -h"]                 # to copy
checks = ["Which file grew?"]        # questions that confirm it or rule it out
terms = [                            # what it moves
  {{ says = "space was used up faster", up = ["fs.used.change"], weight = 3, required = true }},
  {{ says = "less was written in the end", down = ["disk.write_sectors"] }},
]
against = [                          # what would explain the same by something else
  {{ says = "the file system reported errors", up = ["fs.errors_count"], weight = 2 }},
]
```

A term has `says`, the clause that words the evidence before the value and its normal band, and `up` and
`down`, lists of metrics (shell patterns) that are alternatives. Optional are `weight` (1), `gain` (1; more
where a move too small for an alarm is telling once something else has raised one, of all its metrics or of
those that match `close`), `required` (false), and
`parts` (some of `value`, `mean`, `max`, `imbalance`) and `statistic` (`level`, `spread`, ...), which restrict
it to such features. Instead of directions a term may have a `state` with `codes`, for states that number what
happened. At least one term is required. An entry may have `same_signals`, ids of causes that
signals cannot tell from it, with the reason in `caveat`; and `at_most`, a confidence that it never exceeds,
for what is said only for want of anything better.

1. Ask what else moves the same metrics, and let terms and `against` tell them apart: `against` is worth as
   much thought as `terms`.
2. Where a single term is required, its metrics should be of the cause's own subsystem, so that one odd metric
   cannot name another subsystem.
3. `python -m reveal_core.attribute.document docs/causes.md`, then `python -m pytest tests/attribute`: the
   tests check that every metric exists, that the entry is named first by its own signals, and that what
   speaks against it lowers it. A malformed entry is told in one line that names file, entry and field.
"""


def render_causes() -> str:
    """Return the catalogue as Markdown: how it is read and added to, then a section per subsystem."""
    introduction = _INTRODUCTION.format(
        least=f"{LEAST_CONFIDENCE:.0%}",
        actions=", ".join(f"*{words}* (`{name}`)" for name, words in ACTIONS.items()),
        subsystems=", ".join(SUBSYSTEMS),
    )
    parts = [introduction]
    for subsystem in SUBSYSTEMS:
        causes = [cause for cause in load_causes() if cause.subsystem == subsystem]
        parts.append(f"## {_TITLES[subsystem]}\n")
        parts += [f"- [{cause.title}](#{cause.id})" for cause in causes]
        parts.append("")
        parts += [_section(cause) for cause in causes]
    return "\n".join(parts)


def _section(cause: Cause) -> str:
    lines = [
        f'<a id="{cause.id}"></a>',
        "",
        f"### {cause.title}",
        "",
        f"`{cause.id}`. {_prose(cause.explanation)}",
        "",
        "*Shows by*",
        "",
        *(_line(term) for term in cause.terms),
        "",
    ]
    if cause.against:
        lines += ["*Speaks against it*", "", *(_line(term) for term in cause.against), ""]
    if cause.same_signals:
        others = ", ".join(f"[{other}](#{other})" for other in cause.same_signals)
        lines += [f"*Not told apart by signals* from {others}: {cause.caveat}", ""]
    if cause.at_most < 1.0:
        lines += [f"Its confidence is never above {cause.at_most:.0%}.", ""]
    lines += [
        "*To confirm*",
        "",
        *(f"- {_prose(check)}" for check in cause.checks),
        "",
        "```sh",
        *cause.commands,
        "```",
        "",
    ]
    lines += [
        f"*What to do* ({ACTIONS[cause.action]}): {_prose(cause.fix)}",
        "",
        f"*Source*: {cause.source}",
        "",
    ]
    return "\n".join(lines)


def _line(term: Term) -> str:
    """Return a term as a line of a list."""
    told = [
        f"{_listed([f'`{metric}`' for metric in metrics])} {direction}"
        for metrics, direction in ((term.up, "up"), (term.down, "down"))
        if metrics
    ]
    if term.state:
        told = [f"`{term.state}` is {_listed([str(code) for code in term.codes])}"]
    within = [part for part in (*term.parts, term.statistic) if part]
    note = f" ({_listed(within)})" if within else ""
    required = "**required**, " if term.required else ""
    return f"- {required}{_prose(term.says)}: {'; or '.join(told)}{note}"


def _listed(items: Sequence[str]) -> str:
    """Return items as people list them: ``a, b or c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} or {items[-1]}"


def _prose(text: str) -> str:
    """Return text in which a placeholder such as ``<pid>`` is not taken for a tag."""
    return text.replace("<", "\\<")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_causes(), encoding="utf-8")
