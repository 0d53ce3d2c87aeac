"""A compact copy of an ELF object lacks only bytes that are never loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripts import script

elf = script("build/elf.py")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has ELF objects")


@pytest.fixture
def source() -> Path:
    """The main extension module of Pillow, in which auditwheel has moved segments behind the debug sections."""
    import PIL

    return next(Path(PIL.__file__).parent.glob("_imaging.*.so"))


def loaded(path: Path) -> list[tuple[int, bytes]]:
    """The address and the bytes of each loaded segment, without the headers, which hold offsets in the file."""
    data = path.read_bytes()
    loads = [segment for segment in elf.segments(data) if segment.kind == elf.PT_LOAD]
    headers = loads[0].offset + max(segment.header for segment in elf.segments(data)) + 56
    return [
        (load.address, data[headers if load is loads[0] else load.offset : load.offset + load.file_bytes])
        for load in loads
    ]


def test_a_compact_object_loads_the_same_and_works(source: Path, tmp_path: Path) -> None:
    compact = tmp_path / source.name
    elf.write_compact(source, compact)
    assert compact.stat().st_size <= source.stat().st_size
    assert loaded(compact) == loaded(source)
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


def test_a_text_file_is_not_an_object(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("#!/bin/sh\n")
    assert not elf.is_elf(tmp_path / "text")
