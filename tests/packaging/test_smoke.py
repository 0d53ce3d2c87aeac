"""The smoke test: on the built one-folder program, and that it notices what is wrong."""

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


def test_built_program_does_real_work_without_a_network_and_loses_nothing() -> None:
    done = smoke(one_folder() / ("imgproc-local.exe" if sys.platform == "win32" else "imgproc-local"))
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIGKILL with jobs in work, nothing lost" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are shell scripts")
@pytest.mark.parametrize(
    ("program", "noticed"),
    [
        ("exit 3", "ended with 3"),
        ("echo imgproc-local 1.0; echo 'Traceback (most recent call last):' >&2", "Traceback"),
    ],
)
def test_program_that_does_not_work_fails_the_smoke_test(tmp_path: Path, program: str, noticed: str) -> None:
    broken = tmp_path / "imgproc-local"
    broken.write_text(f"#!/bin/sh\n{program}\n")
    broken.chmod(0o755)
    done = smoke("--with-network", broken, timeout_s=60)
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert noticed in done.stderr


def test_headers_are_read_and_damage_is_noticed() -> None:
    reader = script("smoke_pictures.py")
    came = {"png": pictures.png(60, 40), "jpeg": pictures.jpeg(60, 40)}
    for kind, picture in came.items():
        assert reader.read_header(picture) == (kind, 60, 40)
        reader.check_whole(picture)
        with pytest.raises(ValueError, match="expected"):
            reader.check_whole(picture[:-7] + b"damaged")
    middle = len(came["png"]) // 2
    flipped = came["png"][:middle] + bytes([came["png"][middle] ^ 1]) + came["png"][middle + 1 :]
    with pytest.raises(ValueError, match="checksum"):
        reader.check_whole(flipped)
    with pytest.raises(ValueError, match="expected a JPEG, PNG, GIF, WebP or AVIF"):
        reader.read_header(b"<svg/>")
