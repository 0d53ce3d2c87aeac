"""`process` on a folder that somebody else prepared: nothing outside the output folder changes, and no run blocks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest

from imgproc_local.batch import MANIFEST_FILE, MANIFEST_HEADER, ManifestLine, ResultFile
from imgproc_local.cli.process.results_folder import LOCK_FILE
from imgproc_local.system.files import hash_file
from tests.cli.conftest import Program
from tests.cli.process.test_process import names
from tests.support import pictures

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="creates links and pipes")

FLAGS = ("--only", "optimize", "--effort", "fast")


@pytest.fixture
def received(tmp_path: Path) -> Path:
    """The received folder. Its output folder has links that lead to the folder `home`, which belongs to the user."""
    folder = tmp_path / "received"
    for parent in (folder / "sub", folder / "imgproc-out", tmp_path / "home" / "proj"):
        parent.mkdir(parents=True)
    (tmp_path / "home" / "proj" / "__init__.py").touch()
    (tmp_path / "home" / "known.cfg").write_text("known")
    (folder / "a.jpg").write_bytes(pictures.jpeg(64, 48))
    for name in ("l", "sub"):
        (folder / "imgproc-out" / name).symlink_to("../../home")
    return folder


@pytest.mark.parametrize("attack", ["l/proj/__init__.py", "l/known.cfg", "results"])
def test_links_in_the_output_folder_do_not_lead_out_of_it(
    program: Program, tmp_path: Path, received: Path, attack: str
) -> None:
    home, out = tmp_path / "home", received / "imgproc-out"
    before = names(home)
    if attack == "results":
        (received / "a.jpg").rename(received / "sub" / "a.jpg")
    else:  # the manifest names a file behind a link as a result
        file = home / Path(attack).relative_to("l")
        result = ResultFile(attack, hash_file(file), file.stat().st_size)
        record = ManifestLine(source="../a.jpg", size_bytes=1, modified_ns=1, sha256="", options="", optimized=result)
        (out / MANIFEST_FILE).write_bytes(b"\n".join([MANIFEST_HEADER, msgspec.json.encode(record), b""]))
    refused = program.error("process", received, "--out", out, *FLAGS, exit_code=1)
    assert "leads out of the folder" in refused
    assert names(home) == before


def test_the_output_folder_itself_may_be_a_link(program: Program, tmp_path: Path, received: Path) -> None:
    (tmp_path / "link").symlink_to("home")
    program.output("process", received / "a.jpg", "--out", tmp_path / "link" / "results", *FLAGS)
    assert len(list((tmp_path / "home" / "results").glob("*.jpg"))) == 1


@pytest.mark.parametrize("name", [LOCK_FILE, MANIFEST_FILE])
@pytest.mark.parametrize("kind", ["link", "pipe", "device"])
def test_a_lock_or_a_manifest_that_is_no_regular_file_is_refused_and_nothing_changes(
    program: Program, tmp_path: Path, received: Path, kind: str, name: str
) -> None:
    outside, file = tmp_path / "home" / "file", received / "imgproc-out" / name
    if name == MANIFEST_FILE:
        outside.write_bytes(MANIFEST_HEADER + b"\n")
    before = names(tmp_path / "home")
    os.mkfifo(file) if kind == "pipe" else file.symlink_to(outside if kind == "link" else "/dev/zero")
    ended = program("process", received, "--out", received / "imgproc-out", *FLAGS)  # a run that blocks is killed
    assert ended.returncode == 2
    assert f"can't be written ({name} is not a regular file)" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert names(tmp_path / "home") == before
    assert name == LOCK_FILE or outside.read_bytes() == MANIFEST_HEADER + b"\n"


def test_pipes_and_damaged_manifests_in_a_searched_folder_do_not_block_or_end_the_run(
    program: Program, tmp_path: Path, received: Path
) -> None:
    os.mkfifo(received / "sub" / MANIFEST_FILE)
    os.mkfifo(received / "pipe.jpg")
    nested = b'{"x":' + b"[" * 120_000 + b"]" * 120_000 + b"}\n"
    (received / MANIFEST_FILE).write_bytes(nested)
    ended = program("process", received, "--out", tmp_path / "out", *FLAGS)  # a run that blocks is killed
    assert ended.returncode == 0, ended.stderr
    assert "1 done" in ended.stderr
    assert f"sub/{MANIFEST_FILE} can't be read ({MANIFEST_FILE} is not a regular file)" in ended.stderr
    assert f"1 lines of {received / MANIFEST_FILE} can't be read" in ended.stderr
