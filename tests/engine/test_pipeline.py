"""Stages without jobs, of several pictures at once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from imgproc_local.codecs.jxl import without_loss
from imgproc_local.domain.errors import (
    BrokenImage,
    CheckStop,
    ServiceStopping,
    StageFailed,
    StageTimedOut,
    StorageFailed,
)
from imgproc_local.domain.image import Disclosure, Format, ImageInfo
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.engine.pipeline import Lanes, Pipeline, Reader, ReadPicture, StageResult, read_file, run_stages
from imgproc_local.engine.stage import CODECS_LANE, Options, Output, Stage, WorkItem
from imgproc_local.engine.workers import MEMORY_WITHOUT_PIXELS, WorkerError, memory_limit_bytes
from tests.codecs import pictures
from tests.support.worker_pool import WAIT_S, wait_until

PIXELS = 100
"""How many pixels the stages that run may have together."""


class Recorder:
    """Two stages that last for a moment, and the most that ran at once, and the most pixels that they had."""

    def __init__(self) -> None:
        self.lanes = Lanes({CODECS_LANE: 4}, PIXELS)
        stages = tuple(Stage(name, CODECS_LANE, self._run) for name in (StageName.OPTIMIZE, StageName.CONVERT))
        workers: Any = None
        self.pipeline = Pipeline(stages, lambda: Options(target_score=75), workers, workers, 30, self.lanes)
        self._running: list[int] = []
        self.at_once = self.pixels_at_once = 0
        self._lock = threading.Lock()

    def run(self, picture: Path, width_px: int) -> list[StageResult]:
        read = ReadPicture(ImageInfo(Format.JPEG, width_px, 1), b"")
        return run_stages(self.pipeline, Plan(Operation.PROCESS), picture, "a.jpg", read, tuple(StageName))

    def _run(self, work: WorkItem, _: CheckStop) -> Output:
        with self._lock:
            self._running.append(work.info.pixels)
            self.at_once = max(self.at_once, len(self._running))
            self.pixels_at_once = max(self.pixels_at_once, sum(self._running))
        is_small = 2 * work.info.pixels <= PIXELS
        assert wait_until(lambda: not is_small or self.at_once > 1), "another one runs beside it"
        time.sleep(0.02)
        with self._lock:
            self._running.remove(work.info.pixels)
        return Output(keeps_original=True)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.lanes.close()


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    (tmp_path / "a.jpg").write_bytes(b"a picture")
    return tmp_path / "a.jpg"


def test_stages_run_at_once_within_the_limit_on_pixels(recorder: Recorder, picture: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda width_px: recorder.run(picture, width_px), (40, 40, 40, 90, 90, 40)))
    assert all(result.output is not None for results_of_one in results for result in results_of_one)
    assert (recorder.at_once, recorder.pixels_at_once <= PIXELS) == (2, True)


@pytest.mark.parametrize("has_lanes", [False, True])
def test_a_conversion_that_must_be_smaller_runs_after_the_optimization(
    recorder: Recorder, picture: Path, tmp_path: Path, has_lanes: bool
) -> None:
    seen: list[tuple[StageName, int]] = []

    def stage(name: StageName) -> Stage:
        def run(work: WorkItem, check_stop: CheckStop) -> Output:
            seen.append((name, work.bytes_to_beat))
            (tmp_path / "made").write_bytes(b"made")
            return Output(path=str(tmp_path / "made"))

        return Stage(name, CODECS_LANE, run)

    stages = (stage(StageName.OPTIMIZE), stage(StageName.CONVERT))
    pipeline = replace(recorder.pipeline, stages=stages, lanes=recorder.lanes if has_lanes else None)
    read, parts = ReadPicture(ImageInfo(Format.JPEG, 1, 1), b""), []
    for operation in (Operation.PROCESS, Operation.CONVERT):
        plan = Plan(operation, only_smaller=True)
        parts += run_stages(pipeline, plan, picture, "a.jpg", read, tuple(StageName))
    run_stages(pipeline, plan, picture, "a.jpg", read, tuple(StageName), parts)
    original, optimized = len(b"a picture"), len(b"made")
    assert seen[1:] == [(StageName.CONVERT, each) for each in (optimized, original, optimized)]


def test_a_large_picture_is_not_overtaken_for_ever() -> None:
    lanes, order, threads = Lanes({}, 10), [], []

    def work(name: int, pixels: int) -> None:
        with lanes.room_for(pixels):
            order.append(name)
            time.sleep(0.001)

    with lanes.room_for(10):
        for name, pixels in enumerate([4, 4, 4, 10, 1, 25, 3, 3, 3, 3]):
            threads.append(threading.Thread(target=work, args=(name, pixels)))
            threads[-1].start()
            while len(lanes._waiting) <= name:
                time.sleep(0.001)
    for thread in threads:
        thread.join(WAIT_S)
    for large in (3, 5):  # nothing else runs beside it
        assert set(order[:large]) == set(range(large))
        assert order[large] == large


# ---- reading ----


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (StageTimedOut("late"), StorageFailed, "can.t be read within"),  # 503: the client may send the picture again
        (WorkerError("ValueError: odd"), BrokenImage, "unexpected error"),
        (StageFailed("It is cut off."), BrokenImage, "cut off"),
    ],
)
async def test_what_keeps_a_picture_from_being_read_is_an_answer(
    tmp_path: Path, raised: Exception, expected: type[Exception], message: str
) -> None:
    def run(*_: object) -> None:
        raise raised

    workers: Any = SimpleNamespace(run=run)
    reader = Reader(workers, 1, Disclosure)
    with pytest.raises(expected, match=message):
        await reader.read_upload(tmp_path / "a.jpg", (Format.JPEG,))
    reader.close()


async def test_a_jpeg_xl_may_take_memory_for_its_pixels(tmp_path: Path) -> None:
    limits = {}

    def run(function: Any, file: object, memory_bytes: int, check_stop: CheckStop) -> Any:
        limits[function] = memory_bytes
        return function(file, check_stop)

    workers: Any = SimpleNamespace(run=run)
    reader = Reader(workers, 10_000, Disclosure)
    path = tmp_path / "a.jxl"
    path.write_bytes(without_loss(pictures.saved(pictures.photo(100, 80), "JPEG")) or b"")
    read = await reader.read_upload(path, tuple(Format))
    assert limits[read_file] == memory_limit_bytes(read.info) > MEMORY_WITHOUT_PIXELS + 8000 * 300
    assert reader.read(path, tuple(Format)) == read
    reader.close()


async def test_uploads_that_are_read_end_when_the_service_stops(tmp_path: Path) -> None:
    def run(_function: object, _file: object, _info: object, check_stop: CheckStop) -> None:
        while True:
            check_stop()
            time.sleep(0.01)

    workers: Any = SimpleNamespace(run=run)
    reader = Reader(workers, 1, Disclosure)
    uploads = [asyncio.ensure_future(reader.read_upload(tmp_path / "a.jpg", (Format.JPEG,))) for _ in range(6)]
    await asyncio.sleep(0.05)
    reader.close()
    ended = await asyncio.wait_for(asyncio.gather(*uploads, return_exceptions=True), WAIT_S)
    assert {type(each) for each in ended} == {ServiceStopping}
