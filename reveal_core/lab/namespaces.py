"""Entering a network namespace; light, so that ranks start fast.

Run as a module it tries whether this user may have a private one, and says why not.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_CLONE_NEWNET = 0x40000000
_CLONE_NEWUSER = 0x10000000
_MS_BIND, _MS_REC, _MS_SHARED, _MNT_DETACH = 0x1000, 0x4000, 0x100000, 2
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
NAMESPACES = Path("/run/netns")


def enter_namespace(name: str) -> None:
    """Move the calling thread into a network namespace under ``/run/netns``.

    Raises
    ------
    OSError
        If there is none of that name, or the right to enter it is missing.
    """
    _set_namespace(NAMESPACES / name, _CLONE_NEWNET)


def _set_namespace(path: Path, kind: int) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        libc_call("setns", descriptor, kind)
    finally:
        os.close(descriptor)


def libc_call(name: str, *arguments: int | bytes | None) -> None:
    """Call a function of the C library that returns 0 or sets errno.

    Raises
    ------
    OSError
        With its errno, if it fails.
    """
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def make_namespace(name: str) -> None:
    """Make a network namespace under ``/run/netns``, as ``ip netns add`` does.

    Raises
    ------
    OSError
        If the kernel refuses, or there is one of that name.
    """
    NAMESPACES.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder = os.fsencode(NAMESPACES)
    if str(NAMESPACES) not in _mount_points():  # on its own mount, what is bound below it spreads to all
        libc_call("mount", folder, folder, None, _MS_BIND | _MS_REC, None)
        libc_call("mount", None, folder, None, _MS_SHARED | _MS_REC, None)
    path = NAMESPACES / name
    path.touch(mode=0o444, exist_ok=False)

    def keep() -> None:
        libc_call("unshare", _CLONE_NEWNET)
        libc_call("mount", b"/proc/thread-self/ns/net", os.fsencode(path), None, _MS_BIND, None)

    in_namespace("", keep)


def remove_namespace(name: str) -> None:
    """Take a network namespace's name away; it ends with its last process."""
    path = NAMESPACES / name
    if not path.exists():
        return
    if str(path) in _mount_points():
        libc_call("umount2", os.fsencode(path), _MNT_DETACH)
    path.unlink()


def _mount_points() -> set[str]:
    # a bind mount of a folder on itself shows neither in its device nor in its inode
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {line.split()[4] for line in lines}


def enter_private_namespace() -> None:
    """Move the process into a new network namespace that it rules, in a new user namespace; needs no rights.

    Its loopback interface is up. The process must have a single thread.

    Raises
    ------
    OSError
        If this system does not let its users have user namespaces.
    """
    libc_call("unshare", _CLONE_NEWUSER | _CLONE_NEWNET)
    set_link("lo", True)


def set_link(interface: str, up: bool) -> None:
    """Set an interface of the calling thread's network namespace up or down.

    Raises
    ------
    OSError
        If there is none of that name, or the right is missing.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        name = interface.encode()
        request = fcntl.ioctl(sock, _SIOCGIFFLAGS, struct.pack("16sh14x", name, 0))
        flags = struct.unpack_from("h", request, 16)[0]
        flags = flags | _IFF_UP if up else flags & ~_IFF_UP
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh14x", name, flags))


def join_private_namespace(pid: int) -> None:
    """Move the process into the private namespaces of another one of the same user.

    Raises
    ------
    OSError
        If that process is gone, or is another user's.
    """
    _set_namespace(Path(f"/proc/{pid}/ns/user"), _CLONE_NEWUSER)
    _set_namespace(Path(f"/proc/{pid}/ns/net"), _CLONE_NEWNET)


def why_no_private_namespace() -> str:
    """Return why this user may not have a private network namespace, or ``""``; tried in a child."""
    trial = subprocess.run(
        [sys.executable, "-m", "reveal_core.lab.namespaces"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    if trial.returncode == 0:
        return ""
    lines = (trial.stdout + trial.stderr).strip().splitlines()
    return lines[-1] if lines else f"the trial ended with {trial.returncode}"


def in_namespace(name: str, work: Callable[[], T]) -> T:
    """Run work in a thread of its own inside a network namespace, ``""`` for the present one, and return its
    result.

    A thread of its own, because a namespace belongs to a thread.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            if name:
                enter_namespace(name)
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name=f"netns {name or 'host'}")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


if __name__ == "__main__":
    try:
        enter_private_namespace()
    except OSError as refusal:
        sys.exit(f"user namespaces are not allowed here: {refusal}")
