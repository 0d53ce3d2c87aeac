"""`.ci/audit`: known vulnerabilities of the locks, and the licences of what is packaged."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.scripts import script

ROOT = Path(__file__).parents[2]
AUDIT = ROOT / ".ci" / "audit"


@pytest.fixture(scope="module")
def audit() -> Any:
    """The functions of the script, which has no ending of a module."""
    return SimpleNamespace(**runpy.run_path(str(AUDIT)))


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
        ("2.17.9", {"fixed": "2.18.0"}, True),
        ("2.9.1", {"fixed": "2.18.0"}, True),
        ("2.18", {"fixed": "2.18.0"}, False),
        ("10.0.0", {"fixed": "2.18.0"}, False),
        ("2.18.0", {}, True),
        ("2.18.0", {"accepted": "not used"}, False),
    ],
)
def test_a_vulnerable_version_is_found(
    tmp_path: Path, audit: Any, version: str, advisory: dict[str, str], found: bool
) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text(f"litestar=={version} \\\n    --hash=sha256:00\nlitestar-htmx==0.1\n")
    assert bool(list(audit.vulnerable(lock, [{"package": "litestar", "id": "CVE-1", **advisory}]))) is found


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 AND GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only", False),
        ("AGPL-3.0-only", False),
        ("", False),
    ],
)
def test_licences_that_are_not_allowed_are_found(tmp_path: Path, audit: Any, licence: str, allowed: bool) -> None:
    inner = {"name": "inner", "licenses": [{"expression": licence}]}
    file = tmp_path / "x.cdx.json"
    component = {"name": "outer", "licenses": [{"expression": "MIT"}], "components": [inner]}
    file.write_text(json.dumps({"components": [component]}))
    assert (not list(audit.licence_problems(file))) is allowed
