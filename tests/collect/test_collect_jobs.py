"""Names of jobs, containers, services and sessions, from the control groups that are made for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.collect.jobs import job_name, job_names

ID = "0123456789abcdef" * 4
SHORT = "0123456789ab"
POD = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
POD_ = POD.replace("-", "_")

NAMES = {
    # Slurm, plug-in cgroup/v1, on one daemon a host and on several.
    "slurm/uid_1000/job_123/step_0": "slurm job 123 step 0",
    "slurm/uid_1000/job_123/step_batch/task_0": "slurm job 123 step batch task 0",
    "slurm/uid_1000/job_123": "slurm job 123",
    "slurm_node17/uid_1000/job_7/step_extern": "slurm job 7 step extern",
    "slurm/uid_1000": None,
    "slurm": None,
    "slurm/system": None,
    # Slurm, plug-in cgroup/v2.
    "system.slice/slurmstepd.scope/job_123/step_0/user/task_3": "slurm job 123 step 0 task 3",
    "system.slice/node17_slurmstepd.scope/job_9/step_interactive/slurm": "slurm job 9 step interactive",
    "system.slice/slurmstepd.scope/system": "scope slurmstepd",
    # Other batch systems.
    "pbs_jobs.service/jobid/4711.pbs-server": "pbs job 4711.pbs-server",
    "pbs_jobs.slice/pbs_jobs-4711.pbs.slice": "pbs job 4711.pbs",
    "lsf/cluster1/job.4711.12345.1600000000": "lsf job 4711[12345]",
    "htcondor/condor_var_lib_condor_execute_slot1_2@node17": "htcondor slot 1_2",
    # Containers.
    f"docker/{ID}": f"docker {SHORT}",
    f"system.slice/docker-{ID}.scope": f"docker {SHORT}",
    f"machine.slice/libpod-{ID}.scope/container": f"podman {SHORT}",
    f"user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope": f"podman {SHORT}",
    f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD_}.slice/cri-containerd-{ID}.scope": (
        f"pod {POD} containerd {SHORT}"
    ),
    f"kubepods.slice/kubepods-pod{POD_}.slice/crio-{ID}.scope": f"pod {POD} cri-o {SHORT}",
    f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD_}.slice": f"pod {POD}",
    f"kubepods/besteffort/pod{POD}/{ID}": f"pod {POD} container {SHORT}",
    f"kubepods/pod{POD}": f"pod {POD}",
    f"system.slice/containerd.service/kubepods-burstable-pod{POD_}.slice:cri-containerd:{ID}": (
        f"pod {POD} containerd {SHORT}"
    ),
    "kubepods.slice/kubepods-burstable.slice": "pods burstable",
    "kubepods.slice": "pods",
    "lxc/web": "lxc web",
    "lxc.payload.web/init.scope": "lxc web",
    # systemd.
    "system.slice/nginx.service": "service nginx",
    "system.slice/system-getty.slice/getty@tty1.service": "service getty@tty1",
    "system.slice/dev\\x2dhugepages.mount": None,
    "machine.slice/machine-qemu\\x2d1\\x2dweb.scope": "machine qemu-1-web",
    "user.slice/user-1000.slice/session-3.scope": "user 1000 session 3",
    "user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service": "user 1000 service jupyter",
    "user.slice/user-1000.slice/user@1000.service": "user 1000",
    "user.slice": None,
    "init.scope": None,
    # Nobody's.
    "": None,
    "/": None,
    "reveal-lab/victim": None,
    ID: None,
}


@pytest.mark.parametrize("path", NAMES)
def test_names(path: str) -> None:
    assert job_name(path) == NAMES[path]
    assert job_name(f"/{path}") == NAMES[path]


def test_groups_without_a_name_are_left_out() -> None:
    assert job_names(["reveal-lab", "slurm/uid_1/job_2"]) == {"slurm/uid_1/job_2": "slurm job 2"}


words = st.one_of(
    st.sampled_from([part for path in NAMES for part in path.split("/")]),
    st.text(alphabet="abjs_-.:@\\x0123[]", max_size=12),
)


@given(st.lists(words, max_size=5).map("/".join))
def test_any_path_has_one_line_or_none(path: str) -> None:
    name = job_name(path)
    assert name is None or (name.strip() == name and name and "\n" not in name)
