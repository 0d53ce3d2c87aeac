"""A model is proved before it is loaded into the service: once per model, build of llama.cpp and processor.

What llama.cpp can't do it often says by ending the process: by a signal from the processor, by an assertion. So a
child process loads the model, shows it a picture and lets it write, in bounded time. What came of it is kept beside the
model's files. A failure is believed for an hour only, for it may have been the machine's and not the model's.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

import imgproc_local
from imgproc_local.domain.errors import ModelUnusable, StageTimedOut
from imgproc_local.vision.llm.cpu import processor_problem
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.models.store import MANIFEST_FILE, Manifest, read_json, write_json

log = logging.getLogger(__name__)

TIMEOUT_S = 300.0
POLL_S = 0.1
FAILURE_KEPT_S = 3600
NOT_INSTALLED = "llama-cpp-python is not installed: install imgproc-local[vision], see the README, A vision model."

CHILD_COMMAND = ("models", "prove-child")
"""Followed by the model as JSON. It prints one line of JSON, a `Finding`."""


class Finding(Struct, frozen=True):
    """What the child found: None where all is well."""

    problem: str | None = None


class Proof(Struct, frozen=True):
    """What is kept of a proof. `at` is in seconds since 1970."""

    problem: str | None
    at: float


def llama_is_installed() -> bool:
    return importlib.util.find_spec("llama_cpp") is not None


def proved(model: VisionModel) -> bool:
    """Whether the model was shown to work with this build of llama.cpp on this processor."""
    proof = _kept(model)
    return proof is not None and proof.problem is None


def known_problem(model: VisionModel) -> str | None:
    """What was wrong when the model was last tried; None where all was well or it was never tried."""
    proof = _kept(model)
    return proof.problem if proof else None


def keep_problem(model: VisionModel, problem: str) -> None:
    """Let the model not be loaded for the next hour: something was found that the proof did not look for."""
    _keep(model, Proof(problem, time.time()))


def ensure_proved(
    model: VisionModel,
    *,
    check_stop: Callable[[], None] = lambda: None,
    again: bool = False,
    command: Sequence[str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Prove the model in a child process unless that was done before. `again` looks anew where it failed.

    `check_stop` is called while the child works; what it raises ends the child. `command` is run in place of the
    program's own.

    Raises: ModelUnusable, saying what is wrong; what `check_stop` raised.
    """
    if not llama_is_installed():
        raise ModelUnusable(NOT_INSTALLED)
    if problem := processor_problem():
        raise ModelUnusable(problem)  # told at once and not kept: another processor may have the folder next
    proof = _kept(model)
    if proof is None or (proof.problem is not None and (again or time.time() - proof.at > FAILURE_KEPT_S)):
        found = _ask_child(model, own_command() if command is None else command, timeout_s, check_stop)
        proof = Proof(found, time.time())
        _keep(model, proof)
    if proof.problem is not None:
        raise ModelUnusable(f"The model {model.name!r} does not work here: {proof.problem}")


def own_command() -> list[str]:
    """This program, as a command to start it again with."""
    if getattr(sys, "frozen", False):
        return [sys.executable, *CHILD_COMMAND]
    return [sys.executable, "-m", "imgproc_local", *CHILD_COMMAND]


def run_child(model: VisionModel, timeout_s: float = TIMEOUT_S) -> Finding:
    """What the child does: it tries the model in its own process, which may end without an answer."""
    import faulthandler

    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash must not leave gigabytes behind
    faulthandler.dump_traceback_later(timeout_s, exit=True)  # also where the parent is gone
    from imgproc_local.vision.llm.trial import try_model

    try:
        try_model(model)
    except ModelUnusable as error:
        return Finding(error.message)
    return Finding()


def _ask_child(
    model: VisionModel, command: Sequence[str], timeout_s: float, check_stop: Callable[[], None]
) -> str | None:
    """The problem that the child had, None where it had none."""
    arguments = [*command, msgspec.json.encode(model, enc_hook=str).decode()]
    # from the package's own folder: `python -m` would take modules from any other one that it is started in
    home = Path(imgproc_local.__file__).parents[1]
    try:
        child = subprocess.Popen(  # noqa: S603 - this program itself
            arguments,
            cwd=home,
            # an assertion that fails is the last that is said then, not a debugger's trace of it
            env={**os.environ, "GGML_NO_BACKTRACE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        return f"the process that tries it can't be started ({error.strerror})."
    deadline = time.monotonic() + timeout_s
    with child:
        try:
            while True:
                try:
                    out, errors = child.communicate(timeout=POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    try:
                        check_stop()
                    except StageTimedOut:
                        # kept as a failure, or every picture would wait for it in vain
                        return "it did not write a word in the time of one stage; `models verify` takes more."
                    if time.monotonic() > deadline:
                        return f"it did not write a word within {timeout_s:.0f} seconds."
        finally:
            child.kill()
    return _problem(child.returncode, out, errors)


def _problem(status: int, out: bytes, errors: bytes) -> str | None:
    lines = out.splitlines()
    if status == 0 and lines:
        try:
            return msgspec.json.decode(lines[-1], type=Finding).problem
        except msgspec.MsgspecError:
            log.warning("the proof of a model answered with %r", lines[-1][:200])
    told = [line for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    last = f" Its last words: {told[-1].strip()[:300]}" if told else ""
    if status < 0:
        return f"it ended the process that tried it, by {_signal_name(-status)}.{last}"
    return f"the process that tried it ended with {status} and without an answer.{last}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _kept(model: VisionModel) -> Proof | None:
    place = _place(model)
    return read_json(place, Proof) if place else None


def _keep(model: VisionModel, proof: Proof) -> None:
    """Where it can't be written, as on a drive that may only be read, the model is proved anew at the next start."""
    place = _place(model)
    if place is None:
        return
    try:
        write_json(place, proof)
    except OSError as error:
        log.warning("the proof of the model %s can't be kept (%s)", model.name, error.strerror)


def _place(model: VisionModel) -> Path | None:
    folder = model.text_path.parent
    manifest = read_json(folder / MANIFEST_FILE, Manifest)
    if manifest is None:
        return None
    try:
        stats = [path.stat() for path in (model.text_path, model.mmproj_path)]
    except OSError:
        return None
    # a file that was written to since is another one, whatever its manifest says
    written = [(stat.st_size, stat.st_mtime_ns) for stat in stats]
    sums = (manifest.text.sha256, manifest.mmproj.sha256)
    facts = (sums, written, model.talk, model.run, _llama_build(), _processor())
    return folder / f"proof-{hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:24]}.json"


def _llama_build() -> list[object]:
    """What changes with another version of llama-cpp-python, and with another build of the same one."""
    try:
        version = importlib.metadata.version("llama-cpp-python")
    except importlib.metadata.PackageNotFoundError:  # in a frozen program
        version = ""
    if getattr(sys, "frozen", False):  # a single file unpacks its libraries anew at every start
        parts = [Path(sys.executable)]
    else:
        found = importlib.util.find_spec("llama_cpp")
        parts = sorted((Path(found.origin).parent / "lib").glob("*")) if found and found.origin else []
    stats = [(part.name, part.stat()) for part in parts]
    return [version, [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]]


def _processor() -> list[str]:
    """Its name and what it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    wanted = ("flags", "Features", "model name", "isa")
    told = {line.split(":")[0].strip(): line for line in lines if line.split(":")[0].strip() in wanted}
    return [platform.machine(), platform.processor(), str(os.cpu_count()), *told.values()]
