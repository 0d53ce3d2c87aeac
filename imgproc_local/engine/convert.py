"""Convert: the picture in WebP or AVIF."""

from __future__ import annotations

from imgproc_local.domain.image import Format
from imgproc_local.domain.job import StageName
from imgproc_local.domain.result import ConvertResult
from imgproc_local.engine.stage import CODECS_LANE, Work


class Convert:
    name = StageName.CONVERT
    lane = CODECS_LANE

    def __init__(self, target: float) -> None:
        self._target = target

    def run(self, work: Work) -> ConvertResult:
        from imgproc_local.codecs import avif, webp

        convert = {Format.WEBP: webp.convert, Format.AVIF: avif.convert}[work.convert_to]
        return ConvertResult(convert(work.original, work.info, work.stop.check, self._target), work.convert_to)
