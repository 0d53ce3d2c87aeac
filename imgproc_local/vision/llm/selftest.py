"""Self-tests of models: each model runs once in a child process before the service loads it.

llama.cpp ends the process if a model needs something that the build or the processor lacks: by a failed assertion, or
by a signal such as SIGILL. And a model that is blind still writes fluent text. So a child process loads the model and
lets it describe two pictures (`selftest_child.py`), within a time limit. The result is stored beside the model's files
and is valid for these files, this build of llama.cpp and this processor. A failure is valid for one hour only, because
its cause may be temporary, such as a lack of memory.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import platform
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import CheckStop, ModelUnusable, StageTimedOut
from imgproc_local.system.files import read_own_json
from imgproc_local.system.piped_child import ChildEnded, PipedChild, program
from imgproc_local.vision.llm.bindings import NOT_INSTALLED
from imgproc_local.vision.models.files import write_json
from imgproc_local.vision.models.model import VisionModel

log = logging.getLogger(__name__)

TIMEOUT_S = 600.0
"""How long the child process may take."""
POLL_S = 0.1
"""How often `check_stop` is called while the child runs."""
FAILURE_TTL_S = 3600
"""How long a stored failure is valid."""
RESULT_FILE = "selftest.json"
"""The name of the stored result, in the folder of the model."""


REBUILD_ADVICE = (
    " llama.cpp was compiled for a processor with other instructions; the portable build needs AVX2, FMA, F16C and"
    " BMI2. Install llama-cpp-python again on this machine, with pip's options --force-reinstall and --no-cache-dir."
)


class StoredResult(Struct, frozen=True):
    """The content of `RESULT_FILE`. `at` is the time of the test in seconds since 1970, `of` what was tested."""

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


def record_problem(model: VisionModel, problem: str) -> None:
    """Store a problem found outside the self-test, so that the service does not load the model for an hour."""
    _store_result(model, StoredResult(problem, time.time(), _tested(model)))


def require_self_test(model: VisionModel, *, check_stop: CheckStop = lambda: None, retry: bool = False) -> None:
    """Check that the model works here: by a valid stored result, or else by a self-test in a child process.

    `check_stop` is called while the child runs; if it raises an exception, the child is ended. `retry` ignores a stored
    failure.

    Raises: ModelUnusable, with the problem, if the model does not work; what `check_stop` raises.
    """
    if not llama_is_installed():
        raise ModelUnusable(NOT_INSTALLED)
    result = _load_result(model)
    if result is None or (result.problem is not None and (retry or time.time() - result.at > FAILURE_TTL_S)):
        result = StoredResult(_run_child(model, check_stop), time.time(), _tested(model))
        _store_result(model, result)
    if result.problem is not None:
        raise ModelUnusable(f"The model {model.name!r} does not work here: {result.problem}")


def _run_child(model: VisionModel, check_stop: CheckStop) -> str | None:
    """Run the child process. Returns the problem that the child reported or that ended it; None if the model works."""
    try:
        child = PipedChild([*program("model-test"), str(os.getpid())], os.environ)
    except OSError as error:
        return f"the test process can't be started ({error.strerror})."
    deadline_s = time.monotonic() + TIMEOUT_S
    try:
        child.send(msgspec.msgpack.encode(model, enc_hook=str))
        while (answer := child.receive(POLL_S)) is None:
            check_stop()
            if time.monotonic() > deadline_s:
                return f"it wrote no text within {TIMEOUT_S:.0f} seconds."
        return msgspec.msgpack.decode(answer, type=str | None)
    except StageTimedOut:
        # stored as a failure, because otherwise every picture would wait until its stage times out
        return f"it wrote no text within the time limit of a stage; `models verify` allows {TIMEOUT_S:.0f} seconds."
    except ChildEnded as ended:
        advice = REBUILD_ADVICE if ended.cause == "SIGILL" else ""
        last = f" Its last message: {ended.last_error_line[:300]}" if ended.last_error_line else ""
        return f"the test process ended with {ended.cause} and reported no result.{advice}{last}"
    except (msgspec.MsgspecError, UnicodeError):
        return (
            "the test process gave an invalid answer and reported no result. If imgproc-local was updated while it ran,"
            " start it again."
        )
    finally:
        child.kill()


def _load_result(model: VisionModel) -> StoredResult | None:
    """The stored result; None if there is none for what would be tested now."""
    stored = read_own_json(model.text_path.parent / RESULT_FILE, StoredResult)
    return stored if stored and stored.of and stored.of == _tested(model) else None


def _store_result(model: VisionModel, result: StoredResult) -> None:
    """Store the result. If the file can't be written, for example on a read-only drive, the next start tests again."""
    try:
        write_json(model.text_path.parent / RESULT_FILE, result)
    except OSError as error:
        log.warning("The self-test result of the model %s can't be stored (%s).", model.name, error.strerror)


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
