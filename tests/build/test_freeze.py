"""freeze.py reports what is missing on the machine, and leaves out nothing that the program imports."""

from __future__ import annotations

import ast
import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.version import Version

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


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs git in the work tree that freeze.py takes for its own, which is new, at the commit time `at`."""
    monkeypatch.setattr(freeze, "ROOT", tmp_path)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "a")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@a.example")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # as in a hook: they name the project's own repository
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str, at: str = "") -> None:
        monkeypatch.setenv("GIT_COMMITTER_DATE", at)
        subprocess.run(["git", *arguments], cwd=tmp_path, capture_output=True, check=True)

    run("init")
    return run


@pytest.mark.skipif(not shutil.which("git"), reason="no git")
def test_versions_name_their_commit_and_sort_as_the_commits(
    git: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version() -> str:
        return re.sub("0.2.0", freeze._with_commit, "0.2.0")

    assert version() == "0.2.0", "no commit is known"
    versions = ["0.1.0"]
    for at in ("2026-11-27T18:05:03+0200", "2026-11-27T16:05:04+0000", "2026-11-28T00:00:00+0000"):
        git("commit", "--allow-empty", "--message", at, at=at)
        versions.append(version())
    assert [found.partition("+")[0] for found in versions[1:]] == [
        *("0.2.0.dev20261127160503", "0.2.0.dev20261127160504", "0.2.0.dev20261128000000"),
    ]
    git("tag", "v0.2.0")
    versions.append(version())
    assert versions[-1] == "0.2.0"
    with monkeypatch.context() as moved:
        (tmp_path / "unpacked").mkdir()
        moved.setattr(freeze, "ROOT", tmp_path / "unpacked")
        git("tag", "--delete", "v0.2.0")
        assert version() == "0.2.0", "the commit is that of a project around the sources"
    (tmp_path / "changed").touch()
    assert re.fullmatch(r"0\.2\.0\.dev20261128000000\+[0-9a-f]{8}\.dirty", version())
    assert all(Version(older) < Version(newer) for older, newer in pairwise(versions))
    for older, newer in pairwise(versions) if shutil.which("dpkg") else ():
        debian = [found.replace(".dev", "~dev") for found in (older, newer)]
        subprocess.run(["dpkg", "--compare-versions", debian[0], "lt", debian[1]], check=True)


def test_llama_cpp_is_taken_from_the_cache_of_pip_only_if_it_was_compiled_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "pip"))
    alike = ";".join([hashlib.sha256(freeze.LLAMA_CPP.read_bytes()).hexdigest(), "-DGGML_NATIVE=OFF"])
    for name, settings in (("alike", alike), ("other", f"{alike};-DGGML_CUDA=ON"), ("older", None)):
        folder = tmp_path / "pip" / "wheels" / "a7" / name
        folder.mkdir(parents=True)
        with zipfile.ZipFile(folder / "llama_cpp_python-0.3.36-py3-none-any.whl", "w") as wheel:
            wheel.writestr("llama_cpp/__init__.py", "")
            if settings:
                wheel.writestr("llama_cpp/compiled-with.txt", settings)
    freeze._reuse_llama_cpp(Path(sys.executable), tmp_path / "own")
    assert [path.parent.name for path in (tmp_path / "own").rglob("*.whl")] == ["alike"]


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
