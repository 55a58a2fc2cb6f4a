"""The injector: a small process that injects the faults that it reads from standard input.

It is started before anything is measured, because starting a process at a fault's onset would itself be a
disturbance; and it is apart from who asks for them, whose many threads and libraries do not go well with
network namespaces and signals.

Each line in is a JSON document ``{"fault", "seconds", "intensity"}``; each line out is ``{"name", "start",
"end", "how", "pace"}`` or ``{"error"}``.
"""

from __future__ import annotations

import json
import sys
from typing import TextIO

from reveal_core.errors import RevealError
from reveal_core.incidents import iso
from reveal_core.lab.faults import inject
from reveal_core.lab.processes import termination_unwinds


def serve(requests: TextIO, answers: TextIO) -> None:
    """Inject what is asked for until the requests end; SIGTERM undoes the present fault and ends it."""
    with termination_unwinds():
        for line in requests:
            request = json.loads(line)
            try:
                run = inject(request["fault"], duration_s=request["seconds"], intensity=request["intensity"])
                answer = {
                    "name": run.name,
                    "start": iso(run.onset),
                    "end": iso(run.end),
                    "how": run.how,
                    "pace": run.pace,
                }
            except RevealError as error:
                answer = {"error": str(error)}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
