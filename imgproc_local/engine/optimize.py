"""Optimize: a smaller file of the same format and appearance, or the original where there is none.

Where an outside compression service is configured it is asked first, for the pictures that may be sent out. Its result
is accepted only as the same picture; otherwise the local codecs do the work, unless the settings forbid that.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from imgproc_local.domain.errors import ExternalServiceFailed
from imgproc_local.domain.job import StageName
from imgproc_local.engine.stage import CODECS_LANE, CheckStop, Output, Stage, WorkItem

if TYPE_CHECKING:
    from imgproc_local.remote.tinify import Tinify

log = logging.getLogger(__name__)


def run(work: WorkItem, check_stop: CheckStop) -> Output:
    """The picture optimized by the local codecs."""
    from imgproc_local.codecs.optimize import optimize_file

    options = work.options
    data = optimize_file(
        work.original, work.info, check_stop, options.target_score, options.keep_location, options.effort
    )
    return _smaller(work, data)


def run_with_service(service: Tinify, fallback: bool, work: WorkItem, check_stop: CheckStop) -> Output:
    """The picture optimized by `service`; `fallback` lets the local codecs do it where the service fails.

    Raises: ExternalServiceFailed, without `fallback`.
    """
    from imgproc_local.codecs import external

    picture = external.file_to_send(work.original, work.info)
    if picture is None:
        return run(work, check_stop)
    try:
        data = _optimized_by(service, picture, work, check_stop)
    except ExternalServiceFailed as failure:
        if not fallback:
            raise
        log.warning("Optimizing with the local codecs instead of the compression service: %s", failure.message)
        data = None
    if data is None and fallback:
        return run(work, check_stop)
    return _smaller(work, data)


def stage(service: Tinify | None = None, *, fallback: bool = True) -> Stage:
    """The stage that uses `service`, or the local codecs alone without one."""
    with_service = run if service is None else partial(run_with_service, service, fallback)
    return Stage(StageName.OPTIMIZE, CODECS_LANE, with_service)


def _smaller(work: WorkItem, data: bytes | None) -> Output:
    """`data` as the result where it is smaller than the original."""
    if data is None or len(data) >= work.size_bytes:
        return Output(keeps_original=True)
    return Output(data=data, format=work.info.format)


def _optimized_by(service: Tinify, picture: bytes, work: WorkItem, check_stop: CheckStop) -> bytes | None:
    """The service's result with the metadata of `work`; None where it is not smaller. Raises: ExternalServiceFailed."""
    from imgproc_local.codecs import external
    from imgproc_local.codecs.picture.formats import FORMATS

    result = service.shrink(picture, FORMATS[work.info.format].mime, len(picture), check_stop)
    return (
        None
        if result is None
        else external.checked_result(work.original, work.info, result, check_stop, work.options.keep_location)
    )
