"""The names and secrets that are replaced in texts for other people."""

from __future__ import annotations

import socket
from pathlib import Path

import imgproc_local
from imgproc_local.cli.redaction import Redaction, machine_names
from imgproc_local.config import Config, Secret


def test_user_host_and_home_are_replaced_as_whole_words() -> None:
    machine = [("/home/mia", "~"), ("mia", "USER"), ("mias-pc", "HOST")]
    config = Config(data_dir=Path("/home/mia/d"), compression_key=Secret("se(cret"))
    redacted = Redaction(config, machine=machine)
    assert redacted("/home/mia/x by mia on mias-pc: bohemian") == "~/x by USER on HOST: bohemian"
    assert redacted("/home/mia/d/files, xse(cretx") == "DATA/files, xKEYx"


def test_the_names_of_this_machine_are_replaced() -> None:
    names = dict(machine_names())
    assert names[socket.gethostname()] == "HOST"
    assert names[str(Path.home())] == "~"


def test_the_folders_of_the_settings_and_the_program_are_replaced(tmp_path: Path) -> None:
    redacted = Redaction(None, settings_file=tmp_path / "geheim.toml")
    program = Path(imgproc_local.__file__).parent
    assert (
        redacted(f"port = 9  (file {tmp_path / 'geheim.toml'}), in {program}") == "port = 9  (file CONFIG), in PROGRAM"
    )
