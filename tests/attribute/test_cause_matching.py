"""How signals are matched with the catalogue: each cause first by its own, and unknown where none fits."""

from fnmatch import fnmatchcase

import pytest

from reveal_core.attribute.causes import Term, load_causes
from reveal_core.attribute.explain import blend
from reveal_core.attribute.matching import (
    LEAST_CONFIDENCE,
    Signal,
    Signals,
    match,
    rank_causes,
    speaking,
    speaks_for,
    strength,
)
from reveal_core.catalog import is_failure, load_catalog
from reveal_core.incidents import SubsystemShare

CAUSES = {c.id: c for c in load_causes()}
CONTRADICTED = {c.id: c for c in CAUSES.values() if c.against}


def word(term, signal):
    return f"{term.says}: {signal.metric}"


def signal(metric, excess, part="value", statistic="level"):
    return Signal(metric, part, statistic, excess, 0)


def moved(terms, excess=20.0):
    """Every term, moved in its direction by the first of its metrics."""
    found = []
    for term in terms:
        if term.state:
            found.append(Signal(term.state, "value", "level", 0.0, -1, term.codes[0], "GPU-1"))
            continue
        sign, pattern = (1.0, term.up[0]) if term.up else (-1.0, term.down[0])
        metric = next((m for m in load_catalog() if fnmatchcase(m, pattern)), pattern)
        found.append(signal(metric, sign * excess, (term.parts or ("mean",))[0], term.statistic or "level"))
    return found


def ranked(signals, **options):
    return rank_causes(Signals(signals), word, **options)


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_a_cause_is_named_first_by_its_own_signature(cause):
    found = ranked(moved(cause.terms))
    first = found[0]
    assert first.id == cause.id
    assert first.confidence <= cause.at_most
    assert len(first.evidence) == len(cause.terms)
    assert not first.against
    assert (first.action, first.source) == (cause.action, cause.source)


@pytest.mark.parametrize("cause", CONTRADICTED.values(), ids=CONTRADICTED)
def test_what_speaks_against_a_cause_lowers_it_and_is_shown(cause):
    alone = match(cause, Signals(moved(cause.terms)), word)
    beside = match(cause, Signals([*moved(cause.terms), *moved(cause.against)]), word)
    assert alone is not None
    if beside is not None:
        assert beside.confidence < alone.confidence
        for term in cause.against:
            assert any(sentence.startswith(term.says) for sentence in beside.against)


def test_without_what_it_requires_a_cause_is_not_named():
    for cause in CAUSES.values():
        listened = {p for t in cause.terms if t.required for p in t.metrics}
        others = [s for s in moved(cause.terms) if not any(fnmatchcase(s.metric, p) for p in listened)]
        assert match(cause, Signals(others), word) is None, cause.id


def test_nothing_is_named_when_nothing_moved():
    assert ranked([]) == ()


def test_an_unknown_pattern_has_no_cause():
    strange = ("meminfo.Percpu.change", "softirq.HRTIMER", "cstate.C1_usage", "ip6.InMcastPkts", "irq.PMI")
    assert ranked([signal(m, 50.0) for m in strange]) == ()


def test_what_hardly_moved_names_nothing():
    """A required signal just beyond its band is far too little to blame anything."""
    for cause in CAUSES.values():
        closest = max(term.gain for term in cause.terms)
        signals = [s for s in moved(cause.terms, excess=0.3 / closest) if not is_failure(s.metric)]
        assert ranked(signals) == (), cause.id


COUNTED = [
    cause
    for cause in CAUSES.values()
    if all(
        is_failure(s.metric) for s in moved([term for term in cause.terms if term.required]) if s.code is None
    )
    and any(is_failure(s.metric) for s in moved(cause.terms))
]


@pytest.mark.parametrize("cause", COUNTED, ids=lambda cause: cause.id)
def test_a_single_error_that_hardware_counts_names_its_cause(cause):
    assert cause.id in {found.id for found in ranked(moved(cause.terms, excess=0.15))}


def test_a_little_is_no_confidence():
    cause = CAUSES["packet-loss"]
    weak = [signal("tcp.RetransSegs", 1.0)]
    found = match(cause, Signals(weak), word)
    assert found is None
    clear = match(cause, Signals([signal("tcp.RetransSegs", 30.0)]), word)
    assert clear is not None
    assert LEAST_CONFIDENCE < clear.confidence < 0.6
    assert "not seen: TCP went into loss recovery" in clear.against


def test_a_signal_that_the_host_does_not_sample_is_not_missed():
    cause = CAUSES["data-loader-stall"]
    signals = [signal("disk.reads", -20.0), signal("cpu.user", -20.0)]
    everything = match(cause, Signals(signals), word)
    no_gpu = match(cause, Signals(signals, {"disk.reads", "cpu.user"}), word)
    assert everything is not None
    assert no_gpu is not None
    assert no_gpu.confidence > everything.confidence
    assert [s for s in everything.against if "GPU" in s]
    assert not no_gpu.against


def test_a_guess_for_want_of_better_claims_little_and_never_decides_the_subsystem():
    shares = (SubsystemShare("network", 0.5), SubsystemShare("cpu", 0.5))
    found = ranked([signal("cpu.user", -90.0, "mean"), signal("cpu.idle", 90.0, "mean")])
    assert [c.id for c in found] == ["job-phase"]
    assert found[0].confidence == CAUSES["job-phase"].at_most
    storage = (SubsystemShare("storage", 0.8), SubsystemShare("cpu", 0.2))
    assert blend(storage, "cpu", found[0].confidence)[0].name == "storage"
    assert blend(shares, "cpu", found[0].confidence)[0].name == "cpu"


@pytest.mark.parametrize(
    ("number", "first"),
    [
        *((code, "gpu-application-error") for code in (13, 31, 43, 45)),
        *((code, "gpu-xid") for code in (48, 63, 64, 74, 79, 94, 95, 119)),
    ],
)
def test_the_number_of_an_xid_tells_the_application_from_the_hardware(number, first):
    announced = signal("gpu.xid_errors", 5.0, "max")
    code = Signal("gpu.xid_last", "value", "level", 0.0, -1, number, "GPU-1")
    found = ranked([announced, code])
    assert found[0].id == first
    assert found[0].action == (
        "check-application" if first == "gpu-application-error" else "inspect-hardware"
    )
    assert len([c for c in found if c.id in {"gpu-xid", "gpu-application-error"}]) == 1


def test_an_xid_whose_number_is_not_known_is_looked_up_first():
    code = Signal("gpu.xid_last", "value", "level", 0.0, -1, 999, "GPU-1")
    (found,) = ranked([signal("gpu.xid_errors", 20.0, "max"), code])
    assert found.id == "gpu-xid"
    assert found.confidence < 0.5
    assert "not seen: its number stands for the hardware" in found.against


def test_losses_of_a_full_queue_a_flapping_link_or_a_refusal_are_not_blamed_on_the_path():
    lost = moved(CAUSES["packet-loss"].terms)
    assert ranked(lost)[0].id == "packet-loss"
    for cause in ("bandwidth-cap", "link-flap", "listen-overflow", "conntrack-overflow"):
        assert ranked([*lost, *moved(CAUSES[cause].terms)])[0].id == cause


def test_a_reset_of_pages_is_a_storm_and_growth_is_a_leak():
    faults = [signal("vmstat.pgfault", 20.0), signal("vmstat.pgalloc_normal", 20.0)]
    storm = [*faults, signal("vmstat.pgfree", 20.0), signal("cpu.system", 10.0, "mean")]
    leak = [*faults, signal("meminfo.AnonPages.change", 9.0), signal("meminfo.MemAvailable.change", -9.0)]
    assert ranked(storm)[0].id == "page-fault-storm"
    assert ranked(leak)[0].id == "memory-leak"


def test_a_slow_disk_is_not_taken_for_a_loader_that_stalls():
    less = [signal("disk.reads", -9.0), signal("cpu.user", -9.0, "mean"), signal("cpu.idle", 9.0, "mean")]
    assert ranked(less)[0].id == "data-loader-stall"
    assert ranked([*less, signal("psi.io_some", 9.0), signal("cpu.iowait", 9.0)])[0].id == "disk-slow"


def test_a_term_hears_only_its_direction_part_and_statistic():
    term = CAUSES["interrupt-imbalance"].terms[0]
    assert speaking(term, Signals([signal("irq.device", -9.0, "imbalance")])) is None
    assert speaking(term, Signals([signal("irq.device", 9.0, "max")])) is None
    both = [signal("irq.device", 9.0, "imbalance"), signal("irq.total", 12.0, "imbalance")]
    heard = speaking(term, Signals(both))
    assert heard is not None
    assert heard.metric == "irq.total"
    bursts = CAUSES["nccl-single-queue-pair"].terms[0]
    assert speaking(bursts, Signals([signal("ib.port_xmit_data", 9.0)])) is None
    assert speaking(bursts, Signals([signal("ib.port_xmit_data", 9.0, statistic="spread")])) is not None


def test_strength_grows_with_the_excess_and_stays_below_1():
    values = [strength(signal("x", e)) for e in (0.0, 1.0, 10.0, 1e9)]
    assert values == sorted(values)
    assert values[0] == 0.0
    assert values[-1] <= 1.0
    assert strength(None) == 0.0
    close = Term("it moved", up=("x", "y"), gain=10.0, close=("x",))
    assert strength(signal("x", 1.0), close) == strength(signal("x", 10.0))
    assert strength(signal("y", 1.0), close) == strength(signal("y", 1.0))
    assert strength(Signal("gpu.xid_last", "value", "level", 0.0, -1, 79)) == 1.0


def test_a_metric_speaks_for_a_cause_in_its_direction_alone():
    cause = CAUSES["disk-slow"]
    assert speaks_for(cause, "disk.reads", "down")
    assert not speaks_for(cause, "disk.reads", "up")
    assert speaks_for(CAUSES["memory-compaction"], "vmstat.compact_stall", "up")
    assert not speaks_for(cause, "tcp.RetransSegs", "up")


def test_causes_to_choose_from_may_be_given_and_at_most_so_many_are_returned():
    everything = [s for c in CAUSES.values() for s in moved(c.terms)]
    assert len(ranked(everything, most=3)) == 3
    only = [CAUSES["packet-loss"]]
    assert [c.id for c in ranked(moved(only[0].terms), causes=only)] == ["packet-loss"]


def test_one_metric_alone_never_names_another_subsystem():
    catalog = load_catalog()
    listened = {pattern for cause in CAUSES.values() for term in cause.terms for pattern in term.metrics}
    for metric in catalog.values():
        name = f"{metric.name}.change" if metric.stock else metric.name
        if name not in listened:
            continue
        for excess in (50.0, -50.0):
            found = ranked(
                [signal(name, excess, p, s) for p in ("mean", "imbalance") for s in ("level", "spread")]
            )
            if found:
                shares = blend(
                    (SubsystemShare(metric.subsystem, 1.0),), found[0].subsystem, found[0].confidence
                )
                assert shares[0].name == metric.subsystem, (name, excess, found[0].id)


def test_a_trace_of_a_signal_says_nothing_unless_its_term_listens_closely():
    term = Term("one core took it all", up=("irq.total",))
    close = Term("one core took it all", up=("irq.total",), gain=16.0)
    trace = Signals([signal("irq.total", 0.05)])
    assert speaking(term, trace) is None
    assert speaking(close, trace) is not None
    assert speaking(close, Signals([signal("irq.total", 1e-9)])) is None
