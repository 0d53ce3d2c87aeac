"""The self-test of a model in a child process, whose crashes are reported and do not end this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from imgproc_local.domain.errors import ModelUnusable, StageCancelled
from imgproc_local.domain.image import Pixels
from imgproc_local.vision.llm import selftest
from imgproc_local.vision.llm.bindings import NOT_INSTALLED
from imgproc_local.vision.llm.listing import ModelList, ModelStatus
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.selftest import (
    _problem_of,
    _problem_of_texts,
    known_problem,
    passed_self_test,
    record_problem,
    require_self_test,
)
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.models.store import ModelStore
from tests.support import tiny
from tests.support.installed import import_files, install
from tests.support.tiny import MMPROJ, TEXT


@pytest.fixture
def model(models: ModelStore) -> VisionModel:
    """An installed model of two files with valid headers, which llama.cpp can't load."""
    install(models, "a")
    return models.model("a")


def child(script: str) -> list[str]:
    """A command that runs `script` in place of the program's own self-test, once it has received the model."""
    head = (
        "import os, signal, sys, time, msgspec\n"
        "from imgproc_local.system.piped_child import Requests\n"
        "requests = Requests()\n"
        "requests.start_reading()\n"
        "model = msgspec.msgpack.decode(requests.next())\n"
        "def answer(problem=None): requests.answer(msgspec.msgpack.encode(problem))\n"
    )
    return [sys.executable, "-c", head + script]


PASSES = child("print('noise'); answer()")
MUST_NOT_RUN = child("sys.exit('it ran again')")


def run_self_test(model: VisionModel, command: list[str], timeout_s: float = 60, **options: Any) -> None:
    """The self-test with `command` in place of the program's own."""
    with patch.multiple(selftest, program=lambda _: command, _TIMEOUT_S=timeout_s):
        require_self_test(model, **options)


def failure(model: VisionModel, command: list[str], timeout_s: float = 60, retry: bool = False) -> str:
    """The message of a self-test that fails."""
    with pytest.raises(ModelUnusable) as caught:
        run_self_test(model, command, timeout_s, retry=retry)
    assert not passed_self_test(model)
    return caught.value.message


def test_a_working_model_is_tested_once_for_a_build_a_processor_and_its_files(
    model: VisionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not passed_self_test(model)
    run_self_test(model, PASSES)
    assert passed_self_test(model)
    run_self_test(model, MUST_NOT_RUN, retry=True)
    for function, other in (("_llama_libraries", lambda: model.text_path), ("_processor", lambda: "another")):
        with monkeypatch.context() as changed:
            changed.setattr(selftest, function, other)
            assert not passed_self_test(model)
        assert passed_self_test(model)
    weights = bytearray(model.text_path.read_bytes())
    weights[-1] ^= 0xFF
    model.text_path.write_bytes(weights)
    assert not passed_self_test(model)


@pytest.mark.parametrize(
    ("script", "messages"),
    [
        (
            "print('GGML_ASSERT(it) failed', file=sys.stderr, flush=True); os.abort()",
            ["SIGABRT", "GGML_ASSERT(it) fai"],
        ),
        ("os.kill(os.getpid(), signal.SIGILL)", ["The model 'a' does not work here", "SIGILL", "needs AVX2"]),
        ("raise ValueError('what')", ["exit status 1 and reported no result. Its last message: ValueError: what"]),
        ("answer(problem='its template is unknown.')", ["does not work here: its template is unknown."]),
        ("time.sleep(60)", ["wrote no text within 0 seconds"]),
    ],
)
def test_a_child_that_crashes_or_has_no_result_is_reported(
    model: VisionModel, script: str, messages: list[str]
) -> None:
    message = failure(model, child(script), 0.4 if "sleep" in script else 60)
    assert [words for words in messages if words not in message] == []


def test_a_stored_failure_is_valid_for_an_hour_or_until_a_retry(model: VisionModel) -> None:
    assert "exit status 3" in failure(model, child("sys.exit(3)"))
    assert "exit status 3" in failure(model, MUST_NOT_RUN), "a second child for the next picture"
    assert "exit status 3" in (known_problem(model) or "")
    assert "exit status 4" in failure(model, child("sys.exit(4)"), retry=True)
    assert "can't be started" in failure(model, [str(model.text_path)], retry=True)
    with patch.object(selftest, "_FAILURE_TTL_S", -1):
        run_self_test(model, PASSES)
    assert known_problem(model) is None


def test_the_status_says_that_llama_cpp_is_missing_rather_than_a_stored_failure(
    models: ModelStore, model: VisionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = ModelList(models, "", Mock())
    record_problem(model, "its template is unknown.")
    monkeypatch.setattr(selftest, "llama_is_installed", lambda: True)
    assert listed.status() == ModelStatus("a", "its template is unknown.")
    monkeypatch.setattr(selftest, "llama_is_installed", lambda: False)
    assert listed.status() == ModelStatus("a", NOT_INSTALLED)
    model.mmproj_path.unlink()
    assert "mmproj.gguf of the model 'a' can't be read" in (listed.status().problem or "")


def test_a_cancelled_wait_ends_the_child(model: VisionModel, tmp_path: Path) -> None:
    started = tmp_path / "pid"

    def check_stop() -> None:
        if started.exists() and started.read_text():
            raise StageCancelled("Cancelled.")

    command = child(f"open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    with pytest.raises(StageCancelled):
        run_self_test(model, command, check_stop=check_stop)
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
    assert known_problem(model) is None, "a cancelled job was stored as the model's failure"
    run_self_test(model, PASSES)


def test_a_read_only_folder_is_logged_and_the_model_is_used(
    model: VisionModel, caplog: pytest.LogCaptureFixture
) -> None:
    with patch.object(selftest, "write_json", side_effect=PermissionError(13, "Permission denied")):
        run_self_test(model, PASSES)
    assert "can't be stored" in caplog.text


def test_the_real_child_reports_the_reason_of_llama_cpp_and_passes_a_working_model(
    model: VisionModel, models: ModelStore
) -> None:
    with pytest.raises(ModelUnusable, match=r"does not work here: text.gguf can't be loaded"):
        require_self_test(model)
    import_files(models, TEXT, MMPROJ, name="tiny")
    require_self_test(models.model("tiny"))
    assert passed_self_test(models.model("tiny"))


# ---- what the child checks, with the tiny model: a blind model writes fluent text, too


def test_a_working_model_passes_and_a_blind_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def blank(width_px: int, height_px: int, *_: Any, **__: Any) -> Pixels:
        return Pixels(width_px, height_px, b"\xff" * (3 * width_px * height_px))

    assert _problem_of(tiny.tiny_model()) is None
    monkeypatch.setattr(selftest, "_drawn", blank)
    problem = _problem_of(tiny.tiny_model()) or ""
    assert problem.startswith("it does not see what is in the pictures: expected one text about a blue circle")
    assert "vision encoder (mmproj) was made for another text model" in problem


def test_a_vision_encoder_whose_tokens_the_text_model_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of SmolVLM with SmolLM2: llama.cpp aborts the process for the token -1."""
    monkeypatch.setattr(Llama, "_text_tokens", lambda self, chunk: [-1])
    problem = _problem_of(tiny.tiny_model()) or ""
    assert "does not see what is in pictures: its vision encoder (mmproj) was made for another text model" in problem


CIRCLE, SQUARE = "A blue circle on white.", "A red square on white."


@pytest.mark.parametrize(
    ("texts", "passes"),
    [
        ((CIRCLE, SQUARE), True),
        (("A large dot in the middle.", SQUARE), True),
        (("The solid blue disc.", "A big RED shape."), True),
        ((SQUARE, CIRCLE), False),
        ((CIRCLE, "A bored, tired boxer."), False),
        (("A blue circle, a red square.", "A blue circle, a red square."), False),
        ((CIRCLE, f"A red square. {'red red ' * 90}"), False),
    ],
)
def test_texts_must_fit_the_pictures(texts: tuple[str, str], passes: bool) -> None:
    problem = _problem_of_texts(*texts)
    assert (problem is None) == passes
    assert len(problem or "") < 600
