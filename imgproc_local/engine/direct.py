"""Runs the stages of one picture one after the other, without a job: for `archive`, which has no data folder."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Container
from pathlib import Path

from msgspec import Struct

from imgproc_local.domain.errors import BadImage, StageFailed, StorageFailed
from imgproc_local.domain.filename import original_name
from imgproc_local.domain.image import ImageInfo
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import STAGES, Plan
from imgproc_local.engine.stage import (
    CancellationToken,
    Options,
    Output,
    Stage,
    WorkItem,
    stage_error_message,
)
from imgproc_local.engine.workers import Workers

log = logging.getLogger(__name__)


class DirectStages(Struct, frozen=True):
    """The pipeline, and the worker processes that its stages run in. One thread at a time may use it."""

    stages: tuple[Stage, ...]
    options: Options
    workers: Workers
    timeout_s: float


class StageResult(Struct, frozen=True):
    """The output of a stage for a picture; if it is None, `error` says why. The caller deletes the output's file.

    `duration_s` is the time that passed.
    """

    stage: StageName
    output: Output | None
    error: str
    duration_s: float


def run_stages(
    direct: DirectStages, plan: Plan, file: Path, name: str, info: ImageInfo, wanted: Container[StageName]
) -> list[StageResult]:
    """The results of the `wanted` stages of `plan` for a picture that was called `name`, in the order of the pipeline.

    Raises: StorageFailed, if temporary files can't be written, for example to a full disk.
    """
    work = WorkItem(
        path=os.fsencode(file),
        size_bytes=file.stat().st_size,
        info=info,
        plan=plan,
        original_filename=original_name(name, default=f"image.{info.format.value}"),
        options=direct.options,
    )
    stages = [stage for stage in direct.stages if stage.name in STAGES[plan.operation] and stage.name in wanted]
    return [_result(stage, work, direct.timeout_s) for stage in stages]


def _result(stage: Stage, work: WorkItem, timeout_s: float) -> StageResult:
    token = CancellationToken(timeout_s)
    began_s = time.monotonic()
    output, message = None, ""
    try:
        output = stage.run(work, token.check)
    except StorageFailed:
        raise
    except Exception as error:
        if not isinstance(error, (StageFailed, BadImage)):
            log.error("Stage %s of %s failed", stage.name, work.original_filename, exc_info=error)
        message = stage_error_message(error)
    return StageResult(stage.name, output, message, time.monotonic() - began_s)
