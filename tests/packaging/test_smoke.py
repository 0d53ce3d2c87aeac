"""The smoke test passes on the built one-folder program, and fails on a program that does not work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import pictures
from tests.support.frozen import one_folder
from tests.support.packaging_scripts import PACKAGING, script

TIMEOUT_S = 600


def smoke(*arguments: str | Path, timeout_s: int = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, PACKAGING / "smoke.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


def test_built_program_passes_without_a_network_and_loses_no_job() -> None:
    done = smoke(one_folder() / ("imgproc-local.exe" if sys.platform == "win32" else "imgproc-local"))
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIGKILL while jobs run: no job is lost" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="the broken programs of this test are shell scripts")
@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("exit 3", "ended with 3"),
        ("echo imgproc-local 1.0; echo 'Traceback (most recent call last):' >&2", "Traceback"),
    ],
)
def test_program_that_does_not_work_fails_the_smoke_test(tmp_path: Path, program: str, message: str) -> None:
    broken = tmp_path / "imgproc-local"
    broken.write_text(f"#!/bin/sh\n{program}\n")
    broken.chmod(0o755)
    done = smoke("--with-network", broken, timeout_s=60)
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert message in done.stderr


def test_smoke_pictures_reads_headers_and_detects_damaged_pictures() -> None:
    smoke_pictures = script("smoke_pictures.py")
    complete = {"png": pictures.png(60, 40), "jpeg": pictures.jpeg(60, 40)}
    for kind, picture in complete.items():
        assert smoke_pictures.read_header(picture) == (kind, 60, 40)
        smoke_pictures.check_complete(picture)
        with pytest.raises(ValueError, match="expected"):
            smoke_pictures.check_complete(picture[:-7] + b"damaged")
    middle = len(complete["png"]) // 2
    flipped = complete["png"][:middle] + bytes([complete["png"][middle] ^ 1]) + complete["png"][middle + 1 :]
    with pytest.raises(ValueError, match="checksum"):
        smoke_pictures.check_complete(flipped)
    with pytest.raises(ValueError, match="expected a JPEG, PNG, GIF, WebP or AVIF"):
        smoke_pictures.read_header(b"<svg/>")
