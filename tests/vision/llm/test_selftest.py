"""A model is tried in a child process: whatever becomes of the child, this process learns it in words and lives on."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from imgproc_local.domain.errors import ModelUnusable, StageCancelled
from imgproc_local.vision.llm import selftest as proof
from imgproc_local.vision.llm.selftest import CHILD_COMMAND, ensure_proved, known_problem, own_command, proved
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.models.store import Models
from tests.support.installed import install, take
from tests.support.tiny import MMPROJ, TEXT

needs_signals = pytest.mark.skipif(os.name == "nt", reason="Windows has no signals")


@pytest.fixture
def model(models: Models) -> VisionModel:
    """Whole by its headers, and nothing that llama.cpp could load."""
    install(models, "a")
    return models.model("a")


def child(script: str) -> list[str]:
    """A command that runs `script` in place of the program's own child."""
    return [sys.executable, "-c", f"import os, signal, sys, time\n{script}"]


WELL = child("print('noise'); print('{}')")
NEVER_RUN = child("sys.exit('it ran again')")


def refused(model: VisionModel, command: list[str], timeout_s: float = 60, again: bool = False) -> str:
    with pytest.raises(ModelUnusable) as caught:
        ensure_proved(model, command=command, timeout_s=timeout_s, again=again)
    assert not proved(model)
    return caught.value.message


def test_a_model_that_works_is_tried_once(model: VisionModel) -> None:
    assert not proved(model)
    ensure_proved(model, command=WELL)
    assert proved(model)
    ensure_proved(model, command=NEVER_RUN)
    ensure_proved(model, command=NEVER_RUN, again=True)


def test_the_child_is_told_the_model(model: VisionModel, tmp_path: Path) -> None:
    told = tmp_path / "told"
    ensure_proved(model, command=child(f"open({str(told)!r}, 'w').write(sys.argv[1]); print('{{}}')"))
    assert str(model.text_path) in told.read_text()
    assert str(model.mmproj_path) in told.read_text()


@needs_signals
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGILL", "SIGABRT", "SIGKILL"])
def test_a_model_that_crashes_the_child_is_told_with_the_signal(model: VisionModel, name: str) -> None:
    script = f"print('GGML_ASSERT(it) failed', file=sys.stderr, flush=True); os.kill(os.getpid(), signal.{name})"
    told = refused(model, child(script))
    assert told.startswith("The model 'a' does not work here")
    assert name in told
    assert "GGML_ASSERT(it) failed" in told


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("sys.exit(3)", "ended with 3 and without an answer"),
        ("raise ValueError('what')", "ended with 1 .* ValueError: what"),
        ("pass", "ended with 0 and without an answer"),
        ("print('no json')", "without an answer"),
        ("""print('{"problem": "its template is unknown."}')""", "does not work here: its template is unknown."),
        ("time.sleep(60)", "did not write a word within 0 seconds"),
        ("print('x' * 10_000_000); sys.exit(1)", "ended with 1"),
    ],
)
def test_every_other_end_of_the_child_is_told(model: VisionModel, script: str, told: str) -> None:
    import re

    timeout_s = 0.4 if "sleep" in script else 60
    assert re.search(told, refused(model, child(script), timeout_s))


def test_a_child_that_can_not_be_started_is_told(model: VisionModel, tmp_path: Path) -> None:
    assert "can't be started" in refused(model, [str(tmp_path / "absent")])


def test_a_failure_is_believed_for_an_hour_or_until_it_is_asked_anew(
    model: VisionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "ended with 3" in refused(model, child("sys.exit(3)"))
    assert "ended with 3" in refused(model, NEVER_RUN), "no second child for the next picture"
    assert "ended with 3" in (known_problem(model) or "")
    assert "ended with 4" in refused(model, child("sys.exit(4)"), again=True)
    now = time.time()
    monkeypatch.setattr("imgproc_local.vision.llm.selftest.time.time", lambda: now + 3601)
    ensure_proved(model, command=WELL)
    assert known_problem(model) is None


def test_another_build_or_processor_needs_another_proof(model: VisionModel, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_proved(model, command=WELL)
    for fact in ("_llama_build", "_processor"):
        with monkeypatch.context() as changed:
            changed.setattr(proof, fact, lambda: ["another"])
            assert not proved(model)
        assert proved(model)


def test_the_child_ends_with_the_one_who_waits_for_it(model: VisionModel, tmp_path: Path) -> None:
    started = tmp_path / "pid"
    asked = 0

    def check_stop() -> None:
        nonlocal asked
        asked += 1
        if started.exists() and started.read_text():
            raise StageCancelled("Cancelled.")

    command = child(f"open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    with pytest.raises(StageCancelled):
        ensure_proved(model, command=command, check_stop=check_stop)
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
    assert known_problem(model) is None, "a picture's end is no fault of the model"
    ensure_proved(model, command=WELL)


def test_without_llama_cpp_it_is_told_what_to_install(model: VisionModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "llama_is_installed", lambda: False)
    assert "install imgproc-local[vision]" in refused(model, NEVER_RUN)
    assert known_problem(model) is None


def test_a_folder_that_may_only_be_read_is_no_reason_to_refuse(
    model: VisionModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def read_only(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(proof, "write_json", read_only)
    ensure_proved(model, command=WELL)
    assert "can't be kept" in caplog.text


def test_a_frozen_program_starts_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_command()[1:] == ["-m", "imgproc_local", *CHILD_COMMAND]
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert own_command() == [sys.executable, *CHILD_COMMAND]


def test_the_program_s_own_child_says_what_llama_cpp_says(model: VisionModel) -> None:
    with pytest.raises(ModelUnusable, match=r"does not work here: text.gguf can't be loaded"):
        ensure_proved(model)


@pytest.mark.skipif(not TEXT.is_file(), reason="the tiny model is not there")
def test_the_program_s_own_child_proves_a_model_that_works(models: Models) -> None:
    take(models, TEXT, MMPROJ, name="tiny")
    ensure_proved(models.model("tiny"))
    assert proved(models.model("tiny"))


def test_a_file_that_was_written_to_since_is_proved_anew(model: VisionModel) -> None:
    ensure_proved(model, command=child("print('{}')"))
    assert proved(model)
    weights = bytearray(model.text_path.read_bytes())
    weights[-1] ^= 0xFF
    model.text_path.write_bytes(weights)
    assert not proved(model)
