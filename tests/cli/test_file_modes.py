"""Other users have no access to a data folder, whichever command uses it first and whatever the umask is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Program
from tests.faults.server_process import ServerProcess, serving

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
        server.terminate()
        assert f"other users could read {shared} (mode 755)" in server.output()
    assert mode(shared) == 0o700


def test_restore_takes_access_from_other_users(shared: Path, program: Program, tmp_path: Path) -> None:
    program.in_process_json("credits", "grant", 5)
    assert program.in_process("backup", tmp_path / "backup.tar").exit_code == 0
    for file in shared.glob("imgproc.db*"):
        file.unlink()
    assert program.in_process("restore", tmp_path / "backup.tar").exit_code == 0
    assert mode(shared) == 0o700


def test_every_file_of_the_database_is_private_while_the_server_runs(shared: Path) -> None:
    server = ServerProcess(shared)
    try:
        server.wait_ready()
        files = list(shared.glob("imgproc.db*"))
        assert files
        assert {file: mode(file) for file in files} == dict.fromkeys(files, 0o600)
    finally:
        server.kill()
