"""What `doctor` reports, and that it changes nothing."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.cli.installation import installation
from imgproc_local.codecs.quality import ssimulacra2
from tests.cli.conftest import Program
from tests.faults.server_process import serving
from tests.support import pictures


def checks(program: Program, exit_code: int = 0, **settings: object) -> dict[str, dict[str, Any]]:
    result = program.in_process("doctor", **settings)
    assert result.exit_code == exit_code, result.stdout
    import json

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


def store_a_job(program: Program) -> None:
    """A finished job with its files, as a server leaves them."""
    import httpx

    key = program.in_process_json("keys", "create", "--name", "k")["key"]
    with serving(program.data) as server:
        answer = httpx.post(
            f"{server.root}/api/v1/images/optimize",
            files={"image": ("a.jpg", pictures.jpeg())},
            headers={"X-API-Key": key, "Prefer": "wait=30"},
            timeout=60,
        )
        assert answer.json()["data"]["status"] == "completed"
        server.terminate()


def test_a_missing_folder_is_no_problem_and_is_not_created(program: Program) -> None:
    found = checks(program)
    found.pop("encoders")  # a warning where the C extensions are not built
    assert {check["state"] for check in found.values()} == {"ok"}
    assert "does not exist yet" in found["data folder"]["detail"]
    assert not program.data.exists()


def test_nothing_is_written_to_an_empty_folder(program: Program) -> None:
    program.data.mkdir()
    checks(program)
    assert list(program.data.iterdir()) == []


def test_the_installation_is_reported(program: Program) -> None:
    found = checks(program)
    for name in ("JPEG", "PNG", "GIF", "WebP", "AVIF"):
        assert name in found["libvips"]["detail"]
    assert sqlite3.sqlite_version in found["sqlite"]["detail"]
    assert {"program", "python", "pillow", "describer", "settings", "disk"} <= set(found)


def test_a_used_folder_has_no_problem_is_not_changed_and_no_secret_is_printed(program: Program) -> None:
    secret = program.in_process_json("keys", "create", "--name", "k")["key"]
    store_a_job(program)
    before = listing(program.data)
    found = checks(program)
    assert listing(program.data) == before
    assert found["jobs"]["detail"] == "1 completed"
    assert found["keys"]["detail"].startswith("2 ")
    assert found["server"]["detail"].startswith("none")
    assert secret not in program.in_process("doctor").stdout


def test_a_running_server_is_reported_with_its_address(program: Program) -> None:
    with serving(program.data) as server:
        found = checks(program)
        assert server.root is not None
        assert server.root in found["server"]["detail"]
        assert str(server.pid) in found["server"]["detail"]


def test_an_invalid_setting_is_a_problem_and_the_installation_is_still_checked(program: Program) -> None:
    found = checks(program, exit_code=1, port=99999)
    assert found["settings"]["state"] == "problem"
    assert found["libvips"]["state"] == "ok"


def test_an_unusable_data_folder_is_a_problem(program: Program) -> None:
    program.data.write_bytes(b"a file")
    assert checks(program, exit_code=1)["data folder"]["state"] == "problem"
    assert checks(program, exit_code=1, data_dir=program.data / "below")["data folder"]["state"] == "problem"


def test_a_data_folder_that_can_be_written_but_not_read_is_a_problem(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.data.mkdir()
    access = os.access
    # file permissions do not apply to root, who may run the tests
    monkeypatch.setattr(os, "access", lambda path, mode: path != program.data and access(path, mode))
    found = checks(program, exit_code=1)["data folder"]
    assert (found["state"], found["detail"]) == ("problem", f"{program.data} can't be read")


def test_a_frozen_program_gets_no_advice_to_use_pip_or_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 30, 0))
    monkeypatch.setattr(ssimulacra2, "backend", lambda: "libvips")
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "pyvips", None)
    for frozen in (False, True):
        advised = {check.name: check.advice for check in installation(frozen=frozen) if check.advice}
        assert {"sqlite", "libvips", "pillow", "encoders"} <= set(advised)
        words = " ".join(advised[name] or "" for name in ("sqlite", "libvips", "pillow", "encoders"))
        assert ("pip install" in words) != frozen
        assert ("compiler" in words) != frozen
        assert ("Download imgproc-local again" in words) == frozen


def test_the_compression_service_is_reported_without_its_key_and_is_not_contacted(program: Program) -> None:
    from imgproc_local.remote.usage import Usage, write_usage

    assert checks(program)["compression"]["detail"] == "by the local codecs"
    assert "air-gapped" in checks(program, air_gapped=True)["compression"]["detail"]
    configured = {"compression_service": "tinify", "compression_key": "secret-word"}
    found = checks(program, **configured)
    assert "not used yet" in found["compression"]["detail"]
    assert "secret-word" not in str(found)
    program.data.mkdir()
    write_usage(program.data, Usage(417, "2031-05-06T07:08:09Z"))
    detail = checks(program, **configured)["compression"]["detail"]
    assert "417 compressions" in detail
    assert "2031-05-06" in detail
    (program.data / "compression-service.json").write_bytes(b"{")
    assert "not used yet" in checks(program, **configured)["compression"]["detail"]
    found = checks(program, exit_code=1, air_gapped=True, **configured)
    assert "air_gapped" in found["settings"]["detail"]
