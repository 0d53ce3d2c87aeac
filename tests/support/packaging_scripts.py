"""Loads the scripts of packaging/, which is a folder of scripts and not a package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"


def script(path: str) -> ModuleType:
    """The script at `path` below packaging/. It can import the scripts beside it, as when it is started."""
    file = PACKAGING / path
    name = "packaging_" + path.removesuffix(".py").replace("/", "_")
    spec = importlib.util.spec_from_file_location(name, file)
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
