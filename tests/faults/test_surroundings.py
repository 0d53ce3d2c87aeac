"""Starts in surroundings that desktops, services and containers really have: without streams, without a home, in
another encoding, on disks that are full or may not be written. All works, or what is wrong is said and nothing is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from imgproc_local.cli.serve import running_server
from tests.faults.server_process import ROOT, clean_environment, make_key
from tests.support import pictures
from tests.support.service import Service
from tests.support.worker_pool import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="these surroundings are Unix's")
TIMEOUT_S = 120
CLOSED = ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"]
PROGRAM = [sys.executable, "-m", "imgproc_local"]


def run(
    folder: Path, *arguments: object, streams: str = "", only: dict[str, str] | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """The program on the data folder `folder`/data. `only` is the whole environment where it is given."""
    command = ['"$@" ' + streams, "sh", *PROGRAM, "--data-dir", str(folder / "data"), *map(str, arguments)]
    return subprocess.run(
        ["sh", "-c", *command],
        cwd=ROOT,
        env=clean_environment() | environment if only is None else only,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def picture(folder: Path, name: str | bytes = "picture.jpg") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / os.fsdecode(name)
    path.write_bytes(pictures.jpeg())
    return path


@pytest.mark.parametrize("streams", CLOSED)
def test_commands_work_with_closed_streams(tmp_path: Path, streams: str) -> None:
    source = picture(tmp_path)
    for arguments in (("process", source, "--out", tmp_path / "out"), ("doctor",), ("keys", "create", "--name", "k")):
        done = run(tmp_path, *arguments, streams=streams)
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
    assert len(list((tmp_path / "out").glob("[!.]*"))) == 2


@contextlib.contextmanager
def serving_with(folder: Path, key: str, streams: str) -> Iterator[tuple[subprocess.Popen[bytes], Service]]:
    """A server with these streams, which is stopped in order after the block."""
    command = ["sh", "-c", f'exec "$@" {streams}', "sh", *PROGRAM, "--data-dir", str(folder), "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, env=clean_environment()) as server:
        try:
            assert wait_until(lambda: running_server(folder) is not None, TIMEOUT_S)
            owner = running_server(folder)
            assert owner is not None
            assert owner.address is not None
            with Service(owner.address, key) as service:
                yield server, service
            server.terminate()
            assert server.wait(TIMEOUT_S) == 0
        finally:
            server.kill()


def test_a_server_without_standard_streams_works_and_opens_devnull_for_them(folder: Path, key: str) -> None:
    with serving_with(folder, key, "0<&- 1>&- 2>&-") as (server, service):
        assert service.process("optimize", pictures.jpeg())["status"] == "completed"
        if sys.platform == "linux":
            for number in range(3):
                assert Path(f"/proc/{server.pid}/fd/{number}").readlink() == Path(os.devnull)
    assert "stopped" in (folder / "logs" / "imgproc.log").read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_to_a_full_disk_is_reported_and_does_not_stop_a_server(tmp_path: Path, folder: Path, key: str) -> None:
    for arguments in (("doctor",), ("process", picture(tmp_path), "--out", tmp_path / "out", "--json")):
        done = run(tmp_path, *arguments, streams="> /dev/full")
        assert done.returncode == 1
        assert done.stderr.decode().startswith("Error: The disk is full")
        assert len(done.stderr.splitlines()) == 1, done.stderr
    with serving_with(folder, key, "> /dev/full 2>&1") as (_, service):
        assert service.client.get(f"{service.root}/healthz").status_code == 200


@pytest.mark.parametrize(
    "surroundings",
    [
        {},
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},  # where no UTF-8 can be had at all
    ],
    ids=["empty environment", "C locale", "C locale, ASCII only"],
)
@pytest.mark.parametrize("name", ["bild ä ß 写真.jpg".encode(), b"no-utf-8-\xff.jpg"], ids=["UTF-8", "bytes"])
def test_any_name_works_in_any_locale(tmp_path: Path, surroundings: dict[str, str], name: bytes) -> None:
    folder = tmp_path / os.fsdecode(
        b"ordner \xc3\xa4" if name.isascii() is False and b"\xff" not in name else b"f \xff"
    )
    try:
        source = picture(folder, name)
    except OSError:
        pytest.skip("this file system has no such names")
    done = run(folder, "process", source, "--out", folder / "out", "--languages", "de,ja", only=surroundings)
    assert done.returncode == 0, done.stderr
    assert len(list((folder / "out").glob("[!.]*"))) == 2
    done = run(folder, "doctor", "--json", only=surroundings)
    assert json.loads(done.stdout)["ok"], done.stdout
    for arguments in (("doctor",), ("config", "show"), ("config", "show", "--json")):
        done = run(folder, *arguments, only=surroundings)
        assert done.returncode == 0, done.stderr
        done.stdout.decode("utf-8")


@pytest.mark.parametrize("temporary", ["missing", "a file"])
def test_large_pictures_work_without_the_configured_temporary_folder(tmp_path: Path, temporary: str) -> None:
    folder = tmp_path / temporary
    if temporary == "a file":
        folder.write_bytes(b"")
    turned = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x112] = 6
    pictures.photo().save(turned, quality=90, exif=exif)
    # every picture counts as large
    surroundings = {"TMPDIR": str(folder), "VIPS_DISC_THRESHOLD": "1k"}
    done = run(tmp_path, "process", turned, "--out", tmp_path / "out", **surroundings)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out").glob("[!.]*"))) == 2


UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]
COMMANDS = [
    ("serve", "--port", "0"),
    ("keys", "list"),
    ("credits", "balance"),
    ("models", "use", "none"),
]


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Permissions hold for the programs that the test starts, for the administrator's too."""
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("this is the administrator, and setpriv is not there")
        monkeypatch.setattr(sys.modules[__name__], "PROGRAM", [*UNPRIVILEGED, *PROGRAM])


@pytest.fixture
def sealed(tmp_path: Path, bound: None) -> Iterator[Path]:
    """A data folder that was used, and that its user can do nothing with now."""
    folder = tmp_path / "data"
    make_key(folder)
    folder.chmod(0)
    yield folder
    folder.chmod(0o700)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("mode", [0o000, 0o500], ids=["closed", "read-only"])
def test_a_data_folder_without_permission_is_reported(
    tmp_path: Path, sealed: Path, command: tuple[str, ...], mode: int
) -> None:
    sealed.chmod(mode)
    done = run(tmp_path, *command)
    error = done.stderr.decode()
    assert done.returncode == 2, error
    assert len(error.splitlines()) == 1, error
    assert str(sealed) in error
    assert "Permission denied" in error


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only the administrator can give folders away")
def test_a_folder_of_another_user_is_reported_with_the_owner(tmp_path: Path, sealed: Path) -> None:
    os.chown(sealed, 54321, 54321)
    error = run(tmp_path, "serve", "--port", "0").stderr.decode()
    assert "it belongs to the user number 54321" in error
