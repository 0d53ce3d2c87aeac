"""The installers that the README names can read the lock files and the commands of the README.

Nothing is downloaded. Without a package index, an installer that has read everything fails at the first package, which
it does not find. One that can't read a line reports that before it looks for a package.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import uv

ROOT = Path(__file__).parents[2]
LOCKS = sorted(ROOT.glob("requirements*.lock"))
TIMEOUT_S = 120

REQUIREMENT = re.compile(
    r"[a-z0-9][a-z0-9.-]*==[a-z0-9.]+"  # a name and its version
    r"( ; [^\\#]+?)?"  # a marker
    r"( --hash=sha256:[0-9a-f]{64})+"
)
"""A requirement as pip 23.0 and uv read it. Any other option in it makes both refuse the whole file."""


def run(folder: Path, *command: str | Path) -> str:
    """The messages of a command that fails, for a new user who can reach no package index."""
    offline = {
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PATH": f"{folder}/bin:/usr/bin:/bin",
        **{"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"},
        **{"UV_OFFLINE": "1", "UV_NO_INDEX": "1", "UV_NO_CONFIG": "1"},
    }
    ended = subprocess.run(
        command, cwd=folder, env=offline, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return ended.stderr


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_uv_reads_a_lock_which_contains_only_requirements_and_hashes(lock: Path, tmp_path: Path) -> None:
    text = lock.read_text(encoding="utf-8").replace(" \\\n   ", "")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines
    assert [line[:100] for line in lines if not REQUIREMENT.fullmatch(line)] == []
    command = [uv.find_uv_bin(), "pip", "install", "--require-hashes", "--dry-run", "--target", tmp_path, "-r", lock]
    assert "No solution found" in run(tmp_path, *command)


@pytest.mark.skipif(sys.platform == "win32", reason="the README's commands are for a Unix shell")
def test_the_pip_of_a_new_environment_reads_what_the_readme_installs(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    # the system's Python, because its pip is usually the oldest one, if it can create environments
    system = Path("/usr/bin/python3")
    question = [system, "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"]
    usable = system.exists() and subprocess.run(question, capture_output=True, check=False).returncode == 0
    (tmp_path / "bin" / "python3").symlink_to(
        system if usable else Path(getattr(sys, "_base_executable", sys.executable))
    )
    for lock in LOCKS:
        shutil.copy(lock, tmp_path)
    for name in ("try", "try-uv", "tests", "vision", "tiny"):
        command = subprocess.check_output([ROOT / ".ci" / "command", name], text=True)
        assert len(command.splitlines()) == 1, name
        if name in ("try", "tests", "vision"):
            messages = run(tmp_path, "sh", "-ec", command)
            assert "No matching distribution found" in messages, (name, messages)
