"""The floors of the house: a room imports only from floors below it, never from its own floor's neighbours."""

from __future__ import annotations

import ast
import re
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
    "engine": 3,
    "api": 4,
    "web": 4,
}


def imported(file: Path) -> set[str]:
    """Every module of the package that a file imports: anywhere in it, relative or absolute, for types only too."""
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


def room(module: str) -> str:
    return module.split(".")[1]


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_run_one_way(file: Path) -> None:
    own = file.relative_to(PACKAGE).parts[0]
    if own not in FLOORS:
        return
    for module in imported(file):
        other = room(module)
        if other == own or other not in FLOORS:
            continue
        assert FLOORS[other] < FLOORS[own], f"{file.relative_to(PACKAGE)} imports {module}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_nothing_below_the_faces_knows_the_wiring_or_the_command_line(file: Path) -> None:
    own = file.relative_to(PACKAGE).parts[0]
    rooms = {room(module) for module in imported(file)}
    if FLOORS.get(own, 4) < 4:
        assert not rooms & {"compose", "config", "cli"}, f"{file.relative_to(PACKAGE)} imports {rooms}"
    if own in ("api", "web"):
        assert "cli" not in rooms


def test_the_domain_does_no_input_or_output() -> None:
    allowed = {"msgspec", "anyascii", "imgproc_local", "__future__"}
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
            assert not re.search(r"^\s*import pyvips", text, re.MULTILINE), f"{file}: import it from codecs.libvips"


def test_no_file_is_long_without_a_reason() -> None:
    for file in [*FILES, *(PACKAGE.parent / "tests").rglob("*.py")]:
        lines = file.read_text(encoding="utf-8").splitlines()
        if len(lines) <= 420:
            continue
        opening = ast.get_docstring(ast.parse("\n".join(lines))) or ""
        assert re.search(r"one (long )?file", opening), f"{file} has {len(lines)} lines and gives no reason for it"
