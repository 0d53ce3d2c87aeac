"""`models`, `doctor` and `process` with models in other programs on this machine."""

from __future__ import annotations

from pathlib import Path

from imgproc_local.vision.llm.loopback import PROGRAMS
from tests.cli.conftest import Program
from tests.support import pictures
from tests.support.model_servers import BLIND, ERRORS, ModelServerDouble, sends


def test_a_model_is_listed_used_and_shown_until_its_program_stops(
    program: Program, double: ModelServerDouble, tmp_path: Path
) -> None:
    settings: dict[str, object] = {"program_url": double.url}
    name, title = f"{double.program}:{double.model}", PROGRAMS[double.program].title
    double.listings.append(sends(*ERRORS[double.program][0]))
    assert "failed with status" in program.error("models", "use", name, **settings)
    assert "has no model 'gone'" in program.error("models", "use", f"{double.program}:gone", **settings)
    found = program.models(**settings)
    assert (found[name]["state"], found[name]["program"], found[name]["in_use"]) == ("in-program", title, False)
    assert f"in {title}" in program.output("models", "list", **settings)
    assert f"{double.program}:{BLIND[double.program]}" not in found
    assert f"{name} is in use" in program.output("models", "use", name, **settings)
    used = program.models(**settings)[name]
    assert (used["in_use"], used["problem"]) == (True, None)
    assert f"the model {name}" in program.check("describer", **settings)["detail"]

    settings["program_url"] = "http://127.0.0.1:9"
    words = f"{title} at {settings['program_url']} does not answer"
    stopped = program.models(**settings)[name]
    assert (stopped["state"], stopped["in_use"], words in stopped["problem"]) == ("unusable", True, True)
    assert words in program.output("models", "list", **settings)
    check = program.check("describer", **settings)
    assert (check["state"], words in check["detail"]) == ("problem", True)


def test_a_program_is_listed_and_used_only_as_itself(program: Program, double: ModelServerDouble) -> None:
    settings: dict[str, object] = {"program_url": double.url}
    offered = {name for name in program.models(**settings) if name.partition(":")[0] in PROGRAMS}
    assert offered == {f"{double.program}:{double.model}"}
    for other in PROGRAMS.keys() - {double.program, "ollama"}:
        for model in (double.model, "mine"):  # the second one runs in Ollama's cloud
            program.error("models", "use", f"{other}:{model}", **settings)
    for behaviour in (sends(200, b"<html>It works!</html>"), sends(404, {"detail": "Not Found"}), sends(200, {})):
        double.listings = [behaviour] * 2  # llama-server has its list at Ollama's path, too
        assert not any(name.startswith(f"{double.program}:") for name in program.models(**settings))
    assert double.questions == []


def test_no_program_is_contacted_in_air_gapped_mode_or_elsewhere(program: Program, ollama: ModelServerDouble) -> None:
    settings: dict[str, object] = {"program_url": ollama.url}
    name = f"ollama:{ollama.model}"
    program.output("models", "use", name, **settings)
    ollama.requests.clear()
    assert "In air-gapped mode" in program.models(air_gapped=True, **settings)[name]["problem"]
    assert "In air-gapped mode" in program.check("describer", air_gapped=True, **settings)["detail"]
    for command in (("use", name), ("list",)):
        model = name if command == ("list",) else ""
        refused = program.error("models", *command, air_gapped=True, model=model, **settings)
        assert "In air-gapped mode" in refused
    assert ollama.requests == []
    refused = program.error("models", "list", program_url="http://192.0.2.1:11434")
    assert "program_url: expected http://127.0.0.1:PORT" in refused


def test_process_describes_with_the_model(program: Program, ollama: ModelServerDouble, tmp_path: Path) -> None:
    (tmp_path / "barn.png").write_bytes(pictures.png(40, 30))
    settings = {"program_url": ollama.url, "model": f"ollama:{ollama.model}"}
    shown = program.output("process", tmp_path / "barn.png", "--out", tmp_path / "out", **settings)
    assert "(vision)" in shown
    assert (tmp_path / "out" / "red-barn-snow.webp").is_file()
