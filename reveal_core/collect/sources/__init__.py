"""Every source, in the order in which they are read: one file each."""

from __future__ import annotations

from reveal_core.collect.source import Source
from reveal_core.collect.sources.cgroup import CgroupSource
from reveal_core.collect.sources.cgroup_detail import CgroupDetailSource
from reveal_core.collect.sources.cpufreq import CpufreqSource
from reveal_core.collect.sources.disks import DisksSource
from reveal_core.collect.sources.interrupts import InterruptsSource
from reveal_core.collect.sources.meminfo import MeminfoSource
from reveal_core.collect.sources.netdev import NetdevSource
from reveal_core.collect.sources.netns import NetnsSource
from reveal_core.collect.sources.numa import NumaSource
from reveal_core.collect.sources.power import PowerSource
from reveal_core.collect.sources.pressure import PressureSource
from reveal_core.collect.sources.protocols import ProtocolsSource
from reveal_core.collect.sources.schedstat import SchedstatSource
from reveal_core.collect.sources.sockstat import SockstatSource
from reveal_core.collect.sources.softirqs import SoftirqsSource
from reveal_core.collect.sources.softnet import SoftnetSource
from reveal_core.collect.sources.stat import StatSource
from reveal_core.collect.sources.thermal import ThermalSource
from reveal_core.collect.sources.vmstat import VmstatSource

SOURCES: tuple[type[Source], ...] = (
    StatSource,
    SchedstatSource,
    CpufreqSource,
    InterruptsSource,
    SoftirqsSource,
    PressureSource,
    MeminfoSource,
    VmstatSource,
    NumaSource,
    NetdevSource,
    ProtocolsSource,
    SockstatSource,
    SoftnetSource,
    NetnsSource,
    DisksSource,
    CgroupSource,
    CgroupDetailSource,
    ThermalSource,
    PowerSource,
)
