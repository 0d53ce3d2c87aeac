"""Analyze: the picture, scaled down, and all it says of itself go to the describer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from imgproc_local.domain.job import StageName
from imgproc_local.domain.result import AnalyzeResult
from imgproc_local.engine.stage import VISION_LANE, Work
from imgproc_local.vision.describer import Describer, Hints

SAMPLE_SIDE_PX = 1024
"""Longest side that describers look at. Source: what vision models were measured with."""


class Analyze:
    name = StageName.ANALYZE
    lane = VISION_LANE

    def __init__(self, make_describer: Callable[[], Describer], use_gps: bool) -> None:
        self._make_describer = make_describer
        self._use_gps = use_gps

    @cached_property
    def _describer(self) -> Describer:
        """Made on the vision lane's one thread, when the first picture comes."""
        return self._make_describer()

    def close(self) -> None:
        """Gives back what the describer holds, a model for instance. After the engine has stopped."""
        if "_describer" in vars(self):
            self._describer.close()

    def run(self, work: Work) -> AnalyzeResult:
        from imgproc_local.codecs import decode
        from imgproc_local.codecs.metadata import strip as metadata

        pixels = decode.sample(work.original, work.info, SAMPLE_SIDE_PX, work.stop.check)
        work.stop.check()
        hints = Hints(
            info=work.info,
            embedded=metadata.read_embedded(work.original, work.info),
            original_filename=work.original_filename,
            project_name=work.project_name,
            may_use_gps=self._use_gps,
        )
        return AnalyzeResult(self._describer.describe(pixels, work.languages, hints, work.stop.check))
