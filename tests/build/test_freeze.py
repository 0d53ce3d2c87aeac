"""freeze.py reports what is missing on the machine, and leaves out nothing that the program imports."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.support.scripts import ROOT, script

freeze = script("build/freeze.py")


def test_an_interpreter_that_can_not_be_frozen_is_refused_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(freeze.sysconfig, "get_config_var", lambda name: 0)
    with pytest.raises(freeze.Unbuildable, match="shared libpython"):
        freeze._check_interpreter()
    monkeypatch.setattr(sys, "version_info", (3, 10, 9))
    with pytest.raises(freeze.Unbuildable, match=r"3\.11 or newer"):
        freeze._check_interpreter()


def test_freeze_needs_only_the_standard_library() -> None:
    script = ROOT / "build" / "freeze.py"
    output = subprocess.check_output([sys.executable, "-I", "-S", script, "--help"], text=True)
    assert "--work" in output


def test_the_spec_excludes_nothing_that_the_program_imports() -> None:
    spec = ast.parse((ROOT / "build" / "imgproc-local.spec").read_text(encoding="utf-8"))
    assignments = [node for node in spec.body if isinstance(node, ast.Assign)]
    (value,) = (node.value for node in assignments if ast.unparse(node.targets[0]) == "EXCLUDED")
    excluded = {node.value for node in ast.walk(value) if isinstance(node, ast.Constant)}
    assert "tkinter" in excluded
    # the extras `ocr`, `heic` and `cluster` are not part of the frozen program, which says so
    package = ROOT / "imgproc_local"
    extras = {package / "codecs/picture/other_decoders.py", package / "cli/archive.py"}
    extras |= {*(package / "vision/ocr").iterdir(), *(package / "archive").iterdir()}
    imported = set()
    for file in {*package.rglob("*.py")} - extras:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    assert [name for name in sorted(imported) if any(f"{name}.".startswith(f"{part}.") for part in excluded)] == []
