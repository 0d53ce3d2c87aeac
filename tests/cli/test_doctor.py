"""What `doctor` reports, that it has no secret, and that it changes nothing."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from imgproc_local.cli.doctor import installation
from imgproc_local.codecs import jpeg
from tests.cli.conftest import Program
from tests.faults.server_process import serving
from tests.support import pictures

COMPRESSION_KEY = "outside-service-word"


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


def test_a_used_folder_is_not_changed(program: Program) -> None:
    key = program.in_process_json("keys", "create", "--name", "k")["key"]
    with serving(program.data) as server:
        answer = httpx.post(
            f"{server.root}/api/v1/images/optimize",
            files={"image": ("a.jpg", pictures.jpeg())},
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


def test_invalid_settings_are_a_problem_and_the_installation_is_still_checked(program: Program) -> None:
    found = checks(program, exit_code=1, port=99999)
    assert (found["settings"]["state"], found["python"]["state"]) == ("problem", "ok")
    assert "port (IMGPROC_PORT)" in found["settings"]["detail"]
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


def test_air_gapped_only_an_import_of_models_is_advised(program: Program) -> None:
    advice = [check["advice"] or "" for check in checks(program, air_gapped=True).values()]
    assert "models import PATH" in " ".join(advice)
    assert "models pull" not in " ".join(advice)
    assert "models pull NAME" in checks(program)["describer"]["advice"]


def test_a_missing_file_of_signers_is_a_problem(program: Program, tmp_path: Path) -> None:
    signers = tmp_path / "signers"
    missing = checks(program, exit_code=1, model_signers=signers)["signers"]
    assert (missing["state"], str(signers) in missing["detail"]) == ("problem", True)
    signers.write_text("", encoding="utf-8")
    assert "signers" not in checks(program, model_signers=signers)
