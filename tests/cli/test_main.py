"""Behaviour that all commands share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from imgproc_local import __version__
from imgproc_local.cli import COMMANDS
from tests.cli.conftest import Program
from tests.support import pictures

HEAVY_LIBRARIES = ("litestar", "pyvips", "PIL", "aiosqlite", "babel", "uvicorn")
ARCHIVE_LIBRARIES = ("distributed", "dask", "fsspec", "pyarrow", "imgproc_local.archive", "imgproc_local.batch")


def test_help_lists_every_command_and_loads_no_heavy_library() -> None:
    script = (
        "import sys\nfrom imgproc_local.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print('loaded:', [name for name in {HEAVY_LIBRARIES!r} if name in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    for command in COMMANDS:
        assert f"\n  {command} " in result.stdout
    assert "loaded: []" in result.stdout


def test_the_service_does_not_load_what_only_archives_need() -> None:
    service = "imgproc_local.api.app, imgproc_local.web, imgproc_local.server, imgproc_local.cli.serve"
    script = f"import sys, {service}\nprint([name for name in {ARCHIVE_LIBRARIES!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_page(program: Program, command: str) -> None:
    result = program.in_process(command, "--help")
    assert (result.exit_code, "Usage:" in result.stdout) == (0, True)


def test_the_version_is_printed(program: Program) -> None:
    assert __version__ in program.in_process("--version").stdout


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (("prozess",), "Did you mean 'process'?"),
        (("keys", "creat"), "Did you mean 'create'?"),
        (("process", "--langauges", "en"), "Did you mean '--languages'?"),
        (("frobnicate",), "No such command 'frobnicate'."),
    ],
)
def test_a_wrong_command_or_option_is_refused_with_a_suggestion(
    program: Program, arguments: tuple[str, ...], suggestion: str
) -> None:
    result = program.in_process(*arguments)
    assert result.exit_code == 2
    assert suggestion in result.stderr


@pytest.mark.parametrize("command", [("keys", "list"), ("credits", "balance"), ("config", "show")])
def test_an_invalid_setting_is_refused_in_one_line(program: Program, command: tuple[str, ...]) -> None:
    result = program.in_process(*command, port=99999)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: port (IMGPROC_PORT)")
    assert len(result.stderr.splitlines()) == 1


def test_data_dir_is_accepted_before_and_after_the_command(program: Program, tmp_path: Path) -> None:
    for number, arguments in enumerate((("--data-dir", "{}", "keys", "list"), ("keys", "list", "--data-dir", "{}"))):
        folder = tmp_path / f"other-{number}"
        folder.mkdir()
        assert program.in_process(*(argument.format(folder) for argument in arguments)).exit_code == 0
        assert (folder / "imgproc.db").is_file()
    assert not program.data.exists()


@pytest.mark.parametrize("name", ["files/taxes/2023.pdf", "work/thesis.doc", "thumbnails/a.jpg", "incoming/film"])
def test_a_folder_with_files_of_the_users_own_does_not_become_the_data_folder(
    program: Program, tmp_path: Path, name: str
) -> None:
    own, picture = program.data / name, program.data / "picture.jpg"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"mine")
    content = pictures.jpeg()
    picture.write_bytes(content)
    for command in (
        ("serve",),
        ("keys", "create", "--name", "shop"),
        ("credits", "balance"),
    ):
        refused = program.in_process(*command)
        assert refused.exit_code == 2
        assert f"has no database imgproc.db, or an empty one, but {Path(name).parts[0]} with content" in refused.stderr
    backup = tmp_path / "backup.tar"
    backup.write_bytes(b"")
    refused = program.in_process("restore", backup)
    assert (refused.exit_code, "is not empty" in refused.stderr) == (2, True)
    assert (own.read_bytes(), picture.read_bytes()) == (b"mine", content)
    assert not (program.data / "imgproc.db").exists()
