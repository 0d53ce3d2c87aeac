"""A fake build, so that packaging is fast: the program is a shell script with the same commands."""

from __future__ import annotations

from pathlib import Path

import pytest

VERSION = "9.8.7.dev20261127180503+1a2b3c4d"
FAKE_PROGRAM = f"""#!/bin/sh
if [ -n "$_IMGPROC_LOCAL_COMPLETE" ]; then
    echo "# $_IMGPROC_LOCAL_COMPLETE of imgproc-local"
    exit
fi
case $* in
--version) echo "imgproc-local, version {VERSION}" ;;
*) exit 2 ;;
esac
"""


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as build/freeze.py writes it."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    folder = tmp_path / "dist"
    inside = folder / "imgproc-local" / "_internal"
    inside.mkdir(parents=True)
    program = folder / "imgproc-local" / "imgproc-local"
    program.write_text(FAKE_PROGRAM)
    program.chmod(0o755)
    (inside / "libone.so.1").write_bytes(b"\x7fELF\x02\x01 needs GLIBC_2.4 and GLIBC_2.17\0GLIBC_PRIVATE")
    (inside / "libone.so.1").chmod(0o755)
    (inside / "libone.so").symlink_to("libone.so.1")
    (inside / "libtwo.so.2").write_bytes(b"\x7fELF\x02\x01 needs GLIBC_2.28")
    (folder / "imgproc-local.cdx.json").write_text("{}")
    (folder / "imgproc-local-licences" / "one").mkdir(parents=True)
    (folder / "imgproc-local-licences" / "one" / "LICENSE").write_text("of one")
    return folder
