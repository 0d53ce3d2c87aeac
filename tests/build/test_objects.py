"""The check of compiled objects finds instructions that are newer than the processor limit."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripts import script

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the limits are for Linux on x86-64"
)
needs_binutils = pytest.mark.skipif(not shutil.which("objdump") or not shutil.which("gcc"), reason="no gcc and objdump")

objects = script("build/objects.py")


@needs_binutils
@pytest.mark.parametrize(
    ("flags", "body", "is_newer"),
    [
        ("-mavx512f", "for (int i = 0; i < 4096; i++) a[i] += b[i] * 3;", True),  # zmm registers
        ("-mavx512vl", '__asm__ volatile ("vpternlogd $1, %xmm0, %xmm1, %xmm2");', True),  # without a wide register
        ("-mavxvnni", '__asm__ volatile ("{vex} vpdpbusd %ymm0, %ymm1, %ymm2");', True),
        ("-mavx2 -mfma -mf16c -mbmi2", "for (int i = 0; i < 4096; i++) a[i] = a[i] * b[i] + 3;", False),
    ],
)
def test_instructions_newer_than_haswell_are_found(tmp_path: Path, flags: str, body: str, is_newer: bool) -> None:
    source, compiled = tmp_path / "code.c", tmp_path / "code.so"
    source.write_text(f"void code(int *a, int *b) {{ {body} }}\n")
    subprocess.run(["gcc", "-O3", "-shared", "-fPIC", *flags.split(), source, "-o", compiled], check=True)
    assert bool(objects.newer_than_haswell(compiled)) is is_newer
