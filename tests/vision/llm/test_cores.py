"""The number of cores that a model uses, from what systems with cores of two kinds report."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from imgproc_local.vision.llm.cores import count_in_linux, count_in_macos, count_in_windows, physical_cores


def sysfs(folder: Path, siblings: list[str], performance: str | None = None) -> Path:
    """A copy of the kernel's files: for each logical processor the list of those in its core."""
    for cpu, listed in enumerate(siblings):
        topology = folder / f"system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{listed}\n")
    if performance is not None:
        (folder / "cpu_core").mkdir()
        (folder / "cpu_core/cpus").write_text(performance)
    return folder


# a Core i5-1235U: two performance cores with two threads each, eight efficiency cores
HYBRID = ["0-1", "0-1", "2-3", "2-3", *map(str, range(4, 12))]


@pytest.mark.parametrize(
    ("siblings", "performance", "allowed", "expected"),
    [
        (HYBRID, "0-3\n", range(12), 2),
        (HYBRID, "0-3\n", range(2, 12), 1),
        (HYBRID, "0-3\n", range(4, 8), 4),
        (HYBRID, "0,2-3\n", range(12), 2),
        (HYBRID, "\n", range(12), 10),
        (["0,2", "1,3", "0,2", "1,3"], None, range(4), 2),
        (["0", "1", "2", "3"], None, [1, 3], 2),
        ([], None, range(3), 3),
    ],
)
def test_linux(tmp_path: Path, siblings: list[str], performance: str | None, allowed: range, expected: int) -> None:
    assert count_in_linux(allowed, sysfs(tmp_path, siblings, performance)) == expected


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({"hw.perflevel0.physicalcpu": 4, "hw.perflevel1.physicalcpu": 4, "hw.physicalcpu": 8}, 4),
        ({"hw.physicalcpu": 6, "hw.logicalcpu": 12}, 6),
        ({}, 0),
    ],
)
def test_macos(reported: dict[str, int], expected: int) -> None:
    assert count_in_macos(reported.get) == expected


def core(efficiency_class: int, mask: int, relationship: int = 0) -> bytes:
    """A SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX with one group, as 64-bit Windows writes it."""
    return struct.pack("<IIBB20xHQH6x", relationship, 48, mask.bit_count() > 1, efficiency_class, 1, mask, 0)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (core(1, 0b11) + core(1, 0b1100) + b"".join(core(0, 1 << cpu) for cpu in range(4, 12)), 2),
        (b"".join(core(0, 0b11 << 2 * cpu) for cpu in range(8)), 8),
        (core(1, 0b1) + core(3, 0b10, relationship=2) + core(1, 0b100), 2),
        (core(0, 1) + core(0, 2)[:9], 1),
        (bytes(48), 0),
        (b"", 0),
    ],
)
def test_windows(records: bytes, expected: int) -> None:
    assert len(core(0, 1)) == 48
    assert count_in_windows(records) == expected


def test_this_machine() -> None:
    assert 1 <= physical_cores() <= (os.cpu_count() or 1)
