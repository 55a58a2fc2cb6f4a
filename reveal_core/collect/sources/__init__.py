"""Every source, in the order in which they are read: one file each."""

from __future__ import annotations

from reveal_core.collect.source import Source
from reveal_core.collect.sources.amdgpu import AmdGpuSource
from reveal_core.collect.sources.blockdev import BlockdevSource
from reveal_core.collect.sources.cgroup import CgroupSource
from reveal_core.collect.sources.cgroup_detail import CgroupDetailSource
from reveal_core.collect.sources.conntrack import ConntrackSource
from reveal_core.collect.sources.cpufreq import CpufreqSource
from reveal_core.collect.sources.cpuidle import CpuidleSource
from reveal_core.collect.sources.disks import DisksSource
from reveal_core.collect.sources.edac import EdacSource
from reveal_core.collect.sources.ethtool import EthtoolSource
from reveal_core.collect.sources.filesystems import FilesystemsSource
from reveal_core.collect.sources.hugepages import HugepagesSource
from reveal_core.collect.sources.hwmon import HwmonSource
from reveal_core.collect.sources.infiniband import InfinibandDetailSource, InfinibandSource
from reveal_core.collect.sources.interrupts import InterruptsSource
from reveal_core.collect.sources.ipv6 import Ipv6Source
from reveal_core.collect.sources.link import LinkSource
from reveal_core.collect.sources.listen import ListenSource
from reveal_core.collect.sources.lustre import LustreSource
from reveal_core.collect.sources.lustre_targets import LustreTargetsSource
from reveal_core.collect.sources.meminfo import MeminfoSource
from reveal_core.collect.sources.netdev import NetdevSource
from reveal_core.collect.sources.netns import NetnsSource
from reveal_core.collect.sources.nfs import NfsSource
from reveal_core.collect.sources.numa import NumaSource
from reveal_core.collect.sources.nvme import NvmeSource
from reveal_core.collect.sources.nvml import NvmlDetailSource, NvmlHealthSource, NvmlSource
from reveal_core.collect.sources.perf import PerfSource
from reveal_core.collect.sources.power import PowerSource
from reveal_core.collect.sources.pressure import PressureSource
from reveal_core.collect.sources.protocols import ProtocolsSource
from reveal_core.collect.sources.qdisc import QdiscSource
from reveal_core.collect.sources.schedstat import SchedstatSource
from reveal_core.collect.sources.sockets import SocketsSource
from reveal_core.collect.sources.sockstat import SockstatSource
from reveal_core.collect.sources.softirqs import SoftirqsSource
from reveal_core.collect.sources.softnet import SoftnetSource
from reveal_core.collect.sources.stat import StatSource
from reveal_core.collect.sources.thermal import ThermalSource
from reveal_core.collect.sources.throttle import LimitsSource, ThrottleSource
from reveal_core.collect.sources.vmstat import VmstatSource

SOURCES: tuple[type[Source], ...] = (
    StatSource,
    SchedstatSource,
    CpufreqSource,
    PerfSource,
    CpuidleSource,
    ThrottleSource,
    LimitsSource,
    InterruptsSource,
    SoftirqsSource,
    PressureSource,
    MeminfoSource,
    VmstatSource,
    NumaSource,
    HugepagesSource,
    EdacSource,
    NetdevSource,
    QdiscSource,
    LinkSource,
    EthtoolSource,
    InfinibandSource,
    InfinibandDetailSource,
    ProtocolsSource,
    SockstatSource,
    SocketsSource,
    Ipv6Source,
    SoftnetSource,
    ConntrackSource,
    ListenSource,
    NetnsSource,
    DisksSource,
    BlockdevSource,
    NvmeSource,
    FilesystemsSource,
    NfsSource,
    LustreSource,
    LustreTargetsSource,
    CgroupSource,
    CgroupDetailSource,
    NvmlSource,
    NvmlDetailSource,
    NvmlHealthSource,
    AmdGpuSource,
    ThermalSource,
    HwmonSource,
    PowerSource,
)
