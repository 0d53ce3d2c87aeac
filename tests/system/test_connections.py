"""The whole program under a guard that sees every connection: none leaves this machine, air-gapped or not.

`GUARD_PICTURES=50` lets fifty pictures go through, by `process` and by the service.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.faults.server_process import ROOT, clean_environment
from tests.support import connect_guard, pictures, tiny

UNAVAILABLE = connect_guard.why_unavailable()
pytestmark = pytest.mark.skipif(UNAVAILABLE is not None, reason=str(UNAVAILABLE))

PICTURES = int(os.environ.get("GUARD_PICTURES", "4"))
TIMEOUT_S = 120 + 20 * PICTURES
MAKERS = (pictures.jpeg, pictures.png, pictures.gif, pictures.webp)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "Bilder ä"
    folder.mkdir()
    for number in range(PICTURES):
        maker = MAKERS[number % len(MAKERS)]
        (folder / f"bild {number:02} ß.{maker.__name__}").write_bytes(maker())
    return folder


@pytest.mark.parametrize("mode", [(), ("--air-gapped",)], ids=["normal", "air-gapped"])
def test_no_command_opens_an_outside_connection(folder: Path, tmp_path: Path, mode: tuple[str, ...]) -> None:
    model = ["--model", str(tiny.TEXT), str(tiny.MMPROJ)] if importlib.util.find_spec("llama_cpp") else []
    options = ["--pictures", str(folder), "--work", str(tmp_path / "work")]
    journey = [sys.executable, "-m", "tests.support.journey", *options]
    program = ["--", sys.executable, "-m", "imgproc_local", *mode]
    environment = clean_environment() | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    watched = connect_guard.watch([*journey, *model, *program], timeout_s=TIMEOUT_S, env=environment, cwd=ROOT)
    assert watched.returncode == 0, watched.output
    assert watched.outside == []
    assert f"process: {2 * PICTURES} files of {PICTURES} pictures" in watched.output
    assert ("vision" in watched.output) == bool(model)
    assert ("refused" in watched.output) == bool(mode), watched.output


def test_the_guard_detects_connections_also_of_child_processes() -> None:
    talks = [
        "socket.socket().connect_ex(('192.0.2.1', 9))",
        "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))",
    ]
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6):  # this machine has IPv6
        talks.append("socket.socket(socket.AF_INET6).connect_ex(('2001:db8::1', 9))")
    attempts = "".join(f"with contextlib.suppress(OSError):\n    {talk}\n" for talk in talks)
    script = f"import contextlib, socket\nsocket.setdefaulttimeout(0.1)\n{attempts}"
    in_child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {script!r}])"
    for each in (script, in_child):
        watched = connect_guard.watch([sys.executable, "-c", each], timeout_s=60)
        assert len(watched.outside) == len(talks), watched.output
