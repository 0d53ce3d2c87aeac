"""What `doctor` reports, that it changes nothing, and that its report for other people has no secret."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from imgproc_local.cli.doctor import installation
from imgproc_local.cli.log_file import redacted
from imgproc_local.codecs import jpeg
from tests.cli.conftest import Program
from tests.faults.server_process import serving
from tests.support import pictures

COMPRESSION_KEY = "outside-service-word"
PICTURE = "Mia am Strand – privat.jpg"


def checks(program: Program, exit_code: int = 0, **settings: object) -> dict[str, dict[str, Any]]:
    result = program.in_process("doctor", **settings)
    assert result.exit_code == exit_code, result.stdout
    document = json.loads(program.in_process("doctor", "--json", **settings).stdout)
    assert document["ok"] is (exit_code == 0)
    for check in document["checks"]:
        # the free space of the disk may change between the two calls
        assert check["detail"] in result.stdout or check["name"] == "disk"
        assert check["state"] in ("ok", "warning", "problem")
        assert check["state"] != "problem" or check["advice"], "a problem needs advice"
    return {check["name"]: check for check in document["checks"]}


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_installation_is_reported_and_a_missing_folder_is_not_created(program: Program) -> None:
    found = checks(program)
    for name in ("JPEG", "PNG", "GIF", "WebP", "AVIF"):
        assert name in found["codecs"]["detail"]
    assert sqlite3.sqlite_version in found["python"]["detail"]
    assert {"program", "python", "codecs", "describer", "settings", "disk"} <= set(found)
    # a warning where an optional encoder is not installed
    assert {check["state"] for name, check in found.items() if name != "codecs"} == {"ok"}
    assert "does not exist yet" in found["data folder"]["detail"]
    assert not program.data.exists()
    program.data.mkdir()
    checks(program)
    assert list(program.data.iterdir()) == []


def test_a_used_folder_is_not_changed_and_a_report_of_it_has_no_planted_secret(program: Program) -> None:
    key = program.in_process_json("keys", "create", "--name", "k")["key"]
    with serving(program.data) as server:
        answer = httpx.post(
            f"{server.root}/api/v1/images/optimize",
            files={"image": (PICTURE, pictures.jpeg())},
            headers={"X-API-Key": key, "Prefer": "wait=60"},
            timeout=90,
        )
        assert answer.json()["data"]["status"] == "completed"
        running = checks(program)["server"]["detail"]
        assert f"{server.root} has run as process {server.pid}" in running
        server.terminate()
    before = listing(program.data)
    found = checks(program)
    assert listing(program.data) == before
    assert found["jobs"]["detail"] == "1 completed"
    assert found["server"]["detail"].startswith("none")
    assert key not in str(found)

    token, home = "aB3-_" * 9, program.data.parent
    with (program.data / "logs" / "imgproc.log").open("a", encoding="utf-8") as log:
        log.write(f"a line with {key} and {COMPRESSION_KEY}, {PICTURE}, /?token={token}\n")
        log.write(f"{home}/pictures/'Oma zu Hause.png' of maxmustermann: \x1b[31m\n")
    result = program.in_process(
        "doctor",
        "--report",
        compression_service="tinify",
        compression_key=COMPRESSION_KEY,
        compression_url="https://tiny.meier-intern.example/",
        models_dir=home / "a drive of mine",
    )
    assert result.exit_code == 1  # models_dir does not exist
    report = result.stdout
    planted = (key, COMPRESSION_KEY, token, PICTURE, "Strand", "Oma", str(home), "drive of mine", "meier-intern")
    assert [secret for secret in (*planted, socket.gethostname(), "\x1b") if secret in report] == []
    machine = [("mia", "USER"), ("/home/mia", "~"), ("mias-pc", "HOST")]
    assert redacted("/home/mia/x by mia on mias-pc: bohemian", machine) == "~/x by USER on HOST: bohemian"
    assert "a line with imgp_… and KEY, PICTURE, /?token=…" in report
    for line in ("compression_service = tinify", "serves http://127.0.0.1", "libvips", "Read the report"):
        assert line in report


def test_invalid_settings_are_a_problem_and_the_installation_is_still_checked(program: Program) -> None:
    found = checks(program, exit_code=1, port=99999)
    assert (found["settings"]["state"], found["python"]["state"]) == ("problem", "ok")
    report = program.in_process("doctor", "--report", port=99999)
    assert (report.exit_code, "port (IMGPROC_PORT)" in report.stdout) == (1, True)
    assert "--json" in program.error("doctor", "--report", "--json")
    service: dict[str, Any] = {"compression_service": "tinify", "compression_key": COMPRESSION_KEY}
    found = checks(program, **service)
    assert "tinify at https://api.tinify.com" in found["compression"]["detail"]
    assert COMPRESSION_KEY not in str(found)
    assert "air_gapped" in checks(program, exit_code=1, air_gapped=True, **service)["settings"]["detail"]


def test_an_unusable_data_folder_is_a_problem(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program.data.write_bytes(b"a file")
    assert checks(program, exit_code=1, data_dir=program.data / "below")["data folder"]["state"] == "problem"
    program.data.unlink()
    program.data.mkdir()
    access = os.access
    # file permissions do not apply to root, who may run the tests
    monkeypatch.setattr(os, "access", lambda path, mode: path != program.data and access(path, mode))
    found = checks(program, exit_code=1)["data folder"]
    assert (found["state"], str(program.data) in found["detail"]) == ("problem", True)


@pytest.mark.parametrize("frozen", [False, True])
def test_what_is_missing_is_reported_and_a_frozen_program_needs_no_compiler(
    monkeypatch: pytest.MonkeyPatch, frozen: bool
) -> None:
    def advised() -> dict[str, tuple[str, str]]:
        return {check.name: (check.state, check.advice or "") for check in installation() if check.state != "ok"}

    monkeypatch.setattr(sys, "frozen", frozen, raising=False)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 30, 0))
    monkeypatch.setattr(jpeg, "pyjpegli", None)
    found = advised()
    assert {name: state for name, (state, _) in found.items()} == {"python": "problem", "codecs": "warning"}
    assert all(("compiler" in advice) != frozen for _, advice in found.values())
    assert all(("Download imgproc-local again" in advice) == frozen for _, advice in found.values())
    for library in ("pyvips", "PIL"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, library, None)
            assert advised()["codecs"][0] == "problem"
