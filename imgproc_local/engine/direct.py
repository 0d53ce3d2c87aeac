"""Runs the stages of one picture without a job: for `process` and `archive`, which have records of their own."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

from msgspec import Struct, field

from imgproc_local.domain.errors import BadImage, StageFailed, StorageFailed
from imgproc_local.domain.filename import original_name
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import STAGES, Plan
from imgproc_local.engine.reading import Reader, ReadPicture
from imgproc_local.engine.stage import CancellationToken, Options, Output, Stage, WorkItem, stage_error_message
from imgproc_local.engine.workers import Workers
from imgproc_local.system.threads import started_threads

log = logging.getLogger(__name__)


class Lanes:
    """The threads of each lane, on which the stages of several pictures run at once. `at_once` is their number by lane.

    The stages that run have at most `pixels` together, so that their memory is limited; a larger picture runs alone.
    """

    def __init__(self, at_once: Mapping[str, int], pixels: int) -> None:
        self.threads = {lane: started_threads(count, f"imgproc-{lane}") for lane, count in at_once.items()}
        self._all_pixels = self._free_pixels = pixels
        self._freed = threading.Condition()

    @contextmanager
    def room_for(self, pixels: int) -> Iterator[None]:
        """Wait until so many pixels may be worked on; inside the block they count."""
        pixels = min(pixels, self._all_pixels)
        with self._freed:
            self._freed.wait_for(lambda: pixels <= self._free_pixels)
            self._free_pixels -= pixels
        try:
            yield
        finally:
            with self._freed:
                self._free_pixels += pixels
                self._freed.notify_all()

    def close(self) -> None:
        """Start no more stages. This does not wait for those that run."""
        for threads in self.threads.values():
            threads.shutdown(wait=False, cancel_futures=True)


class DirectStages(Struct, frozen=True):
    """The pipeline, and the worker processes that its stages run in.

    With `lanes`, several threads may use it, and the stages of a picture run at the same time. Without, one thread at a
    time may use it, and stages run one after the other. After `cancelled` was set, stages fail soon.
    """

    stages: tuple[Stage, ...]
    options: Options
    workers: Workers
    reader: Reader
    timeout_s: float
    lanes: Lanes | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)


class StageResult(Struct, frozen=True):
    """The output of a stage for a picture; if it is None, `error` says why. The caller deletes the output's file.

    `duration_s` is the time that passed.
    """

    stage: StageName
    output: Output | None
    error: str
    duration_s: float


def run_stages(
    direct: DirectStages, plan: Plan, file: Path, name: str, picture: ReadPicture, wanted: Container[StageName]
) -> list[StageResult]:
    """The results of the `wanted` stages of `plan` for a picture that was called `name`, in the order of the pipeline.

    Raises: StorageFailed, if temporary files can't be written, for example to a full disk.
    """
    work = WorkItem(
        path=os.fsencode(file),
        size_bytes=file.stat().st_size,
        info=picture.info,
        plan=plan,
        original_filename=original_name(name, default=f"image.{picture.info.format.value}"),
        options=direct.options,
        record=picture.record,
    )
    stages = [stage for stage in direct.stages if stage.name in STAGES[plan.operation] and stage.name in wanted]
    if direct.lanes is None:
        return [_result(direct, stage, work) for stage in stages]
    running = [direct.lanes.threads[stage.lane].submit(_result, direct, stage, work) for stage in stages]
    return [future.result() for future in running]


def _result(direct: DirectStages, stage: Stage, work: WorkItem) -> StageResult:
    with nullcontext() if direct.lanes is None else direct.lanes.room_for(work.info.pixels):
        check_stop = CancellationToken(direct.timeout_s, direct.cancelled).check
        began_s = time.monotonic()
        output, message = None, ""
        try:
            check_stop()
            output = stage.run(work, check_stop)
        except StorageFailed:
            raise
        except Exception as error:
            if not isinstance(error, (StageFailed, BadImage)):
                log.error("Stage %s of %s failed", stage.name, work.original_filename, exc_info=error)
            message = stage_error_message(error)
        return StageResult(stage.name, output, message, time.monotonic() - began_s)
