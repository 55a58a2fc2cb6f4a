"""A host far wider than this one, as a tree of files: to know what the collector costs there.

Every number moves between two steps the way it does on a busy host, so that nothing is spared by standing
still. The tree is written to a folder that should be in memory.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

SOFTIRQS = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU")
NODES = 8


class WideHost:
    """A tree of ``/proc`` and ``/sys``.

    Parameters
    ----------
    root
        An empty folder.
    cpus, interrupt_lines
        How wide it is.
    seed
        Of its numbers.
    """

    def __init__(self, root: Path, cpus: int = 512, interrupt_lines: int = 2000, seed: int = 0) -> None:
        self.root = root
        self.cpus = cpus
        self._random = np.random.default_rng(seed)
        self._stat = self._random.integers(1, 10**8, (cpus, 10))
        self._sched = self._random.integers(1, 10**15, (cpus, 3))
        self._soft = self._random.integers(1, 10**9, (len(SOFTIRQS), cpus))
        self._net = self._random.integers(0, 2**31, (cpus, 13))
        self._net[:, 12] = np.arange(cpus)  # whose row it is
        # A line fires on a few cores: those that its queue is bound to.
        self._irq = np.zeros((interrupt_lines, cpus), dtype=np.int64)
        self._owner = np.arange(interrupt_lines) % cpus
        self._lines: list[str] = []
        self._static()
        self.step()

    def _write(self, relative: str, text: str) -> None:
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")

    def show(self, frame: dict[str, str]) -> None:
        """Let the host say what it said at another time; files that are open stay the same files.

        Like the kernel's, they are never seen empty or cut short by who reads them meanwhile.
        """
        for relative, text in frame.items():
            path = self.root / relative
            if not path.exists():
                self._write(relative, text)
                continue
            with path.open("r+b") as file:
                file.write(text.encode("ascii"))
                file.truncate()

    def step(self) -> None:
        """Let a tick's worth of work happen on every CPU."""
        self.show(self.frame())

    def _static(self) -> None:
        self._write("proc/meminfo", "MemTotal: 1056000000 kB\nMemFree: 800000000 kB\nDirty: 1200 kB\n")
        self._write("proc/vmstat", "nr_free_pages 200000000\npgfault 123456\npgmajfault 12\n")
        for cpu in range(self.cpus):
            base = f"sys/devices/system/cpu/cpu{cpu}"
            self._write(f"{base}/cpufreq/scaling_cur_freq", f"{2_000_000 + cpu}\n")
            for kind in ("core", "package"):
                self._write(f"{base}/thermal_throttle/{kind}_throttle_count", "0\n")
        for node in range(NODES):
            base = f"sys/devices/system/node/node{node}"
            self._write(f"{base}/numastat", "numa_hit 100\nnuma_miss 0\nnuma_foreign 0\nlocal_node 100\n")
            self._write(f"{base}/meminfo", f"Node {node} MemFree: 100000000 kB\nNode {node} MemUsed: 5 kB\n")

    def frame(self) -> dict[str, str]:
        """Let a tick's worth of work happen on every CPU, and return what the host's files say then."""
        draw = self._random
        self._stat[:, :4] += draw.integers(0, 5, (self.cpus, 4))
        self._sched += draw.integers(0, 10**7, self._sched.shape)
        self._soft += draw.integers(0, 30, self._soft.shape)
        self._net[:, 0] += draw.integers(0, 50, self.cpus)
        stat = [f"cpu  {' '.join(map(str, self._stat.sum(axis=0).tolist()))}"]
        stat += [f"cpu{n} {' '.join(map(str, row))}" for n, row in enumerate(self._stat.tolist())]
        stat += ["intr 100 0 1 2", "ctxt 5", "btime 1700000000", "processes 7", "procs_running 3"]
        stat += ["procs_blocked 0", "softirq 9 1 2"]
        sched = ["version 15", "timestamp 1"]
        for n, (run, delay, slices) in enumerate(self._sched.tolist()):
            sched.append(f"cpu{n} 0 0 0 0 0 0 {run} {delay} {slices}")
        cores = "".join(f"CPU{n:<8}" for n in range(self.cpus))
        soft = [f"{name:>12}:" + "".join(f"{v:>11}" for v in row) for name, row in self._named(SOFTIRQS)]
        net = [" ".join(f"{int(value):08x}" for value in row) for row in self._net.tolist()]
        files = {
            "proc/stat": stat,
            "proc/schedstat": sched,
            "proc/softirqs": [" " * 20 + cores, *soft],
            "proc/net/softnet_stat": net,
            "proc/interrupts": [" " * 12 + cores, *self._interrupts()],
        }
        return {name: "\n".join(lines) + "\n" for name, lines in files.items()}

    def _named(self, names: tuple[str, ...]) -> list[tuple[str, list[int]]]:
        return list(zip(names, self._soft.tolist(), strict=True))

    def _interrupts(self) -> list[str]:
        busy = np.flatnonzero(self._random.random(len(self._irq)) < 0.2) if self._lines else None
        chosen = np.arange(len(self._irq)) if busy is None else busy
        self._irq[chosen, self._owner[chosen]] += self._random.integers(1, 100, len(chosen))
        if not self._lines:
            self._lines = [""] * len(self._irq)
        for n in chosen.tolist():
            cells = "".join(f"{value:>11}" for value in self._irq[n].tolist())
            self._lines[n] = f"{n:>5}:{cells}  PCI-MSI {n}-edge      nic{n // 64}-q{n % 64}"
        return self._lines
