"""`doctor --report`: what it contains and what it replaces."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path

import pytest

import imgproc_local
from imgproc_local.cli.redaction import Redaction
from imgproc_local.config import Config, Secret
from tests.cli.conftest import Program
from tests.faults.server_process import make_key, serving
from tests.support import pictures

SERVICE_KEY = "outside-service-word"
PICTURE = "Mia am Strand – privat.jpg"


def test_no_planted_secret_is_in_the_report(program: Program) -> None:
    import httpx

    key = make_key(program.data)
    with serving(program.data) as server:
        answer = httpx.post(
            f"{server.root}/api/v1/images/optimize",
            files={"image": (PICTURE, pictures.jpeg())},
            headers={"X-API-Key": key, "Prefer": "wait=60"},
            timeout=90,
        )
        assert answer.json()["data"]["status"] == "completed"
        server.terminate()
    token = (program.data / "page-token").read_text()
    home = program.data.parent
    with (program.data / "logs" / "imgproc.log").open("a", encoding="utf-8") as log:
        log.write(f"a line with {key} and {SERVICE_KEY}, {PICTURE}, {token}, /?token={token}\n")
        log.write(f"{home}/pictures/'Oma zu Hause.png' of maxmustermann: \x1b[31m\n")
    result = program.here(
        "doctor",
        "--report",
        compression_service="tinify",
        compression_key=SERVICE_KEY,
        compression_url="https://tiny.meier-intern.example/",
        models_dir=home / "a drive of mine",
    )
    assert result.exit_code == 1  # models_dir does not exist
    report = result.stdout
    for secret in (
        key,
        SERVICE_KEY,
        token,
        PICTURE,
        "Strand",
        "Oma",
        str(home),
        "a drive of mine",
        "meier-intern",
        "\x1b",
    ):
        assert secret not in report, report
    assert "a line with imgp_… and KEY, PICTURE, TOKEN, /?token=…" in report
    assert "compression_service = tinify" in report
    assert "serves http://127.0.0.1" in report
    assert "libvips" in report
    assert "Read the report" in report


def test_user_host_and_home_are_replaced_as_whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "mia")
    monkeypatch.setattr(socket, "gethostname", lambda: "mias-pc")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/mia"))
    for variable in ("USER", "LOGNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    redacted = Redaction(Config(data_dir=Path("/home/mia/d"), compression_key=Secret("se(cret")))
    assert redacted("/home/mia/x by mia on mias-pc: bohemian") == "~/x by USER on HOST: bohemian"
    assert redacted("/home/mia/d/files, xse(cretx") == "DATA/files, xKEYx"


def test_invalid_settings_are_reported_too(program: Program) -> None:
    result = program.here("doctor", "--report", port=99999)
    assert result.exit_code == 1
    assert "port (IMGPROC_PORT)" in result.stdout
    assert "sqlite" in result.stdout


def test_the_folders_of_the_settings_and_the_program_are_replaced(tmp_path: Path) -> None:
    redacted = Redaction(None, file=tmp_path / "geheim.toml")
    program = Path(imgproc_local.__file__).parent
    assert (
        redacted(f"port = 9  (file {tmp_path / 'geheim.toml'}), in {program}") == "port = 9  (file CONFIG), in PROGRAM"
    )


def test_report_and_json_can_not_be_combined(program: Program) -> None:
    result = program.here("doctor", "--report", "--json")
    assert result.exit_code == 2
    assert "--json" in result.stderr
