"""The analyze stage: reads a thumbnail and the metadata of the picture, and has the describer write the alt texts.

Reading is a function of `WorkItem` alone and can run in another process. Describing needs the vision model, which is
loaded once and stays in the process of the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from msgspec import Struct

from imgproc_local.domain.image import EmbeddedMetadata, Pixels
from imgproc_local.domain.job import StageName
from imgproc_local.engine.stage import VISION_LANE, CheckStop, Output, Stage, WorkItem
from imgproc_local.vision.describer import Describer, Hints

THUMBNAIL_SIDE_PX = 1024
"""Maximum side of the thumbnail for the describer. Source: the size at which the vision models were evaluated."""


class DescriberInput(Struct, frozen=True):
    """What the describer receives: the thumbnail, and the texts embedded in the metadata."""

    pixels: Pixels
    embedded: EmbeddedMetadata


def read(work: WorkItem, check_stop: CheckStop) -> DescriberInput:
    """Decode a thumbnail of the picture, and read its metadata."""
    from imgproc_local.codecs.embedded import read_embedded
    from imgproc_local.codecs.picture import decode

    pixels = decode.thumbnail(work.original, work.info, THUMBNAIL_SIDE_PX, check_stop)
    check_stop()
    return DescriberInput(pixels, read_embedded(work.original, work.info, work.options.keep_location))


class Analyzer:
    """Runs the analyze stage. The describer is created for the first picture, on the vision lane's single thread."""

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
        received = read(work, check_stop)
        hints = Hints(
            info=work.info,
            embedded=received.embedded,
            original_filename=work.original_filename,
            project_name=work.project_name,
            may_use_gps=work.options.may_use_gps,
        )
        return Output(texts=self._describer.describe(received.pixels, work.languages, hints, check_stop))

    def close(self) -> None:
        """Release what the describer holds, such as a loaded model. Call it after the engine has stopped."""
        if "_describer" in vars(self):
            self._describer.close()
