"""`sign-in` and `sessions` beside a running server, and what `serve` prints to a terminal and to a file."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Program, use_link
from tests.faults.server_process import ROOT, clean_environment, serving

pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")

LINK = re.compile(r"(http://\S+/)\?token=(\S+)")


def test_sign_in_prints_a_link_that_works_once(program: Program) -> None:
    with serving(program.data) as server:
        result = program.in_process("sign-in")
        assert result.exit_code == 0, result.output
        link = result.stdout.strip()
        assert link.startswith(f"{server.root}/?token=")
        assert "app.js" in httpx.get(link).text
        assert [use_link(link).status_code for _ in range(2)] == [200, 401]


def test_sign_in_without_a_server_says_what_to_do(program: Program) -> None:
    result = program.in_process("sign-in")
    assert result.exit_code == 2
    assert "imgproc-local serve" in result.stderr


def test_sessions_are_listed_and_revoked_at_once(program: Program) -> None:
    program.data.mkdir()
    assert "No browser" in program.in_process("sessions", "list").stdout
    with serving(program.data) as server, httpx.Client(base_url=server.wait_ready()) as one, httpx.Client() as two:
        for browser, name in ((one, "Browser one"), (two, "Browser two")):
            use_link(program.in_process("sign-in").stdout.strip(), browser, **{"User-Agent": name})
        first, second = program.in_process_json("sessions", "list")
        assert [first["browser"], second["browser"]] == ["Browser one", "Browser two"]
        assert "Browser two" in program.in_process("sessions", "list").stdout
        assert one.get("/local/keys").status_code == 200
        assert program.in_process("sessions", "revoke", first["id"]).exit_code == 0
        assert one.get("/local/keys").status_code == 401
        assert two.get(f"{server.root}/local/keys").status_code == 200
        unused = program.in_process("sign-in").stdout.strip()
        assert program.in_process("sessions", "revoke", "--all").exit_code == 0
        assert two.get(f"{server.root}/local/keys").status_code == 401
        assert use_link(unused).status_code == 401, "links that were not used are revoked too"
    assert program.in_process("sessions", "revoke", first["id"]).exit_code == 2


@pytest.mark.parametrize("arguments", [(), ("x", "--all")])
def test_revoke_needs_one_id_or_all(program: Program, arguments: tuple[str, ...]) -> None:
    assert program.in_process("sessions", "revoke", *arguments).exit_code == 2


# ---- what `serve` prints ----


def test_a_server_without_a_terminal_prints_no_secret_but_how_to_get_one(program: Program) -> None:
    with serving(program.data) as server:
        assert server.terminate() == 0
        printed = server.output()
    assert "imgp_" not in printed
    assert "token=" not in printed
    assert "imgproc-local sign-in" in printed
    assert "imgproc-local keys create" in printed
    assert program.in_process_json("keys", "list") == [], "a key that nobody can see is not created"


def terminal_output(folder: Path, until: str) -> str:
    """What `serve` on `folder` prints to a terminal, up to `until`."""
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "imgproc_local", "serve", "--no-browser", "--port", "0"],
        cwd=ROOT,
        env=clean_environment(data_dir=folder),
        stdin=subprocess.DEVNULL,
        stdout=secondary,
        stderr=subprocess.DEVNULL,
    )
    os.close(secondary)
    printed, deadline = b"", time.monotonic() + 30
    try:
        while until not in printed.decode() and time.monotonic() < deadline:
            if select.select([primary], [], [], 1)[0]:
                printed += os.read(primary, 4096)
        link = LINK.search(printed.decode())
        if link:
            assert use_link(link[0].strip()).status_code == 200
    finally:
        process.terminate()
        process.wait(30)
        os.close(primary)
    return printed.decode()


def test_a_server_in_a_terminal_prints_a_link_and_the_first_key(tmp_path: Path) -> None:
    printed = terminal_output(tmp_path / "data", "Create more with")
    assert LINK.search(printed)
    assert re.search(r"imgp_\w{32}", printed)
    again = terminal_output(tmp_path / "data", "Page:")
    assert LINK.search(again)
    assert "imgp_" not in again, "only an empty data folder gets a first key"
