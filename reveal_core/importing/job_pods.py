"""Jobs as Kubernetes tells of them: the pods that ``kubectl get pods -A -o json`` lists, by their labels."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from reveal_core.errors import UsageError
from reveal_core.importing.findings import Findings
from reveal_core.importing.job_tables import event_time
from reveal_core.jobtable import Job, JobHost, new_job

JOB_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name",
    "training.kubeflow.org/job-name",
    "ray.io/cluster",
    "volcano.sh/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
"""Labels that name a pod's job, by precedence: what is made of several jobs goes before its parts."""

SOURCE = "kubernetes"
_MOMENT = timedelta(milliseconds=1)
_OVER = ("Succeeded", "Failed")
"""Phases of a pod that runs no longer."""


@dataclass(frozen=True)
class _Pod:
    node: str
    start: datetime
    end: datetime | None


def read_pods(
    text: str, where: str, labels: Sequence[str], seen: datetime, findings: Findings
) -> tuple[tuple[Job, ...], frozenset[str]]:
    """Return the jobs whose pods a list holds, and the namespaces that the list is of: one pod is of none.

    A job is on the nodes of its pods that run, once all are over on those of all. It begins with the first of
    them and is over with the last. Its id is namespace and name, for a name is one's own in a namespace only.

    Parameters
    ----------
    text
        JSON: a list of pods, or one pod.
    where
        What it is called, for messages.
    labels
        Names of labels, of which the first that a pod has names its job.
    seen
        When the list was read.
    findings
        Is told of pods that are left out.

    Raises
    ------
    UsageError
        If it is no such list; the line says where.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is no JSON: {error}") from None
    findings.where = where
    pods: dict[tuple[str, str], list[_Pod]] = {}
    namespaces: set[str] = set()
    for number, item in enumerate(_items(document, where), 1):
        place = f"{where}, item {number}"
        namespaces.add(_namespace(_table(item, "metadata", place)))
        found = _pod(item, place, labels, seen, findings)
        if found is not None:
            pods.setdefault(found[0], []).append(found[1])
    jobs = tuple(_job(key, mine, where, seen) for key, mine in pods.items())
    return jobs, frozenset(namespaces) if "items" in document else frozenset()


def gone(known: Iterable[Job], listed: Iterable[Job], namespaces: Collection[str]) -> list[Job]:
    """Return jobs that ran when they were last seen and have no pod any more, as over since then.

    Parameters
    ----------
    known
        Jobs of the table.
    listed
        Jobs of a list of pods.
    namespaces
        The namespaces that the list speaks of; of others nothing is said.
    """
    told = {job.id for job in listed}
    return [
        replace(job, end=max(job.seen or job.start, job.start + _MOMENT), seen=None)
        for job in known
        if job.end is None
        and job.source == SOURCE
        and job.id not in told
        and job.id.partition("/")[0] in namespaces
    ]


def _items(document: Any, where: str) -> Iterator[Mapping[str, Any]]:
    wrong = UsageError(f"{where} is no list of pods: write it with kubectl get pods -A -o json")
    if not isinstance(document, dict):
        raise wrong
    items = [document] if document.get("kind") == "Pod" else document.get("items")
    if not isinstance(items, list):
        raise wrong
    for number, item in enumerate(items, 1):
        kind = item.get("kind", "Pod") if isinstance(item, dict) else type(item).__name__
        if kind != "Pod":
            raise UsageError(f"{where}, item {number}: a Pod is expected, not a {kind}")
        yield item


def _pod(
    item: Mapping[str, Any], place: str, labels: Sequence[str], seen: datetime, findings: Findings
) -> tuple[tuple[str, str], _Pod] | None:
    metadata, spec, status = (_table(item, name, place) for name in ("metadata", "spec", "status"))
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise UsageError(f"{place}: it has no metadata.name")
    given = _table(metadata, "labels", place)
    job = next((given[label] for label in labels if given.get(label)), None)
    if job is None:
        findings.skip("pods that no label names a job of", detail=name)
        return None
    if not spec.get("nodeName") or not status.get("startTime"):
        findings.skip("pods that no node has taken yet", detail=name)
        return None
    start = event_time(str(status["startTime"]), None, f"{place} ({name})")
    end = _end(status, start, f"{place} ({name})", seen) if status.get("phase") in _OVER else None
    if end is not None and end <= start:
        findings.skip("pods that ran for no time", detail=name)
        return None
    return (_namespace(metadata), str(job)), _Pod(str(spec["nodeName"]), start, end)


def _namespace(metadata: Mapping[str, Any]) -> str:
    return str(metadata.get("namespace") or "default")


def _table(item: Mapping[str, Any], name: str, place: str) -> Mapping[str, Any]:
    """Return a table within an item; an empty one where there is none."""
    found = item.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise UsageError(f"{place}: {name} is no table")
    return found


def _end(status: Mapping[str, Any], start: datetime, place: str, seen: datetime) -> datetime:
    """Return when a pod was over, by its containers; of an evicted one only the list tells that it was."""
    states = status.get("containerStatuses")
    ends = [
        state["state"]["terminated"]["finishedAt"]
        for state in (states if isinstance(states, list) else ())
        if _has(state, "state", "terminated", "finishedAt")
    ]
    times = [event_time(str(end), None, place) for end in ends if end]
    return max(times, default=max(start, seen))


def _has(value: Any, *names: str) -> bool:
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def _job(key: tuple[str, str], pods: Sequence[_Pod], where: str, seen: datetime) -> Job:
    running = [pod for pod in pods if pod.end is None]
    ends = [pod.end for pod in pods if pod.end is not None]
    return new_job(
        where,
        id="/".join(key),
        name=key[1],
        start=min(pod.start for pod in pods),
        end=None if running else max(ends),
        hosts=[JobHost(pod.node) for pod in running or pods],
        source=SOURCE,
        seen=seen,
    )
