"""The cause catalogue as data: sound, of metrics that exist, and extended by data alone."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from reveal_core.attribute.causes import load_causes
from reveal_core.attribute.stragglers import METRIC as PEER_WORK
from reveal_core.catalog import load_catalog
from reveal_core.collect.sources import SOURCES
from reveal_core.errors import UsageError
from reveal_core.features.derived import BUSIEST_CORE, DERIVED
from reveal_core.features.rates import CHANGE_SUFFIX
from reveal_core.incidents import ACTIONS
from reveal_core.windows import COVERAGE, HOST_COVERAGE

CAUSES = {c.id: c for c in load_causes()}
OF_DERIVED = {BUSIEST_CORE: "cpu", **{d.name: d.subsystem for d in DERIVED}}
OF_CATALOG = {
    name: metric.subsystem
    for metric in load_catalog().values()
    for name in ([f"{metric.name}{CHANGE_SUFFIX}"] if metric.stock else [metric.name])
}
"""Subsystems of the metrics that a feature can be of: a stock is judged by its change alone."""
KNOWN = {*OF_CATALOG, *OF_DERIVED, HOST_COVERAGE, PEER_WORK}
KNOWN.update(f"{COVERAGE}{source.name}" for source in SOURCES)

COVERED = {
    # the publication's five cases
    *("remote-numa-memory", "nccl-single-queue-pair", "interrupt-imbalance", "huge-pages-reserved"),
    *("packet-loss",),
    # what operators meet
    *("cpu-frequency-capped", "cpu-thermal-throttling", "cpu-steal", "cpu-quota", "host-memory-pressure"),
    *("cgroup-memory-pressure", "swapping", "memory-compaction", "dirty-page-buildup", "writeback-storm"),
    *("disk-saturation", "disk-slow", "failing-disk", "raid-degraded", "nic-queue-drops", "softnet-drops"),
    *("link-down", "link-renegotiated", "pfc-storm", "infiniband-symbol-errors", "conntrack-overflow"),
    *("listen-overflow", "gpu-power-capped", "gpu-thermal-throttling", "pcie-degraded", "nvlink-errors"),
    *("gpu-ecc-errors", "gpu-remapped-rows", "gpu-xid", "gpu-lost", "gpu-hanging", "straggler-host"),
    *("straggler-wait",),
    *("data-loader-stall", "checkpoint-stall", "clock-step", "telemetry-lost", "edac-memory-errors"),
    *("host-silent",),
    # faults of the lab
    *("straggler-process", "socket-exhaustion", "bandwidth-cap", "link-flap", "sync-writes", "memory-leak"),
    *("process-storm", "switch-storm", "packet-storm", "page-fault-storm", "cpu-contention"),
    *("memory-bandwidth-contention",),
}


def patterns(terms):
    return [pattern for term in terms for pattern in term.metrics]


def test_the_catalogue_covers_what_is_to_be_known():
    assert set(CAUSES) >= COVERED


def test_an_entry_tells_what_to_do():
    for cause in CAUSES.values():
        assert cause.action in ACTIONS, cause.id
        assert not cause.title.endswith("."), cause.id
        assert all(check.endswith(("?", ".")) for check in cause.checks), cause.id
        for term in (*cause.terms, *cause.against):
            assert term.says[0].islower() or term.says.startswith(("TCP", "NVLink")), (cause.id, term.says)
            assert not term.says.endswith("."), (cause.id, term.says)


def test_a_signature_names_only_metrics_that_exist():
    for cause in CAUSES.values():
        for pattern in patterns((*cause.terms, *cause.against)):
            assert pattern in KNOWN or any(fnmatchcase(name, pattern) for name in KNOWN), (cause.id, pattern)


def test_what_alone_is_required_is_of_the_causes_own_subsystem():
    """Or one odd metric could name another subsystem; a cause that claims little cannot."""
    of = {**OF_CATALOG, **OF_DERIVED}
    for cause in CAUSES.values():
        required = [term for term in cause.terms if term.required]
        if len(required) > 1 or cause.at_most < 0.5:
            continue
        for pattern in patterns(required):
            names = [pattern] if pattern in of else [name for name in of if fnmatchcase(name, pattern)]
            assert {of[name] for name in names} <= {cause.subsystem}, (cause.id, pattern)


def test_programs_errors_and_phases_are_not_blamed_on_hardware():
    for cause in ("gpu-application-error", "job-ended", "job-phase", "process-storm", "memory-leak"):
        assert CAUSES[cause].action == "check-application"
    for cause in ("data-loader-stall", "straggler-process", "gpu-hanging", "out-of-memory-kill"):
        assert CAUSES[cause].action == "check-application"


ENTRY = """
[[cause]]
id = "scratch-full"
title = "The scratch disk is full"
subsystem = "storage"
explanation = "It is full."
fix = "Empty it."
action = "check-application"
source = "statvfs(3)"
commands = ["df -h"]
checks = ["What grew?"]
terms = [{ says = "space was used up", up = ["fs.used.change"], required = true }]
"""


def write(folder: Path, text: str) -> Path:
    (folder / "extra.toml").write_text(text, encoding="utf-8")
    return folder


def test_an_entry_is_added_by_data_alone(tmp_path):
    causes = load_causes(write(tmp_path, ENTRY))
    assert len(causes) == len(CAUSES) + 1
    assert causes[-1].id == "scratch-full"
    assert causes[-1].terms[0].up == ("fs.used.change",)
    assert causes[-1].terms[0].weight == 1.0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('fix = "Empty it."\n', ""), "scratch-full: fix: field required"),
        (('"Empty it."', '"Empty it"'), "scratch-full: fix: must be whole sentences"),
        (("check-application", "panic"), "scratch-full: action: is none of ignore, "),
        (('"storage"', '"disks"'), "scratch-full: subsystem: input should be 'cpu', "),
        (("required = true", "required = true, wait = 3"), "scratch-full: terms.0.wait: unexpected"),
        (("required = true", "weight = -1"), "scratch-full: terms.0.weight: input should be greater than 0"),
        (("required = true", "weight = 2"), "scratch-full: no term is required"),
        (('up = ["fs.used.change"], ', ""), "scratch-full: terms.0: a term names metrics"),
        (("required = true", 'state = "md.degraded"'), "scratch-full: terms.0: a term names metrics"),
        (
            ('up = ["fs.used.change"]', 'state = "md.degraded"'),
            "scratch-full: terms.0: a state and",
        ),
        (("scratch-full", "disk-slow"), "disk-slow is in the catalogue already, in storage.toml"),
        (("scratch-full", "Scratch full"), "Scratch full: id: string should match pattern"),
        (("terms =", "caveat = 'why'\nterms ="), "scratch-full: same_signals and caveat go together"),
        (
            ("terms =", "caveat = 'why'\nsame_signals = ['no-such']\nterms ="),
            "scratch-full: no-such in same_signals is no cause",
        ),
        (("[[cause]]", "[[causes]]"), r"a file of causes holds \[\[cause\]\] entries"),
        (("title = ", "title "), "not TOML: "),
    ],
)
def test_a_malformed_entry_is_told_in_one_line_that_says_where(tmp_path, change, told):
    folder = write(tmp_path, ENTRY.replace(*change))
    with pytest.raises(UsageError, match=f"^extra.toml: {told}") as error:
        load_causes(folder)
    assert "\n" not in str(error.value)
