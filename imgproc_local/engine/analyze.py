"""Analyze: the scaled-down picture and the words in its metadata are read, then described.

Reading is a function of `WorkItem` alone and can run in another process. Describing needs the vision model, which is
loaded once and stays in the process of the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from msgspec import Struct

from imgproc_local.domain.image import Embedded, Pixels
from imgproc_local.domain.job import StageName
from imgproc_local.engine.stage import VISION_LANE, CheckStop, Output, Stage, WorkItem
from imgproc_local.vision.describer import Describer, Hints

SAMPLE_SIDE_PX = 1024
"""Longest side of the picture that describers are given. Source: the size that vision models were measured with."""


class Content(Struct, frozen=True):
    """What a describer is given of a picture: its pixels, and the words of its metadata."""

    pixels: Pixels
    embedded: Embedded


def read(work: WorkItem, check_stop: CheckStop) -> Content:
    """Decode the picture, scaled down, and read its metadata."""
    from imgproc_local.codecs import decode
    from imgproc_local.codecs.embedded import read_embedded

    pixels = decode.sample(work.original, work.info, SAMPLE_SIDE_PX, check_stop)
    check_stop()
    return Content(pixels, read_embedded(work.original, work.info, work.options.keep_location))


class Analyzer:
    """Holds the describer, which is made when the first picture is analyzed, on the vision lane's one thread."""

    def __init__(self, make_describer: Callable[[], Describer]) -> None:
        self._make_describer = make_describer

    @property
    def stage(self) -> Stage:
        return Stage(StageName.ANALYZE, VISION_LANE, self.run)

    @cached_property
    def _describer(self) -> Describer:
        return self._make_describer()

    def run(self, work: WorkItem, check_stop: CheckStop) -> Output:
        """One text per language of `work`."""
        content = read(work, check_stop)
        hints = Hints(
            info=work.info,
            embedded=content.embedded,
            original_filename=work.original_filename,
            project_name=work.project_name,
            may_use_gps=work.options.may_use_gps,
        )
        return Output(texts=self._describer.describe(content.pixels, work.languages, hints, check_stop))

    def close(self) -> None:
        """Release what the describer holds, such as a loaded model. Call it after the engine has stopped."""
        if "_describer" in vars(self):
            self._describer.close()
