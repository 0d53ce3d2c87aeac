"""The Debian package of a fake build: its files, their owners and permissions, and its dependencies."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packaging.conftest import VERSION
from tests.support.scripts import script

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="Debian's tools make Debian's packages")
TIMEOUT_S = 60


def output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout


@pytest.fixture
def package(dist: Path, tmp_path: Path) -> Path:
    return Path(script("packaging/debian/build.py").build(dist, tmp_path, "A Packager <a@packager.example>"))


def test_package_contains_program_command_unit_entry_and_documents_owned_by_root(package: Path) -> None:
    entries = {}
    for line in output("dpkg-deb", "--contents", package).splitlines():
        rights, owner, _, _, _, path, *link = line.split()
        assert owner == "root/root", line
        assert rights[5] == rights[8] or rights.startswith("l"), "group and others have the same permissions"
        assert "w" not in rights[4:] or rights.startswith("l"), line
        entries[path.removeprefix("./")] = (rights, link)
    for path in (
        "usr/lib/systemd/user/imgproc-local.service",
        "usr/share/applications/imgproc-local.desktop",
        "usr/share/icons/hicolor/scalable/apps/imgproc-local.svg",
        "usr/share/icons/hicolor/256x256/apps/imgproc-local.png",
        "usr/share/man/man1/imgproc-local.1.gz",
        "usr/share/metainfo/local.imgproc.ImgprocLocal.metainfo.xml",
        "usr/share/bash-completion/completions/imgproc-local",
        "usr/share/doc/imgproc-local/copyright",
        "usr/share/doc/imgproc-local/changelog.gz",
        "usr/share/doc/imgproc-local/packaging/README.md",
        "usr/share/doc/imgproc-local/imgproc-local.cdx.json",
        "usr/share/doc/imgproc-local/licences/one/LICENSE",
    ):
        assert path in entries, path
    assert entries["opt/imgproc-local/imgproc-local"][0] == "-rwxr-xr-x"
    assert entries["opt/imgproc-local/_internal/libone.so.1"][0] == "-rw-r--r--"
    assert entries["opt/imgproc-local/_internal/libone.so"][1] == ["->", "libone.so.1"]
    assert entries["usr/bin/imgproc-local"][1] == ["->", "/opt/imgproc-local/imgproc-local"]


def test_fields_unit_and_manual_page_are_those_of_the_build(package: Path, tmp_path: Path) -> None:
    assert output("dpkg-deb", "--field", package, "Depends", "Version", "Maintainer").splitlines() == [
        "Depends: libc6 (>= 2.28)",  # the newest that an object needs
        f"Version: {VERSION}",
        "Maintainer: A Packager <a@packager.example>",
    ]
    output("dpkg-deb", "--extract", package, tmp_path / "tree")
    unit = (tmp_path / "tree/usr/lib/systemd/user/imgproc-local.service").read_text()
    assert 'ExecStart="/opt/imgproc-local/imgproc-local" serve --no-browser' in unit
    page = output("gzip", "-dc", tmp_path / "tree/usr/share/man/man1/imgproc-local.1.gz")
    assert "\n.SH KEYS\n" in page
    assert page.index(".SH KEYS LIST") < page.index(".SH SERVE") < page.index(".SH FILES")


def test_same_build_makes_the_same_package_and_what_is_missing_is_named(
    dist: Path, package: Path, tmp_path: Path
) -> None:
    build, maintainer = script("packaging/debian/build.py").build, "A Packager <a@packager.example>"
    first = package.read_bytes()
    (dist / "imgproc-local" / "imgproc-local").touch()
    assert Path(build(dist, tmp_path, maintainer)).read_bytes() == first
    with pytest.raises(SystemExit, match=r"freeze\.py"):
        build(tmp_path, tmp_path, maintainer)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match="expected a folder for --out"):
        build(dist, tmp_path / "file", maintainer)
