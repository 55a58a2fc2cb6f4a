"""Protocol counters and interfaces of every network namespace in use, not of the agent's own alone.

``/proc/net`` shows only the reader's namespace, so a container's retransmits are invisible there;
``/proc/PID/net`` of a process inside shows them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from reveal_core.collect.columns import Columns
from reveal_core.collect.files import HostFile, read_text
from reveal_core.collect.parts import Part
from reveal_core.collect.source import Source, left_out_note
from reveal_core.collect.sources.netdev import NetdevPart
from reveal_core.collect.sources.protocols import FILES, ProtocolsPart
from reveal_core.collect.sources.sockstat import SockstatPart

MAX_NAMESPACES = 16
FULL_SEARCH = 10
"""Every so many discoveries all processes are asked, else only those not yet known:

entering a namespace late is rare.
"""
NEW_FOR = 3
"""For so many discoveries a process counts as new, because it may enter its namespace some time after it
began.
"""


@dataclass
class Namespace:
    """A namespace that is read: its name, the process it is read through, and its parts."""

    name: str
    pid: str
    parts: list[Part]


class NetnsSource(Source):
    """Other namespaces, found every three seconds, read through one process each.

    An open file of a namespace keeps the namespace alive, so its files are closed at the first discovery
    that finds no process in it. A namespace without a process has no traffic of its own and is not read.
    """

    name = "netns"
    rescan_ms = 3000

    def __init__(self, root: Path, columns: Columns) -> None:
        super().__init__(root, columns)
        self.own = ""
        self.namespaces: dict[str, Namespace] = {}
        self.ages: dict[str, int] = {}
        self.discoveries = 0
        self.left_out = 0

    def probe(self) -> str | None:
        """See `Source.probe`."""
        link = self.path("proc/self/ns/net")
        try:
            self.own = os.readlink(link)
        except OSError as error:
            return f"{link}: {(error.strerror or str(error)).lower()}"
        return None

    @property
    def notes(self) -> list[str]:
        """See `Source.notes`."""
        return left_out_note(self.left_out, "namespaces are in use", MAX_NAMESPACES)

    def open(self) -> None:
        """See `Source.open`."""

    def rescan(self) -> None:
        """See `Source.rescan`."""
        for link, namespace in list(self.namespaces.items()):
            if self._link(namespace.pid) != link:
                del self.namespaces[link]
                for part in namespace.parts:
                    part.close()
                self.discoveries = 0  # another process may still be in there: ask them all
        members = self._members()
        new = [link for link in members if link not in self.namespaces and link != self.own]
        room = MAX_NAMESPACES - len(self.namespaces)
        self.left_out = max(0, len(new) - room)
        names = self._names() if new else {}
        for link in sorted(new)[:room]:
            pid = members[link]
            name = self._name(link, pid, names)
            self.namespaces[link] = Namespace(name, pid, self._open(pid, name))
        self.parts = [part for namespace in self.namespaces.values() for part in namespace.parts]

    def _link(self, pid: str) -> str | None:
        """Return ``net:[inode]`` of a process; None if it is gone or may not be asked."""
        try:
            return os.readlink(self.path(f"proc/{pid}/ns/net"))
        except OSError:
            return None

    def _members(self) -> dict[str, str]:
        """Return a process of each namespace that was found among the processes asked."""
        full = self.discoveries % FULL_SEARCH == 0
        self.discoveries += 1
        pids = [entry for entry in os.listdir(self.path("proc")) if entry.isdigit()]
        ages = {pid: self.ages.get(pid, 0) + 1 for pid in pids}
        members: dict[str, str] = {}
        for pid in pids:
            if full or ages[pid] <= NEW_FOR:
                link = self._link(pid)
                if link is not None:
                    members.setdefault(link, pid)
        self.ages = ages
        return members

    def _names(self) -> dict[int, str]:
        """Return the names under /run/netns by inode."""
        names = {}
        for folder in ("run/netns", "var/run/netns"):
            path = self.path(folder)
            if path.is_dir():
                for entry in sorted(os.listdir(path)):
                    try:
                        names[os.stat(path / entry).st_ino] = entry
                    except OSError:
                        continue  # deleted while we looked
        return names

    def _name(self, link: str, pid: str, names: dict[int, str]) -> str:
        """Return what people call a namespace: its own name, else its container's, else its inode."""
        inode = link.removeprefix("net:[").removesuffix("]")
        name = names.get(int(inode)) if inode.isdigit() else None
        name = name or self._container(pid) or f"net:{inode}"
        taken = any(namespace.name == name for namespace in self.namespaces.values())
        return f"{name}-{inode}" if taken else name

    def _container(self, pid: str) -> str | None:
        """Return the last part of a process's control group, unless the agent shares it or it is the root."""
        own = set((read_text(self.path("proc/self/cgroup")) or "").splitlines())
        for line in (read_text(self.path(f"proc/{pid}/cgroup")) or "").splitlines():
            path = line.split(":", 2)[-1]
            if line not in own and path != "/":
                return path.rsplit("/", 1)[-1].removesuffix(".scope").removesuffix(".service")
        return None

    def _open(self, pid: str, name: str) -> list[Part]:
        folder = self.path(f"proc/{pid}/net")
        parts: list[Part] = [
            ProtocolsPart(HostFile(folder / file, whole=True), self.columns, name) for file in FILES
        ]
        parts.append(NetdevPart(HostFile(folder / "dev"), self.columns, name))
        parts.append(SockstatPart(HostFile(folder / "sockstat", whole=True), self.columns, name))
        return parts
