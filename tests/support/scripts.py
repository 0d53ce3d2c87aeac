"""Loads the scripts of build/, models/ and packaging/, which are folders of scripts and not packages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"


def script(path: str) -> ModuleType:
    """The script at `path`. It can import the scripts beside it, as when it is started."""
    file = ROOT / path
    spec = importlib.util.spec_from_file_location(path.removesuffix(".py").replace("/", "_"), file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    return module
