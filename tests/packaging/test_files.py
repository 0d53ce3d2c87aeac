"""Files for the operating systems are valid, and the commands, options and files that they name exist."""

from __future__ import annotations

import os
import plistlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import click
import pytest
import yaml
from PIL import Image

from imgproc_local.cli import main
from tests.support.scripts import PACKAGING, ROOT, script

LINUX = PACKAGING / "linux"
SHELL_SCRIPTS = [
    *(PACKAGING / "debian" / name for name in ("postinst", "prerm", "postrm")),
    *PACKAGING.rglob("*.sh"),
    PACKAGING / "macos" / "open-page",
]
PINNED_ACTION = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40}")
SCRIPT = re.compile(r"\.ci/[\w-]+|\b(?:build|packaging)/[\w./-]+\.(?:py|sh|iss)")
PINNED_IMAGE = re.compile(r"[\w./-]+@sha256:[0-9a-f]{64}")
ISS = (PACKAGING / "windows" / "imgproc-local.iss").read_text(encoding="utf-8")
TIMEOUT_S = 60


def tool(name: str) -> str:
    """The path of a checker; skips the test if it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    surroundings = os.environ | environment
    return subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def serve_options() -> set[str]:
    command = main.get_command(click.Context(main), "serve")
    assert command is not None
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def test_unit_restarts_except_after_a_refused_start_and_uses_no_option_that_needs_privileges(tmp_path: Path) -> None:
    program = tmp_path / "ein Ordner ü" / "imgproc-local"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = script("packaging/linux/share.py").unit(str(program))
    (tmp_path / "imgproc-local.service").write_text(unit, encoding="utf-8")
    lines = unit.splitlines()
    wanted = (
        "KillMode=mixed",
        "Restart=on-failure",
        "RestartPreventExitStatus=2",
        "StartLimitIntervalSec=0",  # restarts after changes of the settings are never refused
        f'ExecStart="{program}" serve --no-browser',
    )
    assert [line for line in wanted if line not in lines] == []
    # with any of these, a service of a user manager (systemd --user) fails to start with status 218 (CAPABILITIES)
    privileged = "Protect(Clock|Kernel(Logs|Modules))|PrivateDevices|CapabilityBoundingSet|User"
    assert not [line for line in lines if re.match(f"({privileged})=", line)]
    (denied,) = (line for line in lines if line.startswith("SystemCallFilter=~"))
    assert "@resources" not in denied, "worker threads call setpriority, which is in @resources"
    command = (tool("systemd-analyze"), "--user", "verify", "--man=no", tmp_path / "imgproc-local.service")
    verified = run(*command, XDG_RUNTIME_DIR=str(tmp_path))
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


def test_unit_of_the_whole_machine_is_valid_and_can_do_little_else(tmp_path: Path) -> None:
    unit = tmp_path / "imgproc-local.service"
    unit.write_text(script("packaging/linux/share.py").unit(shutil.which("true")), encoding="utf-8")
    (tmp_path / "imgproc-local.service.d").mkdir()
    shutil.copy(PACKAGING / "debian" / "system.conf", tmp_path / "imgproc-local.service.d")
    # 20 is "2.0 OK" in its table; the unit of a user has 6.3
    for command in (("verify", "--man=no"), ("security", "--offline=yes", "--threshold=20")):
        checked = run(tool("systemd-analyze"), *command, unit)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_desktop_entry_is_valid_and_starts_the_command_that_appstream_names() -> None:
    entry = LINUX / "imgproc-local.desktop"
    assert "Exec=imgproc-local serve --browser" in entry.read_text(encoding="utf-8").splitlines()
    assert "--browser" in serve_options()
    metainfo = ET.parse(LINUX / "local.imgproc.ImgprocLocal.metainfo.xml").getroot()
    assert metainfo.findtext("launchable") == entry.name
    assert metainfo.findtext("provides/binary") == "imgproc-local"
    validated = run(tool("desktop-file-validate"), entry)
    assert (validated.returncode, validated.stdout + validated.stderr) == (0, "")


@pytest.mark.parametrize("file", SHELL_SCRIPTS, ids=lambda file: file.name)
def test_shell_scripts_parse_and_are_portable(file: Path) -> None:
    assert file.read_text(encoding="utf-8").startswith("#!/bin/sh\n")
    for command in (("sh", "-n"), ("shellcheck",)):
        checked = run(*command, file) if shutil.which(command[0]) else None
        assert checked is None or checked.returncode == 0, checked.stdout + checked.stderr


def test_icons_have_all_sizes(tmp_path: Path) -> None:
    icons = script("packaging/icons.py")
    icons.write(tmp_path)
    found = {}
    for file in tmp_path.iterdir():
        with Image.open(file) as image:
            found[file.name.removeprefix("imgproc-local")] = image.info.get("sizes") or image.size
    assert found.pop(".ico") == {(px, px) for px in icons.ICO_SIZES_PX}
    assert {width * scale for width, _, scale in found.pop(".icns")} == set(icons.ICNS_SIZES_PX)
    assert found == {f"-{px}.png": (px, px) for px in icons.SIZES_PX}


def test_property_lists_of_macos_parse_and_agree() -> None:
    macos = PACKAGING / "macos"
    info = plistlib.loads((macos / "Info.plist").read_bytes())
    agent = plistlib.loads((macos / "local.imgproc.ImgprocLocal.plist").read_bytes())
    plistlib.loads((macos / "entitlements.plist").read_bytes())
    bundle = (macos / "bundle.sh").read_text(encoding="utf-8")
    assert agent["Label"] == info["CFBundleIdentifier"]
    assert f"/MacOS/{info['CFBundleExecutable']}" in bundle
    assert (macos / info["CFBundleExecutable"]).stat().st_mode & 0o100
    assert f"/image/{info['CFBundleIconFile']}.icns" in bundle
    program, *arguments = agent["ProgramArguments"]
    assert program.startswith("/Applications/imgproc-local.app/Contents/Resources/imgproc-local/")
    assert set(arguments) - {"serve"} <= serve_options()
    assert agent["KeepAlive"] == {"SuccessfulExit": False}


def test_installer_of_windows_names_files_and_options_that_exist() -> None:
    """Inno Setup runs only on Windows, so this checks the names in its script."""
    for arguments in re.findall(r'(?:Parameters: "|exe"" )serve ([^"]*)"', ISS):
        assert set(arguments.split()) <= serve_options()
    for file in re.findall(r'(?:Source: "|LicenseFile=)\.\.\\\.\.\\([^"\n]+)', ISS):
        assert (ROOT / file).is_file()
    tasks = set(re.findall(r'^Name: "(\w+)"; Description', ISS, re.MULTILINE))
    assert set(re.findall(r"Tasks: (\w+)", ISS)) == tasks


def test_workflow_pins_every_action_and_image_and_runs_scripts_that_exist() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job.get("needs") in (None, *workflow["jobs"])
        assert "container" not in job or PINNED_IMAGE.fullmatch(job["container"]), job["container"]
        for step in job["steps"]:
            assert "uses" not in step or PINNED_ACTION.fullmatch(step["uses"]), step["uses"]
            for file in SCRIPT.findall(step.get("run", "")):
                assert (ROOT / file).is_file(), file
