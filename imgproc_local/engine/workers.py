"""Runs functions on pictures in worker processes, so that a picture can crash, stall or starve only its own stage.

A worker is started when it is needed, used again for the next picture, and ended after a minute without one. A worker
that passes the deadline, exceeds its memory limit or is no longer wanted is killed. If a worker that had answered other
requests before crashes or exceeds its memory limit, the function is called once more, on a fresh worker: an earlier
picture may be the cause.

The service sends a worker one request at a time and receives one answer. A worker trusts the service, which sends it
pickled functions and arguments. The service does not trust a worker, which handles pictures from strangers: an answer
is MessagePack, and is decoded only as the type that the function returns. Both sides of this protocol are in one file.

Invariant: `run` returns or raises soon after `check_stop` raises, whatever the function does.
"""

from __future__ import annotations

import faulthandler
import importlib
import logging
import math
import os
import pickle
import secrets
import shutil
import stat
import tempfile
import threading
import time
import traceback
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.domain import errors
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import READ_ONLY_FORMATS, Format, ImageInfo
from imgproc_local.engine.stage import Output, SizedOutput
from imgproc_local.system import piped_child, sandbox
from imgproc_local.system.piped_child import PipedChild
from imgproc_local.system.threads import started_threads

log = logging.getLogger(__name__)

_A = TypeVar("_A")
_R = TypeVar("_R")
_Made = TypeVar("_Made", Output, SizedOutput)

_POLL_S = 0.05
"""How often the deadline, the cancellation and the memory of a busy worker are checked."""
_ORPHAN_S = 10.0
"""A worker ends this long after its deadline, if the service was killed and the system did not end the worker too."""
START_PATIENCE_S, START_RETRY_S = 15.0, 0.5
"""For how long a failed start of a worker is repeated, at most half of the time of a stage, and the pause between."""
_CHECK_TIMEOUT_S = 60.0
"""A worker that is started for a check and is not ready after this time has failed. A slow disk is not a failure."""
_UNREADABLE_ANSWER = "The process that worked on this picture sent an answer that can't be read."
_OUT_OF_MEMORY = "out_of_memory"
"""The error code of a `MemoryError`."""
_ERRORS: dict[str, Callable[[str], errors.ServiceError]] = {
    kind.code: kind
    for kind in (
        *(errors.BadImage, errors.UnsupportedImage, errors.BrokenImage, errors.TooManyPixels),
        *(errors.StageFailed, errors.ExternalServiceFailed, errors.StorageFailed),
    )
}
MEGABYTE = 1024 * 1024
MEMORY_WITHOUT_PIXELS = 256 * MEGABYTE
"""The limit for the memory of a worker that decodes no pixels; see `memory_limit_bytes`."""
_NEAR_LIMIT = 0.6
"""If a worker fails after using at least this share of its limit, the limit is reported as the cause: libraries that
get no memory often report damaged data instead. Pictures without defects need less than this share.
"""
_RESULT_FILE = "result"
"""The name, in the worker's folder, of the file that holds `Output.data`; those of variants add their number."""


class WorkerError(Exception):
    """The function raised an error that `_ERRORS` lacks; the message is its traceback, or a domain error's message."""


class _Request(NamedTuple):
    """Call `function(argument, check_stop)`.

    A worker that has not answered after `exit_after_s` ends, so that it does not outlive a service that was killed. One
    that has answered ends `idle_s` later, if it gets no other request.
    """

    function: Callable[[Any, CheckStop], Any]
    argument: Any
    memory_limit_bytes: int
    exit_after_s: float
    idle_s: float


class _Answer(Struct, Generic[_R], frozen=True, array_like=True):
    """What the function returned or raised. A fresh worker sends one without a result when it is ready.

    `error_code` is that of a domain error, `_OUT_OF_MEMORY`, or "" for any other exception, whose traceback is the
    message; None if nothing was raised. `peak_bytes` is the most memory that the worker held, 0 if unknown. `logged`
    has the logger, the level (a number of the module `logging`) and the message of what the function logged.
    """

    result: _R | None = None
    error_code: str | None = None
    error_message: str = ""
    peak_bytes: int = 0
    logged: tuple[tuple[str, int, str], ...] = ()


# ---- the side of the service ----


class _Lost(Exception):
    """The worker ended without an answer, or did not get the memory that it needed."""


class _Worker(PipedChild):
    """One process with a folder of its own. It is used by one thread at a time."""

    def __init__(self, folder: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Raises: OSError."""
        super().__init__([*command, str(folder), str(os.getpid())], environment)
        self.folder = folder
        self.requests = 0

    def wait_ready(self, check_stop: CheckStop) -> None:
        """Wait for the first answer, and log what it says. Raises: ChildEnded, what `check_stop` raises."""
        while (frame := self.receive(_POLL_S)) is None:
            check_stop()
        for _, level, message in _decoded(frame, _Answer[None]).logged:
            _log_once(level, message)

    def ask(self, request: _Request, kind: type[_R], check_stop: CheckStop) -> _Answer[_R]:
        """The answer to the request. Raises: _Lost, and what `check_stop` raises. The process has ended then."""
        self.requests += 1
        limit_bytes = request.memory_limit_bytes
        limit_mb = limit_bytes // MEGABYTE
        too_large = _Lost(f"This picture needs more memory than the {limit_mb} MB that a picture of its size may use.")
        used_bytes = 0
        try:
            self.send(pickle.dumps(request))
            while (frame := self.receive(_POLL_S)) is None:
                check_stop()
                used_bytes = max(used_bytes, piped_child.resident_bytes(self.pid))
                if used_bytes > limit_bytes:
                    raise too_large
            answer: _Answer[_R] = _decoded(frame, _Answer[kind])  # type: ignore[valid-type]
            is_near = max(used_bytes, answer.peak_bytes) >= _NEAR_LIMIT * limit_bytes
            may_be_near = answer.error_code in (errors.BrokenImage.code, errors.StageFailed.code, "")
            if answer.error_code == _OUT_OF_MEMORY or (is_near and may_be_near):
                raise too_large
            return answer
        except piped_child.ChildEnded as ended:
            self.discard()
            if used_bytes >= _NEAR_LIMIT * limit_bytes:
                raise too_large from None
            log.warning("A worker process ended with %s. %s", ended.cause, ended.last_error_line)
            raise _Lost(f"This picture ended the process that worked on it ({ended.cause}).") from None
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Kill the process and delete its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Workers:
    """The worker processes of the service. `run` may be called from several threads; each call uses one worker.

    `folder` holds a folder per worker and is emptied at the start; `results` receives the files of results and lies on
    the same file system. `timeout_s` is the time that a stage may take, `command` starts a worker. A worker that is
    idle for `idle_s` ends.
    """

    def __init__(
        self,
        folder: Path,
        results: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        timeout_s: float,
        *,
        idle_s: float = 60.0,
    ) -> None:
        self._folder = folder
        self._results = results
        self._command = command
        self._environment = environment
        self._timeout_s = timeout_s
        self._idle_s = idle_s
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self.death_observers: list[Callable[[], None]] = []
        """Called, from any thread, when a worker has crashed or exceeded its memory limit."""
        self._lock = threading.Lock()
        self._last_start_failed = False
        self._closed = False
        with errors.storage_errors("The data folder can't be used"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, mode=0o700, exist_ok=True)

    @property
    def pids(self) -> list[int]:
        """The processes that are running now."""
        with self._lock:
            return [worker.pid for worker in (*self._idle, *self._busy) if not worker.has_ended]

    def run(
        self, function: Callable[[_A, CheckStop], _R], argument: _A, memory_bytes: int, check_stop: CheckStop
    ) -> _R:
        """The result of `function(argument, check_stop)` in a worker that may use so much memory.

        `function` is at the top level of a module, and its annotations name its types.
        The file of an `Output` is moved to the folder of results; the caller deletes it.
        Raises: the errors of the function that `_ERRORS` lists; WorkerError, for its others; StageFailed, also if the
            worker crashed or exceeded its memory limit; NoWorker; what `check_stop` raises.
        """
        exit_after_s = self._timeout_s + _ORPHAN_S
        request = _Request(function, argument, memory_bytes, exit_after_s, self._idle_s)
        kind: type[_R] = typing.get_type_hints(function)["return"]
        worker = self._idle_worker() or self._started(check_stop)
        while True:
            try:
                answer = worker.ask(request, kind, check_stop)
                break
            except BaseException as error:
                self._forget(worker)
                if not isinstance(error, _Lost):
                    raise
                for observe in self.death_observers:
                    observe()
                if worker.requests == 1:
                    raise errors.StageFailed(str(error)) from None
                log.warning("A stage is tried again on a fresh worker process: %s", error)
            worker = self._started(check_stop)
        try:
            return self._result(worker, answer)
        finally:
            self._release(worker)

    def check_start(self) -> None:
        """Start a worker if the last start failed or the program is gone, to see whether it can be started now.

        One thread at a time may call it. Raises: NoWorker; StorageFailed; StageCancelled.
        """
        give_up_s = time.monotonic() + _CHECK_TIMEOUT_S

        def check_stop() -> None:
            if time.monotonic() > give_up_s:
                raise TimeoutError("it does not answer")

        if self._last_start_failed or not Path(self._command[0]).exists():
            self._release(self._started(check_stop, patience_s=0))

    def close(self) -> None:
        """End every worker."""
        with self._lock:
            self._closed = True
            workers = [*self._idle, *self._busy]
            self._idle.clear()
        for worker in workers:
            worker.discard()

    def _result(self, worker: _Worker, answer: _Answer[_R]) -> _R:
        """The function's result, with its file in the folder of results. Raises: ServiceError, WorkerError."""
        for logger, level, message in answer.logged:
            logging.getLogger(logger).log(level, "%s", message)
        if answer.error_code is not None:
            raise _ERRORS.get(answer.error_code, WorkerError)(answer.error_message)
        result = answer.result
        if not isinstance(result, Output) or result.path is None:
            return result  # type: ignore[return-value] # it was decoded as this type, or None is of this type
        path = self._moved(worker, _RESULT_FILE)
        variants = enumerate(result.variants)
        moved = tuple(replace(each, path=self._moved(worker, f"{_RESULT_FILE}-{number}")) for number, each in variants)
        return replace(result, path=path, variants=moved)

    def _moved(self, worker: _Worker, name: str) -> str:
        """The path of a file from the worker's folder in that of results. Raises: ServiceError."""
        path = self._results / f"{secrets.token_hex(8)}.part"
        with errors.storage_errors("The result of a stage can't be stored"):
            (worker.folder / name).rename(path)
        # a compromised worker may have made a link, which could name any file of this user, or a folder
        if not stat.S_ISREG(path.lstat().st_mode):
            path.rename(worker.folder / path.name)  # deleted with the worker's folder
            raise errors.StageFailed(_UNREADABLE_ANSWER)
        return str(path)

    def _started(self, check_stop: CheckStop, patience_s: float = math.inf) -> _Worker:
        """A fresh worker. Raises: NoWorker, if none can be started for a while; what `check_stop` raises."""
        give_up_s = time.monotonic() + min(patience_s, START_PATIENCE_S, self._timeout_s / 2)
        while True:
            try:
                return self._start(check_stop)
            except (OSError, piped_child.ChildEnded) as failure:
                if time.monotonic() >= give_up_s:
                    log.error("A worker process can't be started: %s", failure)
                    self._last_start_failed = True
                    raise errors.NoWorker(
                        "The process that works on pictures can't be started; the service's log says why, and"
                        " `imgproc-local doctor` checks the installation."
                    ) from failure
            check_stop()
            time.sleep(START_RETRY_S)

    def _start(self, check_stop: CheckStop) -> _Worker:
        """Raises: OSError, ChildEnded, StorageFailed, what `check_stop` raises."""
        if self._closed:
            raise errors.StageCancelled("The service is stopping.")
        with errors.storage_errors("The folder of a worker process can't be made"):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            folder = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            worker = _Worker(folder, self._command, self._environment)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        with self._lock:
            self._busy.add(worker)
        try:
            worker.wait_ready(check_stop)
        except BaseException:
            self._forget(worker)
            worker.discard()
            raise
        self._last_start_failed = False
        return worker

    def _idle_worker(self) -> _Worker | None:
        """The worker that was used last; None if none is idle."""
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if not worker.has_ended:
                    self._busy.add(worker)
                    return worker
                worker.discard()
        return None

    def _forget(self, worker: _Worker) -> None:
        with self._lock:
            self._busy.discard(worker)

    def _release(self, worker: _Worker) -> None:
        with self._lock:
            self._busy.discard(worker)
            if not self._closed:
                self._idle.append(worker)
                return
        worker.discard()


@cache
def _log_once(level: int, message: str) -> None:
    """Log what a worker says at its start, unless another one has said the same."""
    log.log(level, "%s", message)


def _decoded(frame: bytes, kind: Any) -> Any:
    try:
        return msgspec.msgpack.decode(frame, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise errors.StageFailed(_UNREADABLE_ANSWER) from error


def memory_limit_bytes(info: ImageInfo, target: Format | None = None) -> int:
    """The limit for the worker's own memory while it works on this picture, or makes a file in the format `target`.

    The process itself, and buffers that do not depend on the size of the picture, take 256 MB. Large pictures are
    decoded and encoded in strips, with 10 bytes per pixel, and 16 more for a HEIC or TIFF, which may be decoded in
    memory as a whole. Of the first 4 million pixels, each takes 260 bytes: up to this size, AVIF is encoded at several
    qualities and scored as a whole. libjxl transcodes a JPEG as a whole, for which it reserves 40 bytes per pixel and
    uses half of them; the same counts for the JPEG that is rebuilt of a JPEG XL.
    """
    has_jxl = Format.JXL in (info.format, target)
    per_pixel = 10 + (16 if info.format in READ_ONLY_FORMATS else 0) + (40 if has_jxl else 0)
    return MEMORY_WITHOUT_PIXELS + 260 * min(info.pixels, 4_000_000) + per_pixel * info.pixels


# ---- the side of the worker, with as few rights as the system allows ----


def run_worker(folder_name: str, parent_pid: int) -> None:
    """Answer requests until the parent, the service, ends. Files can be written only in the folder."""
    requests = piped_child.Requests()
    folder = Path(folder_name)
    sandbox.depend_on_parent(parent_pid)
    sandbox.write_no_core_dumps()
    sandbox.lower_priority(5)  # the process that answers requests comes first
    # libvips writes large temporary pictures into TMPDIR; on Windows, Python reads TEMP
    os.environ.update(TMPDIR=str(folder), TEMP=str(folder), TMP=str(folder))
    tempfile.tempdir = str(folder)
    for module in ("codecs.files", "engine.pipeline", "engine.analyze"):
        importlib.import_module(f"imgproc_local.{module}")  # most requests need them
    collector = _Collector()
    for missing in sandbox.restrict_to(folder):
        log.info("Worker processes have less protection on this system: %s", missing)
    # raises an error where the system refuses as many threads as libvips and the encoders start for one picture:
    # libraries would report a damaged picture instead
    started_threads(8, "imgproc-trial").shutdown()
    requests.start_reading()
    requests.answer(msgspec.msgpack.encode(_Answer[None](logged=tuple(collector.entries))))
    while True:
        request: _Request = pickle.loads(requests.next())  # noqa: S301 - from the service
        # the timer is a thread written in C: it ends the process even if Python code holds the interpreter lock
        faulthandler.dump_traceback_later(request.exit_after_s, exit=True)
        collector.entries.clear()
        piped_child.reset_peak()
        sandbox.limit_data(request.memory_limit_bytes)
        answer = _answer(request, folder)
        sandbox.limit_data(0)
        answer = replace(answer, peak_bytes=piped_child.peak_resident_bytes(), logged=tuple(collector.entries))
        requests.answer(msgspec.msgpack.encode(answer))
        faulthandler.dump_traceback_later(request.idle_s, exit=True)


def _answer(request: _Request, folder: Path) -> _Answer[Any]:
    try:
        # `check_stop` does nothing in a worker: the service kills a worker whose work is no longer wanted
        result = request.function(request.argument, lambda: None)
        if isinstance(result, Output) and result.data is not None:
            with errors.storage_errors("The result of a stage can't be written"):
                variants = enumerate(result.variants)
                written = tuple(_written(each, folder / f"{_RESULT_FILE}-{number}") for number, each in variants)
                result = replace(_written(result, folder / _RESULT_FILE), variants=written)
        return _Answer(result)
    except errors.ServiceError as error:
        return _Answer(error_code=error.code, error_message=error.message)
    except MemoryError:
        return _Answer(error_code=_OUT_OF_MEMORY)
    except Exception:
        return _Answer(error_code="", error_message=traceback.format_exc())


def _written(made: _Made, file: Path) -> _Made:
    """The same with its data in a file of the worker's folder."""
    file.write_bytes(made.data or b"")
    return replace(made, data=None, path=file.name)


class _Collector(logging.Handler):
    """Collects what this package logs for one request, for the log of the service: at most 20 entries."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.entries: list[tuple[str, int, str]] = []
        logger = logging.getLogger("imgproc_local")
        logger.handlers = [self]
        logger.setLevel(logging.INFO)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.entries) < 20:
            self.entries.append((record.name, record.levelno, record.getMessage()[:500]))
