from __future__ import annotations

from pathlib import Path

import pytest
from collect_parts import copy_tree, open_source, read, values, write
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.collect.sources import interrupts
from reveal_core.collect.sources.interrupts import InterruptsSource, line_label


@pytest.mark.parametrize(
    ("description", "label"),
    [
        ("PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0", "virtio1-req.0"),
        ("IO-APIC   5-edge      ACPI:Ged", "ACPI:Ged"),
        ("IR-IO-APIC-fasteoi   ehci_hcd:usb1, mmc0", "ehci_hcd:usb1,mmc0"),
        ("GICv3  27 Level     arch_timer", "arch_timer"),
        ("ITS-MSI 65536 Edge      nvme0q0", "nvme0q0"),
        (
            "IR-PCI-MSIX-0000:c1:00.0    0-edge      mlx5_comp0@pci:0000:c1:00.0",
            "mlx5_comp0@pci:0000:c1:00.0",
        ),
        ("IO-APIC   2-edge", ""),
        ("", ""),
    ],
)
def test_labels_are_what_the_line_is_for(description: str, label: str) -> None:
    assert line_label(description) == label


@given(st.text())
def test_any_description_gives_a_label(description: str) -> None:
    label = line_label(description)
    assert "/" not in label
    assert not label.split() or label.split() == [label]


def table(rows: dict[str, tuple[list[int], str]], cores: int) -> str:
    lines = ["     " + " ".join(f"CPU{core}" for core in range(cores))]
    lines += [f"{name}: {' '.join(map(str, counts))}  {text}" for name, (counts, text) in rows.items()]
    return "\n".join(lines) + "\n"


def test_totals_are_the_sum_of_the_lines_at_every_read(tmp_path: Path) -> None:
    rows = {
        "24": ([5, 0], "PCI-MSI 1-edge nic"),
        "LOC": ([100, 200], "Local timer interrupts"),
        "ERR": ([9], ""),
    }
    write(tmp_path, "proc/interrupts", table(rows, 2))
    source = open_source(InterruptsSource, tmp_path)
    first = values(source)
    assert (first["irq.total/cpu0"], first["irq.total/cpu1"]) == (105, 200)
    assert first["irq.ERR"] == 9
    rows["24"][0][1] = 7
    rows["LOC"][0][0] = 130
    write(tmp_path, "proc/interrupts", table(rows, 2))
    second = read(source)
    assert (second["irq.total/cpu0"], second["irq.total/cpu1"]) == (135, 207)
    assert second["irq.device/nic:cpu1"] == 7


def test_a_line_has_channels_from_its_first_interrupt(tmp_path: Path) -> None:
    rows = {"24": ([0, 0], "PCI-MSI 1-edge nic")}
    write(tmp_path, "proc/interrupts", table(rows, 2))
    source = open_source(InterruptsSource, tmp_path)
    assert set(values(source)) == {"irq.total/cpu0", "irq.total/cpu1"}
    rows["24"] = ([0, 3], "PCI-MSI 1-edge nic")
    rows["25"] = ([1, 0], "PCI-MSI 2-edge nic")
    write(tmp_path, "proc/interrupts", table(rows, 2))
    found = read(source)
    assert found["irq.device/nic-irq24:cpu1"] == 3
    assert found["irq.device/nic-irq25:cpu0"] == 1


def test_a_line_that_goes_to_another_device_gets_its_name(tmp_path: Path) -> None:
    write(tmp_path, "proc/interrupts", table({"24": ([5, 1], "PCI-MSI 1-edge old")}, 2))
    source = open_source(InterruptsSource, tmp_path)
    write(tmp_path, "proc/interrupts", table({"24": ([6, 1], "PCI-MSI 1-edge new")}, 2))
    found = read(source)
    assert "irq.device/old:cpu0" not in found
    assert found["irq.device/new:cpu0"] == 6
    assert found["irq.total/cpu0"] == 6


def test_a_core_that_goes_offline_leaves(tmp_path: Path) -> None:
    root = copy_tree(tmp_path)
    source = open_source(InterruptsSource, root)
    write(root, "proc/interrupts", table({"24": ([5], "PCI-MSI 1-edge nic"), "LOC": ([7], "Local")}, 1))
    assert read(source) == {"irq.total/cpu0": 12, "irq.device/nic:cpu0": 5, "irq.LOC/cpu0": 7}


def test_on_many_cores_only_those_that_served_a_line_have_channels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "MAX_CELLS", 40)
    cores = 64
    rows = {
        str(100 + line): (
            [9 if core == line else 0 for core in range(cores)],
            f"PCI-MSI {line}-edge queue-{line}",
        )
        for line in range(50)
    }
    write(tmp_path, "proc/interrupts", table(rows, cores))
    source = open_source(InterruptsSource, tmp_path)
    found = values(source)
    assert sum(name.startswith("irq.device") for name in found) == 40
    assert found["irq.device/queue-7:cpu7"] == 9
    assert all(found[f"irq.total/cpu{core}"] == (9 if core < 50 else 0) for core in range(cores))
    assert any("10 more" in note for note in source.notes)
