"""Optimize: a smaller file of the same format that looks the same, or the original where there is none.

Where an outside service is configured it is asked first, for the pictures that may go out. Its result is taken only
as the same picture; otherwise the local codecs do the work, unless the settings forbid that.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from imgproc_local.domain.errors import OutsideServiceFailed
from imgproc_local.domain.image import TRAITS, Format
from imgproc_local.domain.job import StageName
from imgproc_local.domain.result import OptimizeResult
from imgproc_local.engine.stage import CODECS_LANE, Work

if TYPE_CHECKING:
    from imgproc_local.remote.tinify import Tinify

log = logging.getLogger(__name__)


class Optimize:
    """`target` is the score that the local codecs aim at; `fallback` lets them take over where `service` fails."""

    name = StageName.OPTIMIZE
    lane = CODECS_LANE

    def __init__(self, target: float, service: Tinify | None = None, *, fallback: bool = True) -> None:
        self._target = target
        self._service = service
        self._fallback = fallback

    def run(self, work: Work) -> OptimizeResult:
        if self._service is None:
            return OptimizeResult(self._optimized_here(work))
        from imgproc_local.codecs import external

        picture = external.sendable(work.original, work.info)
        if picture is None:
            return OptimizeResult(self._optimized_here(work))
        try:
            data = self._optimized_outside(self._service, picture, work)
        except OutsideServiceFailed as failure:
            if not self._fallback:
                raise
            log.warning("a picture is optimized by the local codecs instead: %s", failure.message)
            data = None
        if data is None and self._fallback:
            data = self._optimized_here(work)
        return OptimizeResult(data)

    def _optimized_outside(self, service: Tinify, picture: bytes, work: Work) -> bytes | None:
        """The service's result, made fit; None where it found nothing smaller. Raises: OutsideServiceFailed."""
        from imgproc_local.codecs import external

        result = service.shrink(picture, TRAITS[work.info.format].mime, len(picture), work.stop.check)
        return None if result is None else external.adopt(work.original, work.info, result, work.stop.check)

    def _optimized_here(self, work: Work) -> bytes | None:
        from imgproc_local.codecs import avif, gif, webp
        from imgproc_local.codecs.jpeg import optimize as jpeg
        from imgproc_local.codecs.png import optimize as png

        if work.info.format is Format.GIF:
            return gif.optimize(work.original, work.info, work.stop.check)
        by_score = {
            Format.JPEG: jpeg.optimize,
            Format.PNG: png.optimize,
            Format.WEBP: webp.optimize,
            Format.AVIF: avif.optimize,
        }
        return by_score[work.info.format](work.original, work.info, work.stop.check, self._target)
