"""Self-tests of models: each model runs once in a child process before the service loads it.

llama.cpp ends the process if a model needs something that the build or the processor lacks: by a failed assertion, or
by a signal such as SIGILL. And a model that is blind, or whose tokens get wrong positions, still writes fluent text. So
the child loads the model, lets it describe two pictures, and checks the texts (`selftest_child.py`), within a time
limit. The result is stored beside the model's files and is valid for one combination of model files, build of llama.cpp
and processor. A failure is valid for one hour only, because its cause may be temporary, such as a lack of memory.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable, StageTimedOut
from imgproc_local.domain.stop import CheckStop
from imgproc_local.system.child import ChildResult, ChildTimedOut, program, run_supervised
from imgproc_local.system.files import read_own_json
from imgproc_local.vision.llm.bindings import NOT_INSTALLED
from imgproc_local.vision.llm.cpu import CPUINFO, processor_problem
from imgproc_local.vision.models.files import write_json
from imgproc_local.vision.models.manifest import MANIFEST_FILE, Manifest
from imgproc_local.vision.models.model import VisionModel

log = logging.getLogger(__name__)

TIMEOUT_S = 600.0
"""How long the child process may take."""
CHECKS_VERSION = 2
"""Incremented when the child checks more, so that models are tested again."""
FAILURE_TTL_S = 3600
"""How long a stored failure is valid."""

COMPILED_ELSEWHERE = (
    " llama.cpp was compiled for another processor. Install llama-cpp-python again on this machine, "
    "with pip's options --force-reinstall and --no-cache-dir."
)

CHILD_COMMAND = ("models", "self-test")
"""The first arguments of the child process; the last one is the model as JSON. The child prints a `SelfTestResult` as
one line of JSON."""


class SelfTestResult(Struct, frozen=True):
    """What the child process reports. `problem` is None if the model works."""

    problem: str | None = None


class StoredResult(Struct, frozen=True):
    """The content of a `selftest-….json` file. `at` is the time of the test in seconds since 1970."""

    problem: str | None
    at: float


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
    _store_result(model, StoredResult(problem, time.time()))


def require_self_test(
    model: VisionModel,
    *,
    check_stop: CheckStop = lambda: None,
    retry: bool = False,
    command: Sequence[str] | None = None,
    timeout_s: float = TIMEOUT_S,
    now: Callable[[], float] = time.time,
) -> None:
    """Check that the model works here: by a valid stored result, or else by a self-test in a child process.

    `check_stop` is called while the child runs; if it raises an exception, the child is ended. `retry` ignores a stored
    failure. `command` replaces the command line of the child.

    Raises: ModelUnusable, with the problem, if the model does not work; what `check_stop` raises.
    """
    if not llama_is_installed():
        raise ModelUnusable(NOT_INSTALLED)
    if problem := processor_problem():
        # not stored, because the models folder may be on a drive that is used with another processor next
        raise ModelUnusable(problem)
    result = _load_result(model)
    if result is None or (result.problem is not None and (retry or now() - result.at > FAILURE_TTL_S)):
        problem = _run_child(model, own_command() if command is None else command, timeout_s, check_stop)
        result = StoredResult(problem, now())
        _store_result(model, result)
    if result.problem is not None:
        raise ModelUnusable(f"The model {model.name!r} does not work here: {result.problem}")


def own_command() -> list[str]:
    """The command line by which this program starts the self-test of a model in a child process."""
    return program(*CHILD_COMMAND)


def _run_child(model: VisionModel, command: Sequence[str], timeout_s: float, check_stop: CheckStop) -> str | None:
    """Run the child process. Returns the problem that the child reported or that ended it; None if the model works."""
    try:
        ended = run_supervised(
            [*command, msgspec.json.encode(model, enc_hook=str).decode()],
            timeout_s=timeout_s,
            check_stop=check_stop,
            # otherwise ggml prints a backtrace, and the failed assertion is not the last line on stderr
            environment={"GGML_NO_BACKTRACE": "1"},
        )
    except OSError as error:
        return f"the test process can't be started ({error.strerror})."
    except StageTimedOut:
        # stored as a failure, because otherwise every picture would wait until its stage times out
        return f"it wrote no text within the time limit of a stage; `models verify` allows {TIMEOUT_S:.0f} seconds."
    except ChildTimedOut:
        return f"it wrote no text within {timeout_s:.0f} seconds."
    return _problem(ended)


def _problem(ended: ChildResult) -> str | None:
    """The problem according to the exit status and output of the child; None if it reported that the model works."""
    lines = ended.output.splitlines()
    if ended.status == 0 and lines:
        try:
            return msgspec.json.decode(lines[-1], type=SelfTestResult).problem
        except msgspec.MsgspecError:
            log.warning("Expected one line of JSON from the self-test; received %r.", lines[-1][:200])
    last = f" Its last message: {ended.last_error_line[:300]}" if ended.last_error_line else ""
    if ended.status < 0:
        name = _signal_name(-ended.status)
        return f"it crashed the test process with {name}.{COMPILED_ELSEWHERE if name == 'SIGILL' else ''}{last}"
    return f"the test process exited with {ended.status} and reported no result.{last}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _load_result(model: VisionModel) -> StoredResult | None:
    path = _result_path(model)
    return read_own_json(path, StoredResult) if path else None


def _store_result(model: VisionModel, result: StoredResult) -> None:
    """Store the result. If the file can't be written, for example on a read-only drive, the next start tests again."""
    path = _result_path(model)
    if path is None:
        return
    try:
        write_json(path, result)
    except OSError as error:
        log.warning("The self-test result of the model %s can't be stored (%s).", model.name, error.strerror)


def _result_path(model: VisionModel) -> Path | None:
    """The result's file, named by a hash of everything that the result depends on; None without model files."""
    folder = model.text_path.parent
    manifest = read_own_json(folder / MANIFEST_FILE, Manifest)
    if manifest is None:
        return None
    try:
        stats = [path.stat() for path in (model.text_path, model.mmproj_path)]
    except OSError:
        return None
    # sizes and times as well, because a file may have changed since its sum was written to the manifest
    written = [(stat.st_size, stat.st_mtime_ns) for stat in stats]
    sums = (manifest.text.sha256, manifest.mmproj.sha256)
    inputs = (CHECKS_VERSION, sums, written, model.chat, model.gpu_layers, _llama_build(), _processor())
    return folder / f"selftest-{hashlib.sha256(msgspec.json.encode(inputs)).hexdigest()[:24]}.json"


def _llama_build() -> list[object]:
    """A fingerprint of the installed llama.cpp: its version, and the sizes and times of its shared libraries."""
    try:
        version = importlib.metadata.version("llama-cpp-python")
    except importlib.metadata.PackageNotFoundError:  # in a frozen program
        version = ""
    if getattr(sys, "frozen", False):  # a one-file program unpacks its libraries at every start, with new times
        libraries = [Path(sys.executable)]
    else:
        spec = importlib.util.find_spec("llama_cpp")
        libraries = sorted((Path(spec.origin).parent / "lib").glob("*")) if spec and spec.origin else []
    stats = [(path.name, path.stat()) for path in libraries]
    return [version, [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]]


def _processor() -> list[str]:
    """The processor's architecture, model, feature flags and number of logical cores."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    fields = ("flags", "Features", "model name", "isa")
    cpu_lines = {line.split(":")[0].strip(): line for line in lines if line.split(":")[0].strip() in fields}
    return [platform.machine(), platform.processor(), str(os.cpu_count()), *cpu_lines.values()]
