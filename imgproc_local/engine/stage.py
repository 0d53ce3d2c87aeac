"""What a stage is: a plain blocking function from a frozen `WorkItem` to an `Output`.

The work on pictures runs in other processes (`workers.py`): a WorkItem is pickled, an Output encoded by msgspec, so
that neither holds an open file, a callable or a model. The second argument of a stage is `check_stop`, which it calls
to learn whether the work is still wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import READ_ONLY_FORMATS, Disclosure, Format, ImageInfo, ScaledSize
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import MAX_WIDTHS, Effort, Plan
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Note, RoleSuggestion, Translation

if TYPE_CHECKING:
    from imgproc_local.codecs.picture.source import Picture

CODECS_LANE = "codecs"
VISION_LANE = "vision"


class Options(Struct, frozen=True):
    """The settings that stages read, as they are when a stage begins.

    `target_score` is the SSIMULACRA 2.1 score that results must reach; `disclosure` is what results may say of
    places and persons; `effort` is how much CPU time is spent on smaller files. If `pixel_texts` is False, an alt text
    of source `pixels` is empty.
    """

    target_score: float
    pixel_texts: bool = True
    disclosure: Disclosure = Disclosure()
    effort: Effort = "balanced"


class WorkItem(Struct, frozen=True):
    """The input of a stage for one picture. `original` is the file, which no stage changes.

    `record` is what `read_file` in `pipeline.py` read; without it, a stage reads the file again. `translated` is the
    text that is to be translated; None has the picture described. `bytes_to_beat` is the size of the smallest file that
    there is already.
    """

    original: Path
    info: ImageInfo
    plan: Plan
    original_filename: str
    options: Options
    record: bytes | None = None
    translated: Translation | None = None
    bytes_to_beat: int = 0

    @property
    def result_size(self) -> ScaledSize | None:
        """The size of results; None if the picture is not to be scaled."""
        return self.info.scaled_within(self.plan.max_width_px, self.plan.max_height_px)

    @property
    def must_be_encoded(self) -> bool:
        """Whether the original itself can't be the optimized file."""
        return self.result_size is not None or self.info.format in READ_ONLY_FORMATS

    def picture(self) -> Picture:
        """The header and the record; the file is read only if it was not yet with these options. For workers."""
        from imgproc_local.codecs.metadata.record import unpacked
        from imgproc_local.codecs.picture.source import Picture, read_picture

        record = unpacked(self.record, self.options.disclosure) if self.record else None
        if record is not None:
            return Picture(self.info, record)
        return read_picture(self.original, self.info.format, self.info.pixels, self.options.disclosure)


class SizedOutput(Struct, frozen=True):
    """The file of an `Output` at another width: `data` and `path` are as there."""

    width_px: int
    height_px: int
    data: bytes | None = None
    path: str | None = None


class Output(Struct, frozen=True):
    """What a stage made: texts, a file in `format`, or nothing but `keeps_original`.

    A function in a worker process returns the file as `data`; the caller of the worker receives it as a temporary file
    at `path`. `keeps_original` says that the original itself is the result, because nothing smaller was found.
    `removed` are the kinds of private data that the original holds and the result does not, sorted. `suggestion` is the
    role that the picture seems to have. `score` is that of a lossy file against the original, None if it was not
    measured. `notes` say what the file could not carry, or why it was not kept. `variants` are those at other
    widths.
    """

    texts: tuple[Translation, ...] = ()
    suggestion: RoleSuggestion | None = None
    data: bytes | None = None
    path: str | None = None
    format: Format | None = None
    keeps_original: bool = False
    removed: tuple[Removed, ...] = ()
    score: float | None = None
    notes: tuple[Note, ...] = ()
    variants: Annotated[tuple[SizedOutput, ...], Meta(max_length=MAX_WIDTHS)] = ()

    @property
    def paths(self) -> list[Path]:
        """Its files, the variants last. The caller of a worker deletes them."""
        return [Path(path) for path in (self.path, *(each.path for each in self.variants)) if path is not None]


class Stage(Struct, frozen=True):
    """A stage of the pipeline: its name, the lane that it runs in, and its function.

    `run` is called on a thread of the lane. It raises `StageFailed` or `BadImage` with a message for people.
    """

    name: StageName
    lane: str
    run: Callable[[WorkItem, CheckStop], Output]
