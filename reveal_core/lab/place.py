"""Where the lab keeps its state on a machine, and what it calls the things that it creates there."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from reveal_core.errors import UnavailableError


@dataclass(frozen=True)
class LabPlace:
    """A lab's state directory and the names derived from it.

    The default place is one per machine and user, so that a separately started injector finds the workload. A
    place of one's own (another state directory) gets other names, so that two labs do not tread on each
    other.

    Attributes
    ----------
    state_dir
        Directory of the state file, the journal of undo actions, the locks and the control sockets.
    name
        Name of the network namespace, of the cgroup and of the nftables table.
    links
        Names of the two ends of the veth pair: host's end, namespace's end.
    addresses
        IPv4 addresses of the two ends, out of the range set aside for benchmarks (RFC 2544, 198.18.0.0/15).
    """

    state_dir: Path
    name: str
    links: tuple[str, str]
    addresses: tuple[str, str]

    @property
    def state_file(self) -> Path:
        """The file that describes the running workload."""
        return self.state_dir / "workload.json"

    @property
    def journal_dir(self) -> Path:
        """The directory that holds one file for every action still to be undone."""
        return self.state_dir / "journal"


def default_state_dir() -> Path:
    """Return ``/run/reveal-lab`` for root, else a directory of the user's own."""
    if os.geteuid() == 0:
        return Path("/run/reveal-lab")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "reveal-lab"
    return Path(tempfile.gettempdir()) / f"reveal-lab-{os.geteuid()}"


def lab_place(state_dir: Path | None = None) -> LabPlace:
    """Return the lab's place, with its state directory created and private.

    Parameters
    ----------
    state_dir
        A state directory of one's own; the default one if not given.

    Raises
    ------
    UnavailableError
        If the directory cannot be created, or belongs to somebody else.
    """
    default = default_state_dir()
    path = (state_dir or default).absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (path / "journal").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UnavailableError(f"the lab's state directory {path} cannot be used: {error.strerror}") from None
    if path.stat().st_uid != os.geteuid():
        raise UnavailableError(f"the lab's state directory {path} belongs to another user")
    if path == default:
        return LabPlace(path, "reveal-lab", ("rvlab0", "rvlab1"), ("198.18.77.1", "198.18.77.2"))
    digest = hashlib.sha256(str(path).encode()).hexdigest()
    subnet = f"198.19.{int(digest[:2], 16)}"
    return LabPlace(
        path,
        f"reveal-lab-{digest[:6]}",
        (f"rv{digest[:6]}0", f"rv{digest[:6]}1"),
        (f"{subnet}.1", f"{subnet}.2"),
    )
