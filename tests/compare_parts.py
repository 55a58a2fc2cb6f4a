"""Parts of a comparison run in the test's own process, where a new one would take seconds to start."""

from __future__ import annotations

import json
from typing import Any

from reveal_core.errors import UsageError
from tasks.compare_job import answer


def in_this_process(kind: str, **arguments: Any) -> dict[str, Any]:
    """Run a job as its process would, without the seconds that a new process takes to start."""
    found = json.loads(json.dumps(answer(json.loads(json.dumps({"kind": kind, **arguments})))))
    if "error" in found:
        raise UsageError(found["message"])
    return found
