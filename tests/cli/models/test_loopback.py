"""`models`, `doctor` and `process` with models in other programs on this machine."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from imgproc_local.vision.llm.loopback import PROGRAMS
from tests.cli.conftest import Program
from tests.support import pictures
from tests.support.model_servers import BLIND, ERRORS, ModelServerDouble, sends


def rows(program: Program, **settings: object) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in program.in_process_json("models", "list", **settings)}


def describer_check(program: Program, exit_code: int = 0, **settings: object) -> dict[str, Any]:
    result = program.in_process("doctor", "--json", **settings)
    assert result.exit_code == exit_code, result.output
    return next(check for check in json.loads(result.stdout)["checks"] if check["name"] == "describer")


def test_a_model_is_listed_used_and_shown_until_its_program_stops(
    program: Program, double: ModelServerDouble, tmp_path: Path
) -> None:
    settings: dict[str, object] = {"program_url": double.url}
    name = f"{double.program}:{double.model}"
    found = rows(program, **settings)
    title = PROGRAMS[double.program].title
    assert (found[name]["state"], found[name]["program"], found[name]["in_use"]) == ("in-program", title, False)
    assert f"in {title}" in program.in_process("models", "list", **settings).stdout
    assert f"{double.program}:{BLIND[double.program]}" not in found
    result = program.in_process("models", "use", name, **settings)
    assert result.exit_code == 0, result.output
    assert f"{name} is in use" in result.output
    used = rows(program, **settings)[name]
    assert (used["in_use"], used["problem"]) == (True, None)
    assert f"the model {name}" in describer_check(program, **settings)["detail"]

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        settings["program_url"] = f"http://127.0.0.1:{free.getsockname()[1]}"
    stopped = rows(program, **settings)[name]
    assert (stopped["state"], stopped["in_use"]) == ("unusable", True)
    words = f"{title} at {settings['program_url']} does not answer"
    assert words in stopped["problem"]
    assert words in program.in_process("models", "list", **settings).stdout
    check = describer_check(program, exit_code=1, **settings)
    assert (check["state"], words in check["detail"]) == ("problem", True)


def test_a_program_is_listed_and_used_only_as_itself(program: Program, double: ModelServerDouble) -> None:
    settings: dict[str, object] = {"program_url": double.url}
    offered = {name for name in rows(program, **settings) if name.partition(":")[0] in PROGRAMS}
    assert offered == {f"{double.program}:{double.model}"}
    for other in PROGRAMS.keys() - {double.program, "ollama"}:
        for model in (double.model, "mine"):  # the second one runs in Ollama's cloud
            refused = program.in_process("models", "use", f"{other}:{model}", **settings)
            assert refused.exit_code != 0, f"{other}:{model}"
    for behaviour in (sends(200, b"<html>It works!</html>"), sends(404, {"detail": "Not Found"}), sends(200, {})):
        double.listings = [behaviour] * 2  # llama-server has its list at Ollama's path, too
        assert not any(name.startswith(f"{double.program}:") for name in rows(program, **settings))
    assert double.questions == []


def test_a_model_that_can_not_be_used_is_refused(program: Program, double: ModelServerDouble) -> None:
    settings: dict[str, object] = {"program_url": double.url}
    missing = program.in_process("models", "use", f"{double.program}:gone", **settings)
    assert (missing.exit_code != 0, "has no model 'gone'" in missing.stderr) == (True, True)
    double.listings.append(sends(*ERRORS[double.program][0]))
    refused = program.in_process("models", "use", f"{double.program}:{double.model}", **settings)
    assert (refused.exit_code != 0, "failed with status" in refused.stderr) == (True, True)
    assert not any(one["in_use"] for one in rows(program, **settings).values())


def test_air_gapped_mode_contacts_no_program(program: Program, ollama: ModelServerDouble) -> None:
    settings: dict[str, object] = {"program_url": ollama.url}
    name = f"ollama:{ollama.model}"
    assert program.in_process("models", "use", name, **settings).exit_code == 0
    ollama.requests.clear()
    assert "In air-gapped mode" in rows(program, air_gapped=True, **settings)[name]["problem"]
    assert "In air-gapped mode" in describer_check(program, exit_code=1, air_gapped=True, **settings)["detail"]
    for command in (("use", name), ("list",)):
        model = name if command == ("list",) else ""
        refused = program.in_process("models", *command, air_gapped=True, model=model, **settings)
        assert (refused.exit_code != 0, "In air-gapped mode" in refused.stderr) == (True, True)
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
