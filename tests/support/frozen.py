"""The frozen program for tests: built once per state of the tree, and kept in `.build/` beside it."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".build"
INGREDIENTS = (
    "imgproc_local",
    "build",
    "pyproject.toml",
    "setup.py",
    "requirements-build.lock",
    "LICENSE",
    "README.md",
)
BUILD_TIMEOUT_S = 1200
"""With nothing cached llama.cpp is compiled on the way, which takes four minutes of two cores."""


@cache
def one_folder() -> Path:
    """The one-folder program's folder; the program in it is `imgproc-local`, what tells about it lies beside it."""
    return _built("one-folder") / "imgproc-local"


@cache
def one_file() -> Path:
    """The one-file program; what tells about it lies beside it."""
    return _built("one-file", "--one-file") / "imgproc-local-onefile"


def freeze(out: Path, *options: str) -> str:
    """Runs build/freeze.py into `out`; what it printed."""
    ended = subprocess.run(
        [sys.executable, ROOT / "build" / "freeze.py", "--out", out, *options],
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    return ended.stdout


def _built(form: str, *options: str) -> Path:
    folder = KEPT / f"frozen-{form}-{_tree()}"
    if not folder.exists():
        for old in KEPT.glob(f"frozen-{form}-*"):
            shutil.rmtree(old)
        part = KEPT / f"frozen-{form}-part"
        freeze(part, *options)
        part.rename(folder)
    return folder


def _tree() -> str:
    """A name for everything that the program is made of."""
    whole = hashlib.sha256(sys.version.encode())
    for name in INGREDIENTS:
        path = ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix not in (".so", ".pyd", ".pyc"):
                whole.update(f"{file.relative_to(ROOT)}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return whole.hexdigest()[:16]


def build_module(name: str) -> ModuleType:
    """One of the scripts in build/, which is a folder of scripts and no package."""
    spec = importlib.util.spec_from_file_location(f"build_{name}", ROOT / "build" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
