"""What `doctor --report` tells, and what it keeps to itself."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path

import pytest

import imgproc_local
from imgproc_local.cli.doctor.redaction import Redaction
from imgproc_local.config import Config, Secret
from tests.cli.conftest import Program
from tests.faults.server_process import make_key, serving
from tests.support import pictures

SERVICE_KEY = "outside-service-word"
PICTURE = "Mia am Strand – privat.jpg"


def test_planted_secrets_do_not_appear(program: Program) -> None:
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
    assert result.exit_code == 1  # the folder of the models is not there
    told = result.stdout
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
        assert secret not in told, told
    assert "a line with imgp_… and KEY, PICTURE, TOKEN, /?token=…" in told
    assert "compression_service = tinify" in told
    assert "serves http://127.0.0.1" in told
    assert "libvips" in told
    assert "look it through" in told


def test_user_host_and_home_are_replaced_as_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "mia")
    monkeypatch.setattr(socket, "gethostname", lambda: "mias-pc")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/mia"))
    for variable in ("USER", "LOGNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    redacted = Redaction(Config(data_dir=Path("/home/mia/d"), compression_key=Secret("se(cret")))
    assert redacted("/home/mia/x by mia on mias-pc: bohemian") == "~/x by USER on HOST: bohemian"
    assert redacted("/home/mia/d/files, xse(cretx") == "DATA/files, xKEYx"


def test_refused_settings_still_give_a_report(program: Program) -> None:
    result = program.here("doctor", "--report", port=99999)
    assert result.exit_code == 1
    assert "port (IMGPROC_PORT)" in result.stdout
    assert "sqlite" in result.stdout


def test_where_the_settings_and_the_program_lie_is_not_told(tmp_path: Path) -> None:
    redacted = Redaction(None, file=tmp_path / "geheim.toml")
    program = Path(imgproc_local.__file__).parent
    assert (
        redacted(f"port = 9  (file {tmp_path / 'geheim.toml'}), in {program}") == "port = 9  (file CONFIG), in PROGRAM"
    )


def test_a_report_is_no_json(program: Program) -> None:
    result = program.here("doctor", "--report", "--json")
    assert result.exit_code == 2
    assert "--json" in result.stderr
