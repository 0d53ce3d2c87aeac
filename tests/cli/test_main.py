"""Behaviour that all commands share."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from imgproc_local import __version__
from imgproc_local.cli import COMMANDS, main
from tests.cli.conftest import Program
from tests.support import pictures

HEAVY_LIBRARIES = ("litestar", "pyvips", "PIL", "aiosqlite", "babel", "uvicorn")
ARCHIVE_LIBRARIES = ("distributed", "dask", "fsspec", "pyarrow", "imgproc_local.archive", "imgproc_local.batch")


def loaded(script: str, libraries: tuple[str, ...]) -> str:
    """What a script prints, and which of the libraries it has loaded."""
    script = f"import sys\n{script}\nprint('loaded:', [name for name in {libraries!r} if name in sys.modules])"
    return subprocess.check_output([sys.executable, "-c", script], text=True, timeout=60)


def test_help_lists_every_command_and_no_more_is_loaded_than_is_used() -> None:
    help_page = "from imgproc_local.cli import main\nmain(['--help'], standalone_mode=False)"
    shown = loaded(help_page, HEAVY_LIBRARIES)
    assert [command for command in COMMANDS if f"\n  {command} " not in shown] == []
    service = "import imgproc_local.api.app, imgproc_local.web, imgproc_local.server, imgproc_local.cli.serve"
    for output in (shown, loaded(service, ARCHIVE_LIBRARIES)):
        assert "loaded: []" in output


def test_the_version_is_printed(program: Program) -> None:
    assert __version__ in program.output("--version")


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
    assert suggestion in program.error(*arguments)


def test_a_data_folder_without_a_name_is_refused(program: Program) -> None:
    for arguments in (("--data-dir", "", "prune", "--older-than", "0d"), ("keys", "list", "--data-dir", "")):
        assert "expected a folder, received an empty text." in program.error(*arguments)


def test_an_invalid_setting_is_refused_in_one_line(program: Program) -> None:
    for command in ("keys list", "credits balance", "config show"):
        refused = program.error(*command.split(), port=99999)
        assert refused.startswith("Error: port (IMGPROC_PORT)")
        assert len(refused.splitlines()) == 1


def test_data_dir_is_accepted_before_and_after_the_command(program: Program, tmp_path: Path) -> None:
    for number, arguments in enumerate((("--data-dir", "{}", "keys", "list"), ("keys", "list", "--data-dir", "{}"))):
        folder = tmp_path / f"other-{number}"
        folder.mkdir()
        program.output(*(argument.format(folder) for argument in arguments))
        assert (folder / "imgproc.db").is_file()
    assert not program.data.exists()


def test_a_command_in_a_message_acts_on_the_same_folder(program: Program, tmp_path: Path) -> None:
    def pasted(message: str) -> list[str]:
        """The arguments of the last command in a message."""
        return shlex.split(re.findall("`imgproc-local ([^`]+)`", message)[-1])

    own = tmp_path / "my pictures' data"
    program.output(*pasted(program.output("keys", "create", "--name", "a", "--data-dir", own)))
    advice = program.output("--data-dir", own, "keys", "list")
    assert "Not listed: 1 revoked." in advice
    assert "revoked 2" in program.output(*pasted(advice))
    checks = program.in_process_json("doctor", "--data-dir", own)["checks"]
    assert pasted("".join(check["advice"] or "" for check in checks))[:2] == ["--data-dir", str(own)]
    assert pasted(program.error("sign-in", "--data-dir", own)) == ["--data-dir", str(own), "serve"]
    assert pasted(program.error("sign-in"))[:2] == ["--data-dir", str(program.data)], "as a variable names it"
    assert not program.data.exists()


def test_a_command_in_a_message_names_no_folder_where_the_default_is_in_use(tmp_path: Path) -> None:
    environment = {"IMGPROC_DATA_DIR": None, "IMGPROC_CONFIG": None, "HOME": str(tmp_path)}
    environment |= {"XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    refused = CliRunner().invoke(main, ["sign-in"], env=environment).stderr
    assert f"{tmp_path / 'imgproc-local'}. Start it with `imgproc-local serve`." in refused


@pytest.mark.parametrize("name", ["files/taxes/2023.pdf", "work/thesis.doc", "thumbnails/a.jpg", "incoming/film"])
def test_a_folder_with_files_of_the_users_own_does_not_become_the_data_folder(
    program: Program, tmp_path: Path, name: str
) -> None:
    own, picture = program.data / name, program.data / "picture.jpg"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"mine")
    content = pictures.jpeg()
    picture.write_bytes(content)
    for command in ("serve", "keys create --name shop", "credits balance"):
        refused = program.error(*command.split())
        assert f"has no database imgproc.db, or an empty one, but {Path(name).parts[0]} with content" in refused
    backup = tmp_path / "backup.tar"
    backup.write_bytes(b"")
    assert "is not empty" in program.error("restore", backup)
    assert (own.read_bytes(), picture.read_bytes()) == (b"mine", content)
    assert not (program.data / "imgproc.db").exists()
