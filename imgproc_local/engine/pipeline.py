"""Reads a picture and runs its stages: for uploads and the lanes of the engine, and without a job for `process` and
`archive`, which have records of their own.

asyncio is imported by the function that needs it: worker processes load this module and run no event loop.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from imgproc_local.domain import errors
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.filename import original_name
from imgproc_local.domain.image import Disclosure, Format, ImageInfo
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import STAGES, Plan
from imgproc_local.engine.stage import Options, Output, Stage, WorkItem
from imgproc_local.engine.workers import MEMORY_WITHOUT_PIXELS, WorkerError, Workers, memory_limit_bytes
from imgproc_local.system.threads import started_threads

log = logging.getLogger(__name__)

_A = TypeVar("_A")
_R = TypeVar("_R")


class CancellationToken:
    """Cancels a stage or times it out. Threads can't be ended, so the stage calls `check` between its steps.

    Several tokens may share the event `cancelled`, which cancels them all.
    """

    def __init__(self, timeout_s: float, cancelled: threading.Event | None = None) -> None:
        self._timeout_s = timeout_s
        self._deadline_s = time.monotonic() + timeout_s
        self._cancelled = cancelled or threading.Event()

    def restart_timeout(self) -> None:
        """Count the timeout from now on."""
        self._deadline_s = time.monotonic() + self._timeout_s

    def cancel(self) -> None:
        self._cancelled.set()

    def check(self) -> None:
        """Return at once while the work is wanted.

        Raises:
            StageCancelled: the job was deleted, a newer preview was requested, or the service is stopping.
            StageTimedOut: the timeout has passed.
        """
        if self._cancelled.is_set():
            raise errors.StageCancelled("Cancelled.")
        if time.monotonic() > self._deadline_s:
            raise errors.StageTimedOut(
                f"Not finished within {self._timeout_s:g} seconds, the time that one stage may take."
            )


# ---- work that someone waits for ----

_AT_ONCE, _TIMEOUT_S = 2, 30.0
"""How much of one kind is worked on at the same time, in addition to the stages: no lane limits it; and the time for
each."""


class OnDemand:
    """Runs functions in `workers` for requests that wait for the result. `failure` begins the message of a failure.

    `run` may be called from several threads; `run_soon` uses at most `_AT_ONCE` threads of its own.
    """

    def __init__(self, workers: Workers, name: str, failure: str) -> None:
        self._workers = workers
        self._failure = failure
        self._executor = started_threads(_AT_ONCE, f"imgproc-{name}")
        self._closed = threading.Event()

    def run(self, function: Callable[[_A, CheckStop], _R], argument: _A, memory_bytes: int) -> _R:
        """The result of `function(argument, check_stop)`, which is as in `Workers.run`.

        Raises: BadImage; StageTimedOut; StorageFailed, also if no worker can be started; ServiceStopping.
        """
        token = CancellationToken(_TIMEOUT_S, self._closed)
        try:
            return self._workers.run(function, argument, memory_bytes, token.check)
        except errors.StageCancelled:
            raise errors.ServiceStopping from None
        except errors.StageTimedOut:
            raise errors.StageTimedOut(f"{self._failure} within {_TIMEOUT_S:g} seconds.") from None
        except errors.StageFailed as error:
            raise errors.BrokenImage(error.message) from error
        except WorkerError as error:
            log.error("%s:\n%s", self._failure, error)
            raise errors.BrokenImage(f"{self._failure}: it caused an unexpected error.") from error

    async def run_soon(self, function: Callable[[_A, CheckStop], _R], argument: _A, memory_bytes: int) -> _R:
        """As `run`, when one of the threads is free."""
        import asyncio

        if self._closed.is_set():  # the executor accepts no more work
            raise errors.ServiceStopping
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self.run, function, argument, memory_bytes)

    async def run_now(self, function: Callable[[_A, CheckStop], _R], argument: _A, memory_bytes: int) -> _R:
        """As `run_soon`. A time-out is a StorageFailed: the client may send the request again."""
        try:
            return await self.run_soon(function, argument, memory_bytes)
        except errors.StageTimedOut as error:
            raise errors.StorageFailed(f"{error.message} Try again.") from error

    def close(self) -> None:
        """Run nothing more; requests for it raise ServiceStopping."""
        self._closed.set()
        self._executor.shutdown(wait=False)


# ---- reading ----


class FileToRead(Struct, frozen=True):
    """A file, and the formats that it may have."""

    path: Path
    accepted: tuple[Format, ...]
    max_pixels: int
    disclosure: Disclosure


class ReadPicture(Struct, frozen=True):
    """What is known of a picture file: the properties in its header, and its record as `codecs.metadata` packs it."""

    info: ImageInfo
    record: bytes


def read_file(file: FileToRead, check_stop: CheckStop) -> ReadPicture:
    """Read the file. Runs in a worker. Raises: BadImage, StageFailed, StorageFailed."""
    from imgproc_local.codecs.metadata.record import packed
    from imgproc_local.codecs.picture.formats import detect, head_of
    from imgproc_local.codecs.picture.source import read_picture

    check_stop()
    try:
        head = head_of(file.path)
    except OSError as error:
        raise errors.StorageFailed(f"The picture can't be read from storage: {error.strerror}.") from error
    picture = read_picture(file.path, detect(head, file.accepted), file.max_pixels, file.disclosure)
    return ReadPicture(picture.info, packed(picture.record, file.disclosure))


def memory_to_read(file: FileToRead, check_stop: CheckStop) -> int:
    """The limit of the memory for reading the file. Runs in a worker. Raises: BadImage, StageFailed.

    That of a JPEG XL depends on its pixels, because the JPEG that it was made of is rebuilt.
    """
    from imgproc_local.codecs.picture.formats import detect, head_of
    from imgproc_local.codecs.picture.other_decoders import read_jxl_info
    from imgproc_local.codecs.picture.source import opened

    check_stop()
    with opened(file.path) as data:
        if detect(head_of(file.path), file.accepted) is not Format.JXL:
            return MEMORY_WITHOUT_PIXELS
        info = read_jxl_info(data)
    # one of more pixels is refused before the JPEG is rebuilt
    return memory_limit_bytes(info) if info.pixels <= file.max_pixels else MEMORY_WITHOUT_PIXELS


class Reader:
    """Reads pictures of at most `max_pixels`, all frames together, of which results may say what `disclosure` allows
    when a picture is read. `read` may be called from several threads.
    """

    def __init__(self, workers: Workers, max_pixels: int, disclosure: Callable[[], Disclosure]) -> None:
        self._on_demand = OnDemand(workers, "reading", "The picture can't be read")
        self._max_pixels = max_pixels
        self._disclosure = disclosure
        self.close = self._on_demand.close

    def read(self, path: Path, accepted: Sequence[Format]) -> ReadPicture:
        """What the file says, if it is of a format in `accepted`.

        Raises: UnsupportedImage, BrokenImage, TooManyPixels; StageTimedOut; StorageFailed, also if no worker can be
            started; ServiceStopping.
        """
        file, memory_bytes = self._file(path, accepted), MEMORY_WITHOUT_PIXELS
        if Format.JXL in accepted:
            memory_bytes = self._on_demand.run(memory_to_read, file, memory_bytes)
        return self._on_demand.run(read_file, file, memory_bytes)

    async def read_upload(self, path: Path, accepted: Sequence[Format]) -> ReadPicture:
        """As `read`, for a few uploads at once. A time-out is a StorageFailed."""
        file, memory_bytes = self._file(path, accepted), MEMORY_WITHOUT_PIXELS
        if Format.JXL in accepted:
            memory_bytes = await self._on_demand.run_now(memory_to_read, file, memory_bytes)
        return await self._on_demand.run_now(read_file, file, memory_bytes)

    def _file(self, path: Path, accepted: Sequence[Format]) -> FileToRead:
        # workers run in another folder
        return FileToRead(path.absolute(), tuple(accepted), self._max_pixels, self._disclosure())


# ---- running stages ----

Outcome = Output | Exception
"""What a stage returned or raised."""


class Lanes:
    """The threads of each lane, on which the stages of several pictures run at once. `at_once` is their number by lane.

    The stages that run have at most `pixels` together, so that their memory is limited, first come, first served; a
    larger picture runs alone. The threads have a lower priority than the one that answers requests.
    """

    def __init__(self, at_once: Mapping[str, int], pixels: int) -> None:
        self.at_once = dict(at_once)
        self.threads = {
            lane: started_threads(count, f"imgproc-{lane}", _lower_priority) for lane, count in at_once.items()
        }
        self._all_pixels = self._free_pixels = pixels
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def room_for(self, pixels: int) -> Iterator[None]:
        """Wait until so many pixels may be worked on; inside the block they count."""
        pixels, turn = min(pixels, self._all_pixels), object()
        with self._changed:
            self._waiting.append(turn)
            self._changed.wait_for(lambda: self._waiting[0] is turn and pixels <= self._free_pixels)
            self._waiting.popleft()
            self._free_pixels -= pixels
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free_pixels += pixels
                self._changed.notify_all()

    def close(self) -> None:
        """Start no more stages. This does not wait for those that run."""
        for threads in self.threads.values():
            threads.shutdown(wait=False, cancel_futures=True)


def _lower_priority() -> None:
    if sys.platform == "linux":  # on other systems niceness belongs to the whole process, not to a thread
        thread = threading.get_native_id()
        # only root may lower the niceness that the process was started with
        os.setpriority(os.PRIO_PROCESS, thread, max(5, os.getpriority(os.PRIO_PROCESS, thread)))


class Pipeline(Struct, frozen=True):
    """The stages, and the worker processes that they run in.

    With `lanes`, several threads may use it, and the stages of a picture run at the same time. Without, one thread at a
    time may use it, and stages run one after the other. After `cancelled` was set, stages fail soon. `options`
    returns those for a stage that begins now.
    """

    stages: tuple[Stage, ...]
    options: Callable[[], Options]
    workers: Workers
    reader: Reader
    timeout_s: float
    lanes: Lanes | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)

    def run(self, stage: Stage, work: WorkItem, token: CancellationToken) -> tuple[Outcome, float]:
        """The outcome of a stage, and the seconds that it took. The time that it waited for memory does not count."""
        with nullcontext() if self.lanes is None else self.lanes.room_for(work.info.pixels):
            token.restart_timeout()
            began_s = time.monotonic()
            outcome: Outcome
            try:
                token.check()
                outcome = stage.run(work, token.check)
            except Exception as error:
                outcome = error
                if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
                    outcome = errors.NoWorker("The system starts no more threads for this user, or has no memory left.")
            return outcome, time.monotonic() - began_s


def error_message(error: Exception, stage: StageName, picture: str) -> str:
    """The message that users see for a failed stage of a picture. Logs the error if it is unexpected."""
    if isinstance(error, (errors.StageFailed, errors.BadImage)):
        return error.message
    log.error("Stage %s of %s failed", stage, picture, exc_info=error)
    if isinstance(error, MemoryError):
        return "There was not enough memory for this image."
    return "Server Error: this stage failed with an unexpected error; the service's log has the details."


class StageResult(Struct, frozen=True):
    """The output of a stage for a picture; if it is None, `error` says why. The caller deletes the output's file.

    `duration_s` is the time that passed.
    """

    stage: StageName
    output: Output | None
    error: str
    duration_s: float


def run_stages(
    pipeline: Pipeline,
    plan: Plan,
    file: Path,
    name: str,
    picture: ReadPicture,
    wanted: Container[StageName],
    earlier: Sequence[StageResult] = (),
) -> list[StageResult]:
    """The results of the `wanted` stages of `plan` for a picture that was called `name`, in the order of the pipeline.

    A conversion that must be smaller than the optimized file, which may be one of the `earlier` results, runs after it.
    Raises: StorageFailed, if temporary files can't be written, for example to a full disk; FileNotFoundError, if the
    file was removed since it was read.
    """
    size_bytes = file.stat().st_size
    original = original_name(name, default=f"image.{picture.info.format.value}")
    work = WorkItem(file, picture.info, plan, original, pipeline.options(), picture.record)
    stages = [stage for stage in pipeline.stages if stage.name in STAGES[plan.operation] and stage.name in wanted]
    last = [stage for stage in stages if plan.only_smaller and stage.name is StageName.CONVERT]
    results = _results(pipeline, [stage for stage in stages if stage not in last], work)
    for result in (*earlier, *results):
        if result.stage is StageName.OPTIMIZE and result.output is not None and result.output.path is not None:
            size_bytes = Path(result.output.path).stat().st_size
    return results + _results(pipeline, last, replace(work, bytes_to_beat=size_bytes))


def _results(pipeline: Pipeline, stages: Sequence[Stage], work: WorkItem) -> list[StageResult]:
    """The results of stages, at the same time if the pipeline has lanes."""
    if pipeline.lanes is None:
        return [_result(pipeline, stage, work) for stage in stages]
    running = [pipeline.lanes.threads[stage.lane].submit(_result, pipeline, stage, work) for stage in stages]
    return [future.result() for future in running]


def _result(pipeline: Pipeline, stage: Stage, work: WorkItem) -> StageResult:
    token = CancellationToken(pipeline.timeout_s, pipeline.cancelled)
    outcome, duration_s = pipeline.run(stage, work, token)
    if isinstance(outcome, errors.StorageFailed):
        raise outcome
    if isinstance(outcome, Output):
        return StageResult(stage.name, outcome, "", duration_s)
    return StageResult(stage.name, None, error_message(outcome, stage.name, work.original_filename), duration_s)
