"""What a control group belongs to: a batch job, a container, a service, a session."""

from __future__ import annotations

import re
from collections.abc import Iterable

SHORT_ID = 12
"""Letters of a container's id that people use."""

_SLURM_JOB = re.compile(r"job_(\d+)")
_SLURM_PART = re.compile(r"(step|task)_([a-z0-9]+)")
_CONTAINER_ID = r"([0-9a-f]{64})"
_SCOPES = re.compile(
    rf"(docker|libpod|cri-containerd|containerd|crio|cri-o|nerdctl)[-:]{_CONTAINER_ID}(?:\.scope)?"
)
"""A container's own group: ``docker-ID.scope`` under systemd, ``…:cri-containerd:ID`` by containerd."""
_RUNTIMES = {
    "libpod": "podman",
    "cri-containerd": "containerd",
    "crio": "cri-o",
}
_POD = re.compile(
    r"(?:kubepods(?:-besteffort|-burstable)?-)?pod"
    r"([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?"
)
_POD_CLASS = re.compile(r"(?:kubepods-)?(besteffort|burstable)(?:\.slice)?")
_PBS = re.compile(r"(?:pbs_jobs-)?(\d+(?:\[\d*\])?\.[A-Za-z0-9_.-]+?)(?:\.slice)?")
_LSF = re.compile(r"job\.(\d+)(?:\.(\d+))?(?:\..*)?")
_USER = re.compile(r"user-(\d+)\.slice")
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


def job_name(path: str) -> str | None:
    """Return what people call the thing that a control group was made for.

    Parameters
    ----------
    path
        Of the group, with or without a leading slash, as in ``/proc/PID/cgroup``.

    Returns
    -------
    str or None
        Such as ``slurm job 123 step 0``, ``docker 0123456789ab``, ``pod 0f1e…-… containerd 0123456789ab``,
        ``service nginx``, ``user 1000 session 3``; None for a group that says nothing of the kind.

    Notes
    -----
    Names are those that Slurm (cgroup/v1 and cgroup/v2 plug-ins), OpenPBS, LSF, HTCondor, the kubelet with
    either of its drivers, Docker, containerd, CRI-O, Podman, LXC and systemd give their groups.

    Examples
    --------
    >>> job_name("/slurm/uid_1000/job_123/step_0")
    'slurm job 123 step 0'
    >>> job_name("system.slice/nginx.service")
    'service nginx'
    """
    parts = [part for part in path.split("/") if part]
    if not parts:
        return None
    for name in (_batch_job(parts), _container(parts), _unit(parts)):
        if name is not None:
            return name
    return None


def job_names(paths: Iterable[str]) -> dict[str, str]:
    """Return the names of those groups that have one, by path."""
    named = {path: job_name(path) for path in paths}
    return {path: name for path, name in named.items() if name is not None}


def _batch_job(parts: list[str]) -> str | None:
    top = parts[0]
    if top == "slurm" or top.startswith("slurm_") or any(p.endswith("slurmstepd.scope") for p in parts):
        words = []
        for part in parts:
            if job := _SLURM_JOB.fullmatch(part):
                words = ["slurm job", job[1]]
            elif words and (piece := _SLURM_PART.fullmatch(part)):
                words += piece.groups()
        return " ".join(words) or None
    if top.startswith("pbs_jobs"):
        found = [job[1] for part in parts[1:] if (job := _PBS.fullmatch(part))]
        return f"pbs job {found[0]}" if found else None
    if top == "lsf":
        found = [
            f"{job[1]}[{job[2]}]" if job[2] else job[1] for part in parts if (job := _LSF.fullmatch(part))
        ]
        return f"lsf job {found[0]}" if found else None
    slots = [part.partition("_slot")[2] for part in parts if part.startswith("condor_") and "_slot" in part]
    return f"htcondor slot {slots[0].partition('@')[0]}" if slots else None


def _container(parts: list[str]) -> str | None:
    pod = next((found[1] for part in parts if (found := _POD.fullmatch(part.partition(":")[0]))), None)
    words = ["pod", pod.replace("_", "-")] if pod else []
    for before, part in zip(["", *parts], parts, strict=False):
        scope = _SCOPES.fullmatch(part.rpartition(".slice:")[2])
        if scope:
            return " ".join([*words, _RUNTIMES.get(scope[1], scope[1]), scope[2][:SHORT_ID]])
        if re.fullmatch(_CONTAINER_ID, part) and (pod or before == "docker"):
            return " ".join([*words, before if before == "docker" else "container", part[:SHORT_ID]])
    if words:
        return " ".join(words)
    if parts[0] in ("kubepods", "kubepods.slice"):
        kind = next((found[1] for part in parts[1:] if (found := _POD_CLASS.fullmatch(part))), None)
        return f"pods {kind}" if kind else "pods"
    if parts[0] in ("lxc", "lxc.payload") and len(parts) > 1:
        return f"lxc {parts[1]}"
    if parts[0].startswith("lxc.payload."):
        return f"lxc {parts[0].removeprefix('lxc.payload.')}"
    return None


def _unit(parts: list[str]) -> str | None:
    """Return the innermost systemd unit: a service, a scope, else a user's slice."""
    user = next((found[1] for part in parts if (found := _USER.fullmatch(part))), None)
    for part in reversed(parts):
        name, _, kind = part.rpartition(".")
        name = _ESCAPE.sub(lambda code: chr(int(code[1], 16)), name)
        if user and (name == f"user@{user}" or part.endswith(".slice")):
            continue
        prefix = f"user {user} " if user else ""
        if kind == "service":
            return f"{prefix}service {name}"
        if kind == "scope":
            if name.startswith("machine-"):
                return f"{prefix}machine {name.removeprefix('machine-')}"
            if name.startswith("session-"):
                return f"{prefix}session {name.removeprefix('session-')}"
            return None if name == "init" else f"{prefix}scope {name}"
    return f"user {user}" if user else None
