"""The Debian package of a fake build: its files, their owners and permissions, and its dependencies."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.support.scripts import PACKAGING, ROOT, script

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
        "etc/imgproc-local/config.toml",
        "usr/lib/sysusers.d/imgproc-local.conf",
        "usr/lib/systemd/system/imgproc-local.service",
        "usr/lib/systemd/system/imgproc-local.service.d/10-system.conf",
        "usr/lib/systemd/user/imgproc-local.service",
        "usr/share/applications/imgproc-local.desktop",
        "usr/share/icons/hicolor/scalable/apps/imgproc-local.svg",
        "usr/share/icons/hicolor/256x256/apps/imgproc-local.png",
        "usr/share/man/man1/imgproc-local.1.gz",
        "usr/share/metainfo/local.imgproc.ImgprocLocal.metainfo.xml",
        "usr/share/bash-completion/completions/imgproc-local",
        "usr/share/doc/imgproc-local/copyright",
        "usr/share/doc/imgproc-local/changelog.gz",
        "usr/share/doc/imgproc-local/imgproc_local/api/plugins.md",
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
        "Version: 9.8.7~dev20261127180503+1a2b3c4d",
        "Maintainer: A Packager <a@packager.example>",
    ]
    output("dpkg-deb", "--extract", package, tmp_path / "tree")
    unit = (tmp_path / "tree/usr/lib/systemd/user/imgproc-local.service").read_text()
    assert 'ExecStart="/opt/imgproc-local/imgproc-local" serve --no-browser' in unit
    page = output("gzip", "-dc", tmp_path / "tree/usr/share/man/man1/imgproc-local.1.gz")
    assert page.startswith('.TH IMGPROC\\-LOCAL 1 "')
    assert '"imgproc\\-local 9.8.7" ' in page, "the footer has no room for more than the release"
    sections = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXAMPLES"]
    sections += ["EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"]
    assert re.findall(r"^\.SH (.*)$", page, re.MULTILINE) == sections
    commands = re.findall(r"^\.SS (.*)$", page, re.MULTILINE)
    assert (commands[0], "keys create" in commands, len(commands)) == ("process", True, len(set(commands)))
    process = page.partition(".SS process\n")[2].partition(".SS ")[0]
    assert "\n.TP\n.B \\-\\-format [webp|avif|jxl]\nConvert to this format." in process
    assert "\n    imgproc\\-local keys create \\-\\-name shop\n" in page
    if shutil.which("mandoc"):
        command = ["mandoc", "-T", "lint", "-W", "warning", tmp_path / "tree/usr/share/man/man1/imgproc-local.1.gz"]
        assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == ""


def test_links_in_its_documents_lead_to_files_of_the_package(package: Path, tmp_path: Path) -> None:
    output("dpkg-deb", "--extract", package, tmp_path / "tree")
    folder = tmp_path / "tree/usr/share/doc/imgproc-local"
    links = {}
    for document in folder.rglob("*.md"):
        for block in MarkdownIt().parse(document.read_text(encoding="utf-8")):
            for part in block.children or []:
                target = part.attrs.get("href") or part.attrs.get("src") or ""
                if not re.match(r"#|[a-z]+:", str(target)):
                    links[document, target] = (document.parent / str(target).partition("#")[0]).exists()
    assert len(links) > 50
    assert [key for key, exists in links.items() if not exists] == []


def test_the_command_makes_the_same_package_twice_and_dates_it_as_the_commit(dist: Path, tmp_path: Path) -> None:
    assert "SOURCE_DATE_EPOCH" not in os.environ
    packages = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        (dist / "imgproc-local" / "imgproc-local").touch()
        command = (sys.executable, PACKAGING / "debian" / "build.py", "--dist", dist, "--out", folder)
        packages.append(Path(output(*command).strip()).read_bytes())
    assert packages[0] == packages[1]
    # both may be of the same second: the archive's first time, which dpkg-deb writes, must not be that of the build
    assert packages[0][24:36].decode().strip() == output("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()


def test_what_is_missing_is_named(dist: Path, tmp_path: Path) -> None:
    build, maintainer = script("packaging/debian/build.py").build, "A Packager <a@packager.example>"
    with pytest.raises(SystemExit, match=r"freeze\.py"):
        build(tmp_path, tmp_path, maintainer)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match="expected a folder for --out"):
        build(dist, tmp_path / "file", maintainer)
