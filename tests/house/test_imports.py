"""The layers of the package: a room imports only from floors below its own, and no imports form a circle.

Three more rules are checked: what the domain may import, how pyvips is imported, and how long a file may be.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "imgproc_local"
FLOORS = {
    "domain": 0,
    "system": 1,
    "storage": 2,
    "codecs": 2,
    "vision": 2,
    "remote": 2,
    "config": 3,
    "engine": 3,
    "compose": 4,
    "batch": 4,
    "archive": 5,
    "api": 5,
    "web": 6,
    "server": 7,
    "cli": 8,
    "__main__": 9,
}
"""Where each room of the package lies. Every room must be listed."""


def imported(file: Path) -> set[str]:
    """The dotted names in the package that a file imports, including those imported in functions and only for types.

    Not all are modules: `from a import b` gives `a` and `a.b`.
    """
    found = set()
    here = ("imgproc_local", *file.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level]) + "." if node.level else ""
            module = (base + (node.module or "")).rstrip(".")
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("imgproc_local.")}


def module_of(file: Path) -> str:
    """The dotted name of a module without that of the package, such as `codecs.png.optimize`."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """The folder of a module; the module itself where it lies directly in the package."""
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0] or module


FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {module_of(file): file for file in FILES if file != PACKAGE / "__init__.py"}


@cache
def imports() -> dict[str, set[str]]:
    """The modules that each module imports. It takes seconds, so it isn't made while tests are collected."""
    return {
        module: {name for name in (found.removeprefix("imgproc_local.") for found in imported(file)) if name in MODULES}
        for module, file in MODULES.items()
    }


def floor_of(module: str) -> int:
    return FLOORS[module.split(".", maxsplit=1)[0]]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_to_lower_floors(module: str) -> None:
    own = module.split(".", maxsplit=1)[0]
    for other in imports()[module]:
        if other.split(".")[0] != own:
            assert floor_of(other) < floor_of(module), f"{module} imports {other}"


def test_neither_modules_nor_rooms_import_each_other_in_a_circle() -> None:
    """`prepare` raises an error that names the circle."""
    TopologicalSorter({module: found - {module} for module, found in imports().items()}).prepare()
    rooms: dict[str, set[str]] = {}
    for module, found in imports().items():
        others = {room_of(other) for other in found} - {room_of(module)}
        rooms.setdefault(room_of(module), set()).update(others)
    TopologicalSorter(rooms).prepare()


def test_the_domain_does_no_input_or_output() -> None:
    allowed = {"msgspec", "anyascii", "babel", "imgproc_local", "__future__"}  # the two of Unicode have tables
    banned = {"asyncio", "os", "pathlib", "socket", "sqlite3", "time", "datetime", "io", "subprocess", "threading"}
    for file in (PACKAGE / "domain").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            for name in names:
                top = name.split(".")[0]
                assert top not in banned, f"{file.name} imports {name}"
                assert top in allowed or top in __import__("sys").stdlib_module_names, f"{file.name} imports {name}"


def test_pyvips_is_imported_with_its_settings() -> None:
    for file in (PACKAGE / "codecs").rglob("*.py"):
        if file.name != "libvips.py":
            text = file.read_text(encoding="utf-8")
            assert not re.search(r"^\s*import pyvips", text, re.MULTILINE), (
                f"{file}: import it from codecs.picture.libvips"
            )


def test_no_file_is_long_without_a_reason() -> None:
    for file in [*FILES, *(PACKAGE.parent / "tests").rglob("*.py")]:
        lines = file.read_text(encoding="utf-8").splitlines()
        if len(lines) <= 420:
            continue
        opening = ast.get_docstring(ast.parse("\n".join(lines))) or ""
        assert re.search(r"one (long )?file", opening), (
            f"{file} has {len(lines)} lines: split it, or say in its docstring why it is one file"
        )
