"""`models`, `doctor`, `process` and the local page with models in other programs on this machine."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.vision.loopback.programs import PROGRAMS
from tests.cli.conftest import Program
from tests.support import pictures
from tests.support.model_servers import BLIND, ERRORS, ModelServerDouble, sends


@pytest.fixture(scope="module")
def closed_url() -> str:
    """An address where nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def row(program: Program, name: str, **settings: object) -> dict[str, Any] | None:
    rows = program.in_process_json("models", "list", **settings)
    return next((one for one in rows if one["name"] == name), None)


def describer_check(program: Program, exit_code: int = 0, **settings: object) -> dict[str, Any]:
    result = program.in_process("doctor", "--json", **settings)
    assert result.exit_code == exit_code, result.output
    return next(check for check in json.loads(result.stdout)["checks"] if check["name"] == "describer")


def test_a_model_is_listed_used_and_shown(program: Program, double: ModelServerDouble) -> None:
    settings: dict[str, object] = {"program_url": double.url}
    name = f"{double.program}:{double.model}"
    found = row(program, name, **settings)
    assert found is not None
    assert (found["state"], found["in_use"]) == (f"in {PROGRAMS[double.program].title}", False)
    assert row(program, f"{double.program}:{BLIND[double.program]}", **settings) is None
    result = program.in_process("models", "use", name, **settings)
    assert result.exit_code == 0, result.output
    assert f"{name} is in use" in result.output
    used = row(program, name, **settings)
    assert used is not None
    assert (used["in_use"], used["problem"]) == (True, None)


def test_a_program_is_listed_and_used_only_as_itself(program: Program, double: ModelServerDouble) -> None:
    settings: dict[str, object] = {"program_url": double.url}
    names = {one["name"] for one in program.in_process_json("models", "list", **settings)}
    offered = {name for name in names if name.partition(":")[0] in PROGRAMS}
    assert offered == {f"{double.program}:{double.model}"}
    for other in PROGRAMS.keys() - {double.program, "ollama"}:
        for model in (double.model, "mine"):  # the second one runs in Ollama's cloud
            refused = program.in_process("models", "use", f"{other}:{model}", **settings)
            assert refused.exit_code != 0, f"{other}:{model}"
    assert double.questions == []


def test_doctor_names_the_model(program: Program, ollama: ModelServerDouble) -> None:
    settings = {"program_url": ollama.url, "model": f"ollama:{ollama.model}"}
    assert f"the model ollama:{ollama.model}" in describer_check(program, **settings)["detail"]


def test_a_program_that_stopped_is_shown(program: Program, closed_url: str, ollama: ModelServerDouble) -> None:
    settings: dict[str, object] = {"program_url": ollama.url}
    name = f"ollama:{ollama.model}"
    assert program.in_process("models", "use", name, **settings).exit_code == 0
    settings["program_url"] = closed_url
    stopped = row(program, name, **settings)
    assert stopped is not None
    assert (stopped["state"], stopped["in_use"]) == ("does not work here", True)
    words = f"Ollama does not answer at {closed_url}"
    assert words in stopped["problem"]
    assert words in program.in_process("models", "list", **settings).stdout
    check = describer_check(program, exit_code=1, **settings)
    assert check["state"] == "problem"
    assert words in check["detail"]


def test_a_model_that_can_not_be_used_is_refused(program: Program, double: ModelServerDouble) -> None:
    settings: dict[str, object] = {"program_url": double.url}
    missing = program.in_process("models", "use", f"{double.program}:gone", **settings)
    assert missing.exit_code != 0
    assert "has no model 'gone'" in missing.stderr
    double.listings.append(sends(*ERRORS[double.program]["refused"]))
    refused = program.in_process("models", "use", f"{double.program}:{double.model}", **settings)
    assert refused.exit_code != 0
    assert "refused the request" in refused.stderr
    assert not any(one["in_use"] for one in program.in_process_json("models", "list", **settings))


def test_another_program_at_the_port_is_not_listed(program: Program, ollama: ModelServerDouble) -> None:
    settings: dict[str, object] = {"program_url": ollama.url}
    for behaviour in (sends(200, b"<html>It works!</html>"), sends(404, {"detail": "Not Found"}), sends(200, {})):
        ollama.listings.append(behaviour)
        names = {one["name"] for one in program.in_process_json("models", "list", **settings)}
        assert not any(name.startswith("ollama:") for name in names)


def test_air_gapped_mode_contacts_no_program(program: Program, ollama: ModelServerDouble) -> None:
    settings: dict[str, object] = {"program_url": ollama.url}
    name = f"ollama:{ollama.model}"
    assert program.in_process("models", "use", name, **settings).exit_code == 0
    ollama.requests.clear()
    found = row(program, name, air_gapped=True, **settings)
    assert found is not None
    assert "In air-gapped mode" in found["problem"]
    assert "In air-gapped mode" in describer_check(program, exit_code=1, air_gapped=True, **settings)["detail"]
    refused = program.in_process("models", "use", name, air_gapped=True, **settings)
    assert refused.exit_code != 0
    assert "In air-gapped mode" in refused.stderr
    by_setting = program.in_process("models", "list", air_gapped=True, model=name, **settings)
    assert by_setting.exit_code != 0
    assert "In air-gapped mode" in by_setting.stderr
    assert ollama.requests == []


def test_a_wrong_address_is_refused(program: Program) -> None:
    result = program.in_process("models", "list", program_url="http://192.0.2.1:11434")
    assert result.exit_code != 0
    assert "program_url: expected http://127.0.0.1:PORT" in result.stderr


def test_process_describes_with_the_model(program: Program, ollama: ModelServerDouble, tmp_path: Path) -> None:
    (tmp_path / "barn.png").write_bytes(pictures.png(40, 30))
    settings = {"program_url": ollama.url, "model": f"ollama:{ollama.model}"}
    result = program.in_process("process", tmp_path / "barn.png", "--out", tmp_path / "out", **settings)
    assert result.exit_code == 0, result.output
    assert "(vision)" in result.stdout
    assert (tmp_path / "out" / "red-barn-snow.webp").is_file()
