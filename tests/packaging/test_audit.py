"""`.ci/audit`: known vulnerabilities of the locks, and the licences of what is packaged."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.support.scripts import script

ROOT = Path(__file__).parents[2]
AUDIT = ROOT / ".ci" / "audit"
FUNCTIONS = runpy.run_path(str(AUDIT))
"""The functions of the script, which has no ending of a module."""


def sbom_of_the_locked_packages(folder: Path) -> Path:
    """A bill of materials of the installed packages that a frozen program can contain."""
    sbom = script("build/sbom.py")
    locked = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements-vision.lock").read_text(), re.MULTILINE))
    components = [{"name": name, **sbom._licence(licence)} for name, licence in sbom.BUNDLED["system"].items()]
    for distribution in distributions():
        if sbom._normalized_name(distribution) in locked:
            nested = sbom.bundled_libraries(distribution)
            components.append({**sbom._wheel_component(distribution), "components": nested})
    assert len(components) > 40
    file = folder / "program.cdx.json"
    file.write_text(json.dumps({"components": components}))
    return file


def test_no_locked_version_is_vulnerable_and_every_licence_is_allowed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, AUDIT, sbom_of_the_locked_packages(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"list of \d{4}-\d\d-\d\d", done.stdout)


@pytest.mark.parametrize(
    ("version", "advisory", "found"),
    [
        ("2.9.1", {"fixed": "2.18.0"}, True),
        ("2.18", {"fixed": "2.18.0"}, False),
        ("10.0.0", {"fixed": "2.18.0"}, False),
        ("2.18.0", {}, True),
        ("2.18.0", {"accepted": "not used"}, False),
    ],
)
def test_a_vulnerable_version_is_found(tmp_path: Path, version: str, advisory: dict[str, str], found: bool) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text(f"litestar=={version} \\\n    --hash=sha256:00\nlitestar-htmx==0.1\n")
    advisories = [{"package": "litestar", "id": "CVE-1", **advisory}]
    assert bool(list(FUNCTIONS["vulnerable"](lock, advisories))) is found


def test_licences_that_are_not_allowed_are_found_also_inside_a_component(tmp_path: Path) -> None:
    file = tmp_path / "x.cdx.json"
    licences = ("MIT", "GPL-3.0-only OR MIT", "Apache-2.0 AND GPL-3.0-only", "AGPL-3.0-only", "")
    inside = [{"name": f"{licence}.", "licenses": [{"expression": licence}]} for licence in licences]
    outer = {"name": "outer", "licenses": [{"expression": "MIT"}], "components": inside}
    file.write_text(json.dumps({"components": [outer]}))
    problems = list(FUNCTIONS["licence_problems"](file))
    assert len(problems) == 3
    assert all(f"{licence}." in problem for licence, problem in zip(licences[2:], problems, strict=True))
