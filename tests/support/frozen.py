"""Builds the frozen program for tests. A build is stored in `.build/` and used until one of its sources changes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from imgproc_local.system.files import lock_within
from tests.support.scripts import ROOT

CACHE = ROOT / ".build"
SOURCES = (
    "imgproc_local",
    "build",
    "pyproject.toml",
    "setup.py",
    "requirements-build.lock",
    "LICENSE",
    "README.md",
)
BUILD_TIMEOUT_S = 1200
"""The first build on a machine also compiles llama.cpp, for two to four minutes."""


def one_folder() -> Path:
    """The folder of the one-folder program. The bill of materials and the licences are in the folder above."""
    return _built() / "imgproc-local"


def one_file() -> Path:
    """The one-file program."""
    return _built() / "imgproc-local-onefile"


def freeze(out: Path) -> None:
    """Run build/freeze.py with `out` as its output folder."""
    done = subprocess.run(
        [sys.executable, ROOT / "build" / "freeze.py", "--out", out],
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@cache
def _built() -> Path:
    """The output folder of a build of the present sources."""
    folder = CACHE / f"frozen-{_digest_of_sources()}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "frozen.lock").open("wb") as lock:
        assert lock_within(lock, BUILD_TIMEOUT_S)  # several processes of pytest may need the program at once
        if not folder.exists():
            for old in CACHE.glob("frozen-*/"):
                shutil.rmtree(old)
            part = CACHE / "frozen-part"
            freeze(part)
            part.rename(folder)
    return folder


def _digest_of_sources() -> str:
    """A digest of all files that the program is built from, and of the version of Python."""
    digest = hashlib.sha256(sys.version.encode())
    for name in SOURCES:
        path = ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix not in (".so", ".pyd", ".pyc"):
                digest.update(f"{file.relative_to(ROOT)}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]
