"""How much memory a process holds, as the system reports it."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

import pytest

from imgproc_local.system.piped_child import peak_resident_bytes, reset_peak, resident_bytes

MEGABYTE = 1024 * 1024
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="other systems report less")


@linux_only
def test_mapped_files_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(os.urandom(MEGABYTE) * 64)
    before = resident_bytes(os.getpid())
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[::4096]) > 0
        assert resident_bytes(os.getpid()) < before + 32 * MEGABYTE


@linux_only
def test_the_peak_counts_from_its_reset() -> None:
    data = bytearray(b"x") * (64 * MEGABYTE)
    assert peak_resident_bytes() > len(data)
    held = len(data)
    del data
    before = peak_resident_bytes()
    reset_peak()
    if peak_resident_bytes() == before:
        pytest.skip("this container does not allow to reset the peak")
    assert peak_resident_bytes() < before - held // 2
