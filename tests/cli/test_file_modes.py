"""Other users have no access to a data folder, whichever command uses it first and whatever the umask is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Program
from tests.faults.server_process import serving

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no file modes")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def shared(program: Program) -> Path:
    """An existing data folder that other users can read."""
    program.data.mkdir()
    program.data.chmod(0o755)
    return program.data


def test_a_server_takes_access_from_other_users_and_logs_it(shared: Path) -> None:
    with serving(shared) as server:
        server.wait_ready()
        files = list(shared.glob("imgproc.db*"))
        assert files
        assert {file: mode(file) for file in files} == dict.fromkeys(files, 0o600)
        server.terminate()
        assert f"other users could read {shared} (mode 755)" in server.output()
    assert mode(shared) == 0o700
