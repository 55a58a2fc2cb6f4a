"""The table of jobs: filled from a CSV file, Slurm or Kubernetes, and listed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.timespec import parse_time

if TYPE_CHECKING:
    from reveal_core.jobtable import Job

CSV, SLURM, KUBERNETES = "csv", "slurm", "kubernetes"
KINDS = (CSV, SLURM, KUBERNETES)
STDIN = "-"
LISTED = timedelta(days=1)
"""How much of the table is listed where no start is given."""
SACCT_START = "now-1day"
"""How far back Slurm is asked for jobs; those that are known to run are asked for in any case."""
SACCT_TIMEOUT_S = 120.0
_TIME_FORMAT = "%Y-%m-%dT%H:%M:%S%z"
"""Has sacct print times with their zone."""
_MOST_IDS = 1000
"""Jobs that Slurm is asked for by their ids at once."""


def import_jobs(
    store: str, *, kind: str, file: str | None, timezone: str | None, labels: Sequence[str] = ()
) -> dict[str, Any]:
    """Put jobs into the table.

    Parameters
    ----------
    store
        Root of the store.
    kind
        One of `KINDS`.
    file
        What to read, ``-`` for standard input; None to ask Slurm itself.
    timezone
        Of times without one.
    labels
        Labels that name the job of a pod, by precedence; those that are usual if there are none.

    Returns
    -------
    dict
        ``jobs``, ``running`` (those whose end is not known) and ``hosts``: how many; ``files``: how many of
        the store changed; ``skipped``: what is not in the table, each ``item`` and ``reason``.

    Raises
    ------
    UsageError
        If there is no such kind, or the file is not what it should be: the line says where.
    UnavailableError
        If the store cannot be written, or Slurm cannot be asked.
    """
    from reveal_core.importing.findings import Findings
    from reveal_core.importing.job_pods import JOB_LABELS, gone, read_pods
    from reveal_core.importing.job_tables import read_csv, read_sacct
    from reveal_core.importing.times import parse_zone
    from storage.store import Store

    if kind not in KINDS:
        raise UsageError(f"there is no kind {kind!r} of jobs: choose from {', '.join(KINDS)}")
    if file is None and kind != SLURM:
        raise UsageError(f"reveal jobs import {kind} needs a file, or - for standard input")
    zone = parse_zone(timezone) if timezone is not None else None
    findings, seen = Findings(), datetime.now(UTC)
    text = read_text(file) if file is not None else ""
    where = "standard input" if file == STDIN else str(file)
    target = Store(store)
    jobs: list[Job] = []
    if kind == CSV:
        jobs += read_csv(text, where, zone, seen)
    elif kind == KUBERNETES:
        listed, namespaces = read_pods(text, where, labels or JOB_LABELS, seen, findings)
        jobs += [*listed, *gone(target.jobs(seen), listed, namespaces)]
    elif file is not None:
        jobs += read_sacct(text, where, zone, seen, findings)
    else:
        jobs += read_sacct(sacct([f"--starttime={SACCT_START}"]), "sacct", zone, seen, findings)
        told = {job.id for job in jobs}
        running = [job.id for job in target.jobs(seen) if job.end is None and job.source == SLURM]
        missing = [name for name in running if name not in told]
        for first in range(0, len(missing), _MOST_IDS):
            ids = ",".join(missing[first : first + _MOST_IDS])
            jobs += read_sacct(sacct([f"--jobs={ids}"]), "sacct", zone, seen, findings)
    target.check(write=True)
    return {
        "jobs": len(jobs),
        "running": sum(job.end is None for job in jobs),
        "hosts": len({one.host for job in jobs for one in job.hosts}),
        "files": len(target.put_jobs(jobs)),
        "skipped": findings.skipped,
    }


def read_text(file: str) -> str:
    """Return a file's text, or that of standard input.

    Raises
    ------
    UsageError
        If it is not there, cannot be read, or is no text in UTF-8.
    """
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{file} is not there") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is no text in UTF-8: byte {error.start} is none of a letter") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


def sacct(selection: Sequence[str]) -> str:
    """Return what Slurm's ``sacct`` prints of some jobs.

    Raises
    ------
    UnavailableError
        If it is not on this machine, does not end, or fails.
    """
    from reveal_core.importing.job_tables import SACCT_FORMAT

    command = ["sacct", "--allusers", "--allocations", "--parsable2", f"--format={SACCT_FORMAT}", *selection]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SACCT_TIMEOUT_S,
            env={**os.environ, "SLURM_TIME_FORMAT": _TIME_FORMAT},
        )
    except FileNotFoundError:
        raise UnavailableError(
            "sacct is not on this machine: run this where Slurm is, or give a file with its output"
        ) from None
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"sacct has not answered for {SACCT_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise UnavailableError(f"sacct cannot be run: {error.strerror}") from error
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[:200]
        raise UnavailableError(f"sacct failed with code {done.returncode}: {said or 'it says nothing'}")
    return done.stdout.decode("utf-8", "replace")


def list_jobs(store: str, *, host: str, start: str | None, end: str | None) -> list[dict[str, Any]]:
    """Return the jobs of a range that ran on hosts of some name, by start.

    Parameters
    ----------
    store
        Root of the store.
    host
        A host's label, or a shell pattern.
    start, end
        The range; without an end until now, without a start a day.

    Returns
    -------
    list of dict
        Fields of `reveal_core.jobtable.Job`.

    Raises
    ------
    UsageError
        If a time cannot be read, or the range is empty.
    UnavailableError
        If the store cannot be reached.
    """
    from reveal_core.incidents import iso
    from storage.store import Store

    until = parse_time(end) if end is not None else datetime.now(UTC)
    since = parse_time(start) if start is not None else until - LISTED
    if until <= since:
        raise UsageError(f"the range ends ({iso(until)}) before it starts ({iso(since)})")
    source = Store(store)
    source.check()
    jobs = source.jobs(since, until)
    return [job.to_dict() for job in jobs if any(fnmatchcase(one.host, host) for one in job.hosts)]
