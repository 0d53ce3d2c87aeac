"""A compact copy of an ELF object lacks only bytes that are never loaded; a change of loaded bytes is noticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.frozen import build_module

elf = build_module("elf")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has ELF objects")


@pytest.fixture
def source() -> Path:
    """The main extension module of Pillow, in which auditwheel has moved segments behind the debug sections."""
    import PIL

    return next(Path(PIL.__file__).parent.glob("_imaging.*.so"))


def test_a_compact_object_loads_the_same_and_works(source: Path, tmp_path: Path) -> None:
    compact = tmp_path / source.name
    elf.write_compact(source, compact)
    assert compact.stat().st_size <= source.stat().st_size
    assert elf.loads_the_same(source, compact)
    assert elf.Elf(compact).glibc_versions() == elf.Elf(source).glibc_versions()
    # in a separate process, which finds the libraries in the wheel's folder
    script = (
        "import importlib.machinery, importlib.util, sys, PIL\n"
        "loader = importlib.machinery.ExtensionFileLoader('PIL._imaging', sys.argv[1])\n"
        "spec = importlib.util.spec_from_loader('PIL._imaging', loader)\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "loader.exec_module(module)\n"
        "print(module.new('L', (2, 3)).size)\n"
    )
    libraries = {"LD_LIBRARY_PATH": str(source.parents[1] / "pillow.libs")}
    ran = subprocess.run(
        [sys.executable, "-c", script, compact], env=libraries, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "(2, 3)"


def test_a_changed_byte_of_code_is_noticed(source: Path, tmp_path: Path) -> None:
    code = next(segment for segment in elf.Elf(source).loaded() if segment.flags & 1)
    content = bytearray(source.read_bytes())
    content[code.offset + code.file_bytes // 2] ^= 1
    changed = tmp_path / "changed.so"
    changed.write_bytes(content)
    assert not elf.loads_the_same(source, changed)


def test_a_changed_address_of_a_segment_is_noticed(source: Path, tmp_path: Path) -> None:
    compact = tmp_path / "compact.so"
    elf.write_compact(source, compact)
    content = bytearray(compact.read_bytes())
    program_headers, _ = elf.Elf(compact).header_ranges[1]
    last = max(n for n, segment in enumerate(elf.Elf(compact).segments) if segment.kind == elf.PT_LOAD)
    content[program_headers + last * 56 + 16 + 2] ^= 1  # p_vaddr, at byte 16 of the 56 of a program header
    compact.write_bytes(content)
    assert not elf.loads_the_same(source, compact)


def test_the_glibc_versions_of_the_interpreter_are_found() -> None:
    versions = elf.Elf(Path(sys.executable).resolve()).glibc_versions()
    assert (2, 2, 5) in versions or max(versions) >= (2, 17)  # the first version on x86-64, and on AArch64


def test_a_text_file_is_not_an_object(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("#!/bin/sh\n")
    assert not elf.is_elf(tmp_path / "text")
