"""Self-tests of models: each model runs once in a child process before the service loads it.

llama.cpp ends the process if a model needs something that the build or the processor lacks: by a failed assertion, or
by a signal such as SIGILL. And a model whose vision encoder does not fit, or whose tokens get wrong positions, still
writes fluent text. So a child process loads the model and lets it describe two drawn pictures in two languages
together, within a time limit. Its English texts must name what is in the pictures, differ, and not repeat themselves.

The result is stored beside the model's files and is valid for these files, this build of llama.cpp and this processor.
A failure is valid for one hour only, because its cause may be temporary, such as a lack of memory.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import platform
import re
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import CheckStop, ModelUnusable, StageTimedOut
from imgproc_local.domain.image import Pixels
from imgproc_local.system import air_gap, sandbox
from imgproc_local.system.files import read_own_json
from imgproc_local.system.piped_child import ChildEnded, PipedChild, Requests, program
from imgproc_local.vision.llm.bindings import NOT_INSTALLED
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.models.store import write_json

log = logging.getLogger(__name__)

_TIMEOUT_S = 600.0
"""How long the child process may take."""
_FAILURE_TTL_S = 3600
"""How long a stored failure is valid."""
_RESULT_FILE = "selftest.json"
"""The name of the stored result, in the folder of the model."""
_REBUILD_ADVICE = (
    " llama.cpp was compiled for a processor with other instructions; the portable build needs AVX2, FMA, F16C and"
    " BMI2. Install llama-cpp-python again on this machine, with pip's options --force-reinstall and --no-cache-dir."
)


class _StoredResult(Struct, frozen=True):
    """The content of `_RESULT_FILE`. `at` is the time of the test in seconds since 1970, `of` what was tested."""

    problem: str | None
    at: float
    of: str


def llama_is_installed() -> bool:
    return importlib.util.find_spec("llama_cpp") is not None


def passed_self_test(model: VisionModel) -> bool:
    """Whether the model passed its self-test with this build of llama.cpp on this processor."""
    stored = _load_result(model)
    return stored is not None and stored.problem is None


def known_problem(model: VisionModel) -> str | None:
    """Why the last self-test failed; None if it passed or the model was never tested."""
    stored = _load_result(model)
    return stored.problem if stored else None


def record_problem(model: VisionModel, problem: str | None) -> None:
    """Store the result of a self-test, or a problem found elsewhere: then the service does not load the model for an
    hour. If the file can't be written, for example on a read-only drive, the next start tests again.
    """
    try:
        write_json(model.text_path.parent / _RESULT_FILE, _StoredResult(problem, time.time(), _tested(model)))
    except OSError as error:
        log.warning("The self-test result of the model %s can't be stored (%s).", model.name, error.strerror)


def require_self_test(model: VisionModel, *, check_stop: CheckStop = lambda: None, retry: bool = False) -> None:
    """Check that the model works here: by a valid stored result, or else by a self-test in a child process.

    `check_stop` is called while the child runs; if it raises an exception, the child is ended. `retry` ignores a stored
    failure.

    Raises: ModelUnusable, with the problem, if the model does not work; what `check_stop` raises.
    """
    if not llama_is_installed():
        raise ModelUnusable(NOT_INSTALLED)
    stored = _load_result(model)
    problem = stored.problem if stored else None
    if stored is None or (problem is not None and (retry or time.time() - stored.at > _FAILURE_TTL_S)):
        problem = _run_child(model, check_stop)
        record_problem(model, problem)
    if problem is not None:
        raise ModelUnusable(f"The model {model.name!r} does not work here: {problem}")


def _run_child(model: VisionModel, check_stop: CheckStop) -> str | None:
    """Run the child process. Returns the problem that the child reported or that ended it; None if the model works."""
    try:
        child = PipedChild([*program("model-test"), str(os.getpid())], os.environ)
    except OSError as error:
        return f"the test process can't be started ({error.strerror})."
    deadline_s = time.monotonic() + _TIMEOUT_S
    try:
        child.send(msgspec.msgpack.encode(model, enc_hook=str))
        while (answer := child.receive(0.1)) is None:
            check_stop()
            if time.monotonic() > deadline_s:
                return f"it wrote no text within {_TIMEOUT_S:.0f} seconds."
        return msgspec.msgpack.decode(answer, type=str | None)
    except StageTimedOut:
        # stored as a failure, because otherwise every picture would wait until its stage times out
        return f"it wrote no text within the time limit of a stage; `models verify` allows {_TIMEOUT_S:.0f} seconds."
    except ChildEnded as ended:
        advice = _REBUILD_ADVICE if ended.cause == "SIGILL" else ""
        last = f" Its last message: {ended.last_error_line[:300]}" if ended.last_error_line else ""
        return f"the test process ended with {ended.cause} and reported no result.{advice}{last}"
    except msgspec.MsgspecError:
        return "the test process gave an invalid answer. If imgproc-local was updated while it ran, start it again."
    finally:
        child.kill()


def _load_result(model: VisionModel) -> _StoredResult | None:
    """The stored result; None if there is none for what would be tested now."""
    stored = read_own_json(model.text_path.parent / _RESULT_FILE, _StoredResult)
    return stored if stored and stored.of and stored.of == _tested(model) else None


def _tested(model: VisionModel) -> str:
    """A hash of what a result depends on: the files of the model, how it runs, llama.cpp, and the processor.

    "" if the files can't be read.
    """
    try:
        stats = [path.stat() for path in (model.text_path, model.mmproj_path, _llama_libraries())]
    except OSError:
        return ""
    files = [(stat.st_size, stat.st_mtime_ns) for stat in stats]
    inputs = (files, model.chat, model.gpu_layers, _processor(), os.cpu_count())
    return hashlib.sha256(msgspec.json.encode(inputs)).hexdigest()[:24]


def _processor() -> str:
    """What the processor can do, as the kernel of Linux says it; on other systems its name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())


def _llama_libraries() -> Path:
    """The folder of the libraries of llama.cpp, which an installation changes; in a frozen program, the program."""
    if getattr(sys, "frozen", False):
        return Path(sys.executable)  # a one-file program unpacks its libraries at every start, with new times
    spec = importlib.util.find_spec("llama_cpp")
    return Path(spec.origin).parent / "lib" if spec and spec.origin else Path()


# ---- in the child process


def run_child(parent_pid: int) -> None:
    """Test the model that the parent process sends, and answer with its problem."""
    requests = Requests()
    sandbox.depend_on_parent(parent_pid)
    sandbox.write_no_core_dumps()
    air_gap.enable_if_inherited()
    requests.start_reading()
    model = msgspec.msgpack.decode(requests.next(), type=VisionModel, dec_hook=lambda _, value: Path(value))
    requests.answer(msgspec.msgpack.encode(_problem_of(model)))


def _problem_of(model: VisionModel) -> str | None:
    """Load the model, let it describe the test pictures, and check its texts. None if it works here.

    A problem says what was expected, what was received and what to do.
    """
    from imgproc_local.vision.llm.llama import Llama
    from imgproc_local.vision.llm.prompt import NO_NOTES, language_prompt, parse_answer

    suffixes = [language_prompt(language) for language in ("en", "de")]
    texts = []
    # as large as the pictures that describers receive; a landscape and a portrait, whose tokens have other positions
    pictures = (_drawn(1024, 768, "#2846dc", is_round=True), _drawn(768, 1024, "#dc2828", is_round=False))
    try:
        with closing(Llama(model)) as llama:
            for picture in pictures:
                llama.prefill(picture, NO_NOTES, suffixes, lambda: None)
                generated, _ = llama.generate(suffixes, lambda: None)
                answer = parse_answer(generated)
                texts.append(answer.alt_text if answer else generated)
    except ModelUnusable as error:
        return error.message
    return _problem_of_texts(*texts)


def _drawn(width_px: int, height_px: int, colour: str, *, is_round: bool) -> Pixels:
    """A circle or a square on a white background."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (width_px, height_px), "white")
    x, y, radius = width_px / 2, height_px / 2, 0.3 * min(width_px, height_px)
    draw = ImageDraw.Draw(image)
    shape = draw.ellipse if is_round else draw.rectangle
    shape((x - radius, y - radius, x + radius, y + radius), fill=colour)
    return Pixels(width_px, height_px, image.tobytes())


def _problem_of_texts(circle: str, square: str) -> str | None:
    """Why the English texts about a blue circle and a red square are not those of a working model.

    Of the two colours and two shapes, which are plain to see, one may be missing: an alt text need not name everything.
    """
    from imgproc_local.vision.llm.checks import repeats_itself

    expected = (
        (circle, r"\bblue\b"),
        (circle, r"\b(circ\w+|round|dis[ck]|dot|ball|sphere|orb)\b"),
        (square, r"\bred\b"),
        (square, r"\b(square|rectang\w+|box|block|cube|tile)\b"),
    )
    named = sum(re.search(pattern, text, re.IGNORECASE) is not None for text, pattern in expected)
    if circle != square and named >= 3 and not any(repeats_itself(text, "en") for text in (circle, square)):
        return None
    received = " and ".join(f"“{text[:80]}”" for text in (circle, square))
    return (
        "it does not see what is in the pictures: expected one text about a blue circle and another one about a red"
        f" square; received {received}. Either its vision encoder (mmproj) was made for another text model, or its"
        " files don't work with this build of llama.cpp. Install both files again from the same repository, or choose"
        " another model."
    )
