"""Runs functions on pictures in worker processes, so that a picture can crash, stall or starve only its own stage.

A worker is started when it is needed, used again for the next picture, and ended after a minute without one. A worker
that passes the deadline, exceeds its memory limit or is no longer wanted is killed. If a worker that had answered other
requests before crashes or exceeds its memory limit, the function is called once more, on a fresh worker: an earlier
picture may be the cause.

Invariant: `run` returns or raises soon after `check_stop` raises, whatever the function does.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from imgproc_local.domain.errors import (
    BadImage,
    BrokenImage,
    CheckStop,
    ExternalServiceFailed,
    NoWorker,
    ServiceError,
    StageCancelled,
    StageFailed,
    StorageFailed,
    TooManyPixels,
    UnsupportedImage,
)
from imgproc_local.domain.image import READ_ONLY_FORMATS, ImageInfo
from imgproc_local.engine.stage import Output
from imgproc_local.engine.worker import (
    OUT_OF_MEMORY,
    RESULT_FILE,
    Answer,
    Ready,
    Request,
    path_of,
    return_type,
)
from imgproc_local.system.memory import resident_bytes
from imgproc_local.system.piped_child import ChildEnded, PipedChild

log = logging.getLogger(__name__)

A = TypeVar("A", bound=msgspec.Struct)
R = TypeVar("R")

IDLE_S = 60.0
"""A worker that is idle for this long ends."""
POLL_S = 0.05
"""How often the deadline, the cancellation and the memory of a busy worker are checked."""
ORPHAN_S = 10.0
"""A worker ends this long after its deadline, if the service was killed and the system did not end the worker too."""
START_PATIENCE_S, START_RETRY_S = 15.0, 0.5
"""For how long a failed start of a worker is repeated, at most half of the time of a stage, and the pause between."""
CANNOT_START = (
    "The process that works on pictures can't be started; the service's log says why, and `imgproc-local doctor` checks"
    " the installation."
)
UNREADABLE_ANSWER = "The process that worked on this picture sent an answer that can't be read."
_BAD_IMAGE = (BadImage, UnsupportedImage, BrokenImage, TooManyPixels)
_ERRORS: dict[str, Callable[[str], ServiceError]] = {
    kind.code: kind for kind in (*_BAD_IMAGE, StageFailed, ExternalServiceFailed, StorageFailed)
}
_CAUSED_BY_MEMORY = (BrokenImage.code, StageFailed.code, "")
"""The error codes of answers whose cause may be a lack of memory; "" is an unexpected error."""

MEGABYTE = 1024 * 1024
BASE_BYTES = 256 * MEGABYTE
"""The process itself, and buffers that do not depend on the size of the picture."""
SMALL_PIXELS = 4_000_000
BYTES_PER_SMALL_PIXEL = 260
"""For each of the first `SMALL_PIXELS`: up to this size, AVIF is encoded at several qualities and scored as a whole."""
BYTES_PER_PIXEL = 10
"""For every pixel. Large pictures are decoded and encoded in strips."""
BYTES_PER_UNSTREAMED_PIXEL = 16
"""Added for every pixel of a HEIC or TIFF: a HEIC, and a TIFF stored in one piece, are decoded in memory as a whole."""
NEAR_LIMIT = 0.6
"""If a worker fails after using at least this share of its limit, the limit is reported as the cause: libraries that
get no memory often report damaged data instead. Pictures without defects need less than this share.
"""


class WorkerError(Exception):
    """The function raised an error that `_ERRORS` lacks; the message is its traceback, or a domain error's message."""


class _Lost(Exception):
    """The worker ended without an answer, or did not get the memory that it needed."""


class _Worker:
    """One process with a folder of its own. It is used by one thread at a time."""

    def __init__(self, folder: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Raises: OSError."""
        self.folder = folder
        self.requests = 0
        self._child = PipedChild([*command, str(folder), str(os.getpid())], environment)
        self.pid = self._child.pid

    def wait_ready(self, check_stop: CheckStop) -> None:
        """Wait for the first answer. Raises: ChildEnded, what `check_stop` raises."""
        while (frame := self._child.receive(POLL_S)) is None:
            check_stop()
        for missing in _decoded(frame, Ready).missing_protections:
            if missing not in _logged_protections:
                _logged_protections.add(missing)
                log.info("Worker processes have less protection on this system: %s", missing)

    def ask(self, request: Request, check_stop: CheckStop) -> Answer:
        """The answer to the request. Raises: _Lost, and what `check_stop` raises. The process has ended then."""
        self.requests += 1
        limit_bytes = request.memory_limit_bytes
        used_bytes = 0
        limit_mb = limit_bytes // MEGABYTE
        too_large = _Lost(f"This picture needs more memory than the {limit_mb} MB that a picture of its size may use.")
        try:
            self._child.send(msgspec.msgpack.encode(request))
            while (frame := self._child.receive(POLL_S)) is None:
                check_stop()
                used_bytes = max(used_bytes, resident_bytes(self.pid))
                if used_bytes > limit_bytes:
                    raise too_large
            answer: Answer = _decoded(frame, Answer)
            used_bytes = max(used_bytes, answer.peak_bytes)
            is_near = used_bytes >= NEAR_LIMIT * limit_bytes
            if answer.error_code == OUT_OF_MEMORY or (is_near and answer.error_code in _CAUSED_BY_MEMORY):
                raise too_large
            return answer
        except ChildEnded as ended:
            self.end()
            if used_bytes >= NEAR_LIMIT * limit_bytes:
                raise too_large from None
            log.warning("A worker process ended with %s. %s", ended.cause, ended.last_error_line)
            raise _Lost(f"This picture ended the process that worked on it ({ended.cause}).") from None
        except BaseException:
            self.end()
            raise

    @property
    def has_ended(self) -> bool:
        return self._child.has_ended

    def end(self) -> None:
        """Kill the process and delete its folder."""
        self._child.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Workers:
    """The worker processes of the service. `run` may be called from several threads; each call uses one worker.

    `folder` holds a folder per worker and is emptied at the start; `results` receives the files of results and lies on
    the same file system. `timeout_s` is the time that a stage may take, `command` starts a worker.
    """

    def __init__(
        self,
        folder: Path,
        results: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        timeout_s: float,
        *,
        idle_s: float = IDLE_S,
    ) -> None:
        self._folder = folder
        self._results = results
        self._command = command
        self._environment = environment
        self._timeout_s = timeout_s
        self._idle_s = idle_s
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._lock = threading.Lock()
        self._closed = False
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorageFailed(f"The data folder can't be used ({error.strerror}).") from error

    @property
    def pids(self) -> list[int]:
        """The processes that are running now."""
        with self._lock:
            return [worker.pid for worker in (*self._idle, *self._busy) if not worker.has_ended]

    def run(self, function: Callable[[A, CheckStop], R], argument: A, info: ImageInfo, check_stop: CheckStop) -> R:
        """The result of `function(argument, check_stop)` in a worker, with the memory for a picture with this `info`.

        The file of an `Output` is moved to the folder of results; the caller deletes it.
        Raises: the errors of the function that `_ERRORS` lists; WorkerError, for its others; StageFailed, also if the
            worker crashed or exceeded its memory limit; NoWorker; what `check_stop` raises.
        """
        request = Request(
            function=path_of(function),
            argument=msgspec.Raw(msgspec.msgpack.encode(argument)),
            memory_limit_bytes=memory_limit_bytes(info),
            exit_after_s=self._timeout_s + ORPHAN_S,
            idle_s=self._idle_s,
        )
        worker, answer = self._ask(request, check_stop)
        try:
            result = _result(worker, answer, return_type(function), self._results)
        finally:
            self._release(worker)
        return result  # type: ignore[no-any-return] # checked against the function's return type

    def close(self) -> None:
        """End every worker."""
        with self._lock:
            self._closed = True
            workers = [*self._idle, *self._busy]
            self._idle.clear()
        for worker in workers:
            worker.end()

    def _ask(self, request: Request, check_stop: CheckStop) -> tuple[_Worker, Answer]:
        worker = self._idle_worker() or self._started(check_stop)
        while True:
            is_fresh = worker.requests == 0
            try:
                return worker, worker.ask(request, check_stop)
            except BaseException as error:
                self._forget(worker)
                if not isinstance(error, _Lost):
                    raise
                if is_fresh:
                    raise StageFailed(str(error)) from None
                log.warning("A stage is tried again on a fresh worker process: %s", error)
            worker = self._started(check_stop)

    def _started(self, check_stop: CheckStop) -> _Worker:
        """A fresh worker. Raises: NoWorker, if none can be started for a while; what `check_stop` raises."""
        give_up_s = time.monotonic() + min(START_PATIENCE_S, self._timeout_s / 2)
        while True:
            try:
                return self._start(check_stop)
            except (OSError, ChildEnded) as failure:
                if time.monotonic() > give_up_s:
                    reason = str(failure)
                    if isinstance(failure, ChildEnded):
                        reason = f"{failure.cause}. {failure.last_error_line}"
                    log.error("A worker process can't be started: %s", reason)
                    raise NoWorker(CANNOT_START) from failure
            check_stop()
            time.sleep(START_RETRY_S)

    def _start(self, check_stop: CheckStop) -> _Worker:
        """Raises: OSError, ChildEnded, StorageFailed, what `check_stop` raises."""
        if self._closed:
            raise StageCancelled("The service is stopping.")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            folder = Path(tempfile.mkdtemp(dir=self._folder))
        except OSError as error:
            raise StorageFailed(f"The folder of a worker process can't be made ({error.strerror}).") from error
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
            worker.end()
            raise
        return worker

    def _idle_worker(self) -> _Worker | None:
        """The worker that was used last; None if none is idle."""
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if not worker.has_ended:
                    self._busy.add(worker)
                    return worker
                worker.end()
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
        worker.end()


_logged_protections: set[str] = set()


def _result(worker: _Worker, answer: Answer, kind: Any, results: Path) -> Any:
    """The function's result, with its file in `results`. Raises: ServiceError, WorkerError."""
    for entry in answer.logged:
        logging.getLogger(entry.logger).log(entry.level, "%s", entry.message)
    if answer.error_code is not None:
        raise _ERRORS.get(answer.error_code, WorkerError)(answer.error_message)
    result = _decoded(answer.result, kind)
    if not answer.has_file:
        return result
    path = results / f"{secrets.token_hex(8)}.part"
    try:
        (worker.folder / RESULT_FILE).rename(path)
    except OSError as error:
        raise StorageFailed(f"The result of a stage can't be stored ({error.strerror}).") from error
    # a compromised worker may have made a link, which could name any file of this user, or a folder
    if not isinstance(result, Output) or not stat.S_ISREG(path.lstat().st_mode):
        path.rename(worker.folder / path.name)  # deleted with the worker's folder
        raise StageFailed(UNREADABLE_ANSWER)
    return replace(result, path=str(path))


def _decoded(frame: bytes | msgspec.Raw, kind: Any) -> Any:
    try:
        return msgspec.msgpack.decode(frame, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StageFailed(UNREADABLE_ANSWER) from error


def memory_limit_bytes(info: ImageInfo) -> int:
    """The limit for the worker's own memory while it works on this picture."""
    small = min(info.pixels, SMALL_PIXELS)
    per_pixel = BYTES_PER_PIXEL + (BYTES_PER_UNSTREAMED_PIXEL if info.format in READ_ONLY_FORMATS else 0)
    return BASE_BYTES + BYTES_PER_SMALL_PIXEL * small + per_pixel * info.pixels
