"""A second `serve` on a data folder that is served already."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from imgproc_local.system.folder_lock import FolderLock, Owner
from tests.cli.conftest import Program

PID = 4321


@pytest.fixture
def address(request: pytest.FixtureRequest, program: Program) -> Iterator[str]:
    """The address of a server on the data folder, which listens on the host in `request.param`."""
    address = f"http://{request.param}:2222"
    lock = FolderLock(program.data, Owner(PID, "serve", address))
    yield address
    lock.release()


@pytest.mark.parametrize(
    ("address", "host"),
    [("localhost", "localhost"), ("localhost", "127.0.0.1"), ("127.0.0.1", "localhost"), ("[::1]", "::1")],
    indirect=["address"],
)
def test_with_the_same_host_it_prints_the_address(program: Program, address: str, host: str) -> None:
    result = program.in_process("serve", "--no-browser", "--host", host)
    assert result.exit_code == 0, result.stderr
    assert f"already running: it serves {address}/api/v1  (process {PID})" in result.stdout


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost"], indirect=True)
@pytest.mark.parametrize("flags", [("--host", "127.0.0.2"), ("--port", "3333")])
def test_with_another_host_or_port_it_is_refused(program: Program, address: str, flags: tuple[str, str]) -> None:
    result = program.in_process("serve", "--no-browser", *flags)
    assert result.exit_code == 2
    assert f"already served at {address} (process {PID})" in result.stderr
