"""install.sh, run from the archive of a fake build, installs into temporary home folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.conftest import VERSION
from tests.support.scripts import script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the archive is for Linux")
TIMEOUT_S = 60


class Installer:
    """Runs install.sh of the unpacked archive for the home folder `home`."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        self.prefix = home / ".local"

    def run(self, *arguments: str, expect: int = 0) -> str:
        done = subprocess.run(
            [self.folder / "install.sh", *arguments],
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*") if not path.is_dir())


@pytest.fixture
def installer(dist: Path, tmp_path: Path) -> Installer:
    archive = Path(script("packaging/linux/build.py").build(dist, tmp_path))
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path / "unpacked"], check=True)
    (folder,) = (tmp_path / "unpacked").iterdir()
    home = tmp_path / "home & 100 % ü"
    home.mkdir()
    return Installer(folder, home)


def test_what_is_installed_runs_is_replaced_by_a_second_installation_and_uninstalled(installer: Installer) -> None:
    data = installer.home / ".local/share/imgproc-local/imgproc.db"
    foreign = installer.home / ".local/share/applications/another.desktop"
    for file in (data, foreign):
        file.parent.mkdir(parents=True)
        file.write_text("of the user")
    output = installer.run()
    command = installer.prefix / "bin" / "imgproc-local"
    assert VERSION in subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    assert f"{command} serve" in output  # the full path, because the folder is not on PATH
    unit = (installer.prefix / "share/systemd/user/imgproc-local.service").read_text(encoding="utf-8")
    program = installer.prefix / "lib/imgproc-local/imgproc-local/imgproc-local"
    assert f'ExecStart="{program}" serve'.replace("%", "%%") in unit
    entry = (installer.prefix / "share/applications/imgproc-local.desktop").read_text(encoding="utf-8")
    assert f'Exec="{command}" serve --browser'.replace("%", "%%") in entry
    assert "@PROGRAM@" not in unit

    installed = installer.files()
    for old in ("lib/imgproc-local/imgproc-local/_internal/old.so", "share/doc/imgproc-local/OLD.md"):
        (installer.prefix / old).write_text("of an older version")
    with (installer.prefix / "lib/imgproc-local/installed.txt").open("a") as listed:
        listed.write("share/doc/imgproc-local/OLD.md\n")
    installer.run()
    assert installer.files() == installed

    command.unlink()
    command.symlink_to("/somewhere/else")  # another installation
    output = installer.run("--uninstall")
    assert installer.files() == sorted(str(file.relative_to(installer.home)) for file in (command, data, foreign))
    assert command.is_symlink()
    assert "were not removed" in output
    assert "there is no installation" in installer.run("--uninstall", expect=1)


def test_nothing_is_installed_over_another_program_from_a_damaged_archive_or_into_an_unusable_folder(
    installer: Installer,
) -> None:
    command = installer.prefix / "bin" / "imgproc-local"
    command.parent.mkdir(parents=True)
    command.write_text("another's")
    assert "is a file of another program" in installer.run(expect=1)
    assert command.read_text() == "another's"
    command.unlink()
    for prefix in ("relative", "", '/tmp/a"b', "/tmp/a\\b", "/tmp/a$b", "/tmp/a\nb"):
        assert "expected" in installer.run("--prefix", prefix, expect=1)
    library = installer.folder / "imgproc-local" / "_internal" / "libtwo.so.2"
    library.write_bytes(library.read_bytes() + b"!")
    assert "damaged" in installer.run(expect=1)
    assert installer.files() == []


def test_program_that_does_not_run_here_is_not_installed_over_one_that_does(installer: Installer) -> None:
    installer.run()
    before = installer.files()
    program = installer.folder / "imgproc-local" / "imgproc-local"
    program.write_text("#!/bin/sh\nexit 127\n")
    # the sums are correct again; the list of sums does not list itself
    sums = script("packaging/linux/share.py").checksums(installer.folder, "sha256")
    (installer.folder / "SHA256SUMS").write_text("".join(line for line in sums.splitlines(True) if "SUMS" not in line))
    assert "does not run here" in installer.run(expect=1)
    installed = installer.prefix / "bin" / "imgproc-local"
    assert VERSION in subprocess.run([installed, "--version"], capture_output=True, text=True, check=True).stdout
    # the copy that was tried remains beside the installed program, until the next installation deletes it
    assert [file for file in installer.files() if ".new/" not in file] == before
