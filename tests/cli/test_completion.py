"""What the Tab key offers, asked as the script of a shell does."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from imgproc_local.cli import main
from imgproc_local.vision.models.model import read_catalogue
from imgproc_local.vision.models.store import MANIFEST_FILE
from tests.cli.conftest import Program


def offered(program: Program, line: str, **settings: str) -> dict[str, str]:
    """The values for the last word of a command line, each with its description."""
    environment = {f"IMGPROC_{name.upper()}": value for name, value in settings.items()}
    environment = {"HOME": str(program.data.parent), "IMGPROC_DATA_DIR": str(program.data)} | environment
    asked = {"_IMGPROC_LOCAL_COMPLETE": "zsh_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    shown = CliRunner().invoke(main, [], env=environment | asked, prog_name="imgproc-local")
    assert (shown.exit_code, shown.stderr) == (0, "")
    lines = shown.stdout.strip().splitlines()
    assert set(lines[::3]) <= {"plain"}
    return dict(zip(lines[1::3], lines[2::3], strict=True))


def test_languages_are_offered_after_each_comma_and_only_once(program: Program) -> None:
    assert offered(program, "imgproc-local process --languages d") == {"de": "German", "da": "Danish"}
    assert set(offered(program, "imgproc-local archive --languages en,de,d")) == {"en,de,da"}
    assert set(offered(program, "imgproc-local models check x --languages pt,s")) >= {"pt,sv", "pt,sl"}


def test_models_are_offered(program: Program) -> None:
    assert set(offered(program, "imgproc-local models pull ")) == set(read_catalogue())
    for name in ("mine", "other"):
        (program.data / "models" / name).mkdir(parents=True)
        (program.data / "models" / name / MANIFEST_FILE).touch()
    for command in ("use", "verify", "check", "remove"):
        assert offered(program, f"imgproc-local models {command} m") == {"mine": "installed"}


def test_ids_of_keys_are_offered_and_the_data_folder_is_not_changed(program: Program, tmp_path: Path) -> None:
    shop, old = (program.in_process_json("keys", "create", "--name", name) for name in ("shop", "old"))
    program.output("keys", "revoke", old["id"])
    before = {path: path.stat().st_mtime_ns for path in program.data.rglob("*")}
    assert offered(program, "imgproc-local keys revoke ") == {shop["id"]: "shop"}
    assert {path: path.stat().st_mtime_ns for path in program.data.rglob("*")} == before
    for line in (
        f"imgproc-local --data-dir {program.data} keys revoke ",
        f"imgproc-local keys revoke --data-dir {program.data} ",
    ):
        assert offered(program, line, data_dir=str(tmp_path / "other")) == {shop["id"]: "shop"}
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("command", ["keys revoke", "sessions revoke", "models use"])
def test_nothing_is_offered_nor_created_where_nothing_is(program: Program, command: str) -> None:
    assert offered(program, f"imgproc-local {command} ") == {}
    assert offered(program, f"imgproc-local {command} ", port="wrong") == {}
    assert not program.data.exists()
