"""Optimize: a smaller file of the same format that looks the same, or the original where there is none."""

from __future__ import annotations

from imgproc_local.domain.image import Format
from imgproc_local.domain.job import StageName
from imgproc_local.domain.result import OptimizeResult
from imgproc_local.engine.stage import CODECS_LANE, Work


class Optimize:
    name = StageName.OPTIMIZE
    lane = CODECS_LANE

    def run(self, work: Work) -> OptimizeResult:
        from imgproc_local.codecs import avif, gif, jpeg, png, webp

        optimize = {
            Format.JPEG: jpeg.optimize,
            Format.PNG: png.optimize,
            Format.GIF: gif.optimize,
            Format.WEBP: webp.optimize,
            Format.AVIF: avif.optimize,
        }[work.info.format]
        return OptimizeResult(optimize(work.original, work.info, work.stop.check))
