"""What one request asks for, after validation, the quality of results, and the price of stages in credits."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from imgproc_local.domain.image import READ_ONLY_FORMATS, ConvertTarget, Format, ImageInfo, ScaledSize
from imgproc_local.domain.job import StageName


class Operation(StrEnum):
    """The operations that a client can request. `PROCESS` is the other three together."""

    ANALYZE = "analyze"
    OPTIMIZE = "optimize"
    CONVERT = "convert"
    PROCESS = "process"


class Role(StrEnum):
    """What a picture is for, on the page that shows it. Source: W3C WAI, "An alt Decision Tree".

    The alt text of an `INFORMATIVE` picture describes it, that of a `DECORATIVE` one is empty, and that of a `LINK` or
    `BUTTON` says where it leads or what it does.
    """

    INFORMATIVE = "informative"
    DECORATIVE = "decorative"
    LINK = "link"
    BUTTON = "button"


STAGES = {Operation(stage): (stage,) for stage in StageName} | {Operation.PROCESS: tuple(StageName)}
"""The stages of each operation: the one of the same name, or all."""

ACCEPTED_FORMATS: dict[Operation, tuple[Format, ...]] = {
    Operation.ANALYZE: (Format.JPEG, Format.PNG, Format.GIF, Format.WEBP),
    Operation.OPTIMIZE: (Format.JPEG, Format.PNG, Format.GIF, Format.WEBP, Format.AVIF),
    Operation.CONVERT: (Format.JPEG, Format.PNG),
    Operation.PROCESS: (Format.JPEG, Format.PNG, Format.GIF, Format.WEBP),
}
"""The formats of uploads that each operation accepts. By the published interface, `process` also converts a GIF and a
WebP, which `convert` alone refuses.
"""

ACCEPTED_LOCALLY = {
    operation: tuple(dict.fromkeys((*formats, Format.AVIF, *READ_ONLY_FORMATS)))
    for operation, formats in ACCEPTED_FORMATS.items()
}
"""The formats of pictures from the command line and the local page."""

TIFF_SIZE_FACTOR = 32
"""A TIFF may have this many times the bytes of other pictures (by default 800 MB), because TIFFs are often not
compressed: 60 megapixels of RGB with 16 bits per sample take 360 MB.
"""

MAX_WIDTHS = 8
MAX_LANGUAGES = 10
MAX_CONTEXT_CHARS = 500
MAX_FOLDER_CHARS = 1000
MAX_SIDE_PX = 65_535
"""The largest value of `max_width_px` and `max_height_px`: the longest side that JPEG and GIF can store."""
WIDTHS_EXPECTED = f"at most {MAX_WIDTHS} integers from 1 to {MAX_SIDE_PX}, separated by commas"

DEFAULT_LANGUAGES = ("en",)
DEFAULT_PROJECT_NAME = "API Uploads"


# ---- quality ----
#
# SSIMULACRA 2.1 scores a result against the original: 100 means identical, 90 means indistinguishable even when the two
# are shown alternately in the same place, 70 means high quality. Source: the scale published with SSIMULACRA 2.

TargetName = Literal["visually-lossless", "web", "small"]
TARGETS: dict[TargetName, float] = {"visually-lossless": 90.0, "web": 85.0, "small": 75.0}
"""The score for each name that the setting `quality_target` accepts."""

LOWEST_TARGET, HIGHEST_TARGET = 50.0, 95.0
"""The range of target scores: below 50 artefacts are obvious, and few encoders reach a score above 95."""

Quality = TargetName | Annotated[float, Meta(ge=LOWEST_TARGET, le=HIGHEST_TARGET)]
"""A value of the setting `quality_target`."""

Effort = Literal["fast", "balanced", "best"]
"""How much CPU time is spent on a smaller file at the same score. `best` is for pictures that are served very often."""


def target_score(target: Quality) -> float:
    """The score for `target`, which is a name in `TARGETS` or the score itself."""
    return TARGETS[target] if isinstance(target, str) else float(target)


# ---- requests ----


class Plan(Struct, frozen=True):
    """One validated request. `languages` are ISO 639-1 codes; `format` is the target of the conversion.

    `project_id` is the identifier of an existing project. If it is None, the project named `project_name` is used, or
    created if the account has none of that name. `context` is what the client says about the page that the picture is
    for, at most `MAX_CONTEXT_CHARS`; it is deleted when the texts have been written.

    Results are scaled down to fit inside `max_width_px` and `max_height_px`; None is no limit. `role` is what the
    picture is for on that page. `folder` is where the upload was on the sender's disk, its parts joined by slashes.
    `quality_target` replaces that of the service. With `only_smaller`, a converted file is kept only if it is smaller
    than the optimized one or, where there is none, than the upload. The picture is also converted at each of `widths`,
    which are sorted, that is smaller than its own.
    """

    operation: Operation
    languages: tuple[str, ...] = DEFAULT_LANGUAGES
    format: Format = Format.WEBP
    project_id: str | None = None
    project_name: str = DEFAULT_PROJECT_NAME
    context: str = ""
    max_width_px: int | None = None
    max_height_px: int | None = None
    role: Role = Role.INFORMATIVE
    folder: str = ""
    quality_target: Quality | None = None
    only_smaller: bool = False
    widths: tuple[int, ...] = ()

    def variant_sizes(self, info: ImageInfo) -> list[ScaledSize]:
        """The sizes at those of the widths that are smaller than that of the converted file, the largest first."""
        scaled = info.scaled_within(self.max_width_px, self.max_height_px)
        width_px = scaled.width_px if scaled else info.display_size_px[0]
        sizes = (info.scaled_within(each, None) for each in reversed(self.widths) if each < width_px)
        return [size for size in sizes if size is not None]

    @property
    def hashed(self) -> dict[str, Any]:
        """The fields for a hash of the plan, without those that 0.1.0 did not know and that have their defaults: a plan
        that asks for nothing new has the hash that an earlier release stored.
        """
        added = {"role": Role.INFORMATIVE, "folder": "", "quality_target": None, "only_smaller": False, "widths": ()}
        return {name: value for name, value in asdict(self).items() if (name, value) not in added.items()}


_WIDTHS = re.compile(r"\s*[0-9]{1,5}\s*(,\s*[0-9]{1,5}\s*)*")


def parse_widths(text: str) -> tuple[int, ...]:
    """The widths in `text`, separated by commas, sorted and once each. Raises: ValueError, with words for people."""
    widths = sorted({int(item) for item in text.split(",")}) if _WIDTHS.fullmatch(text) else []
    if not widths or widths[0] < 1 or widths[-1] > MAX_SIDE_PX or len(widths) > MAX_WIDTHS:
        raise ValueError(f"widths must be {WIDTHS_EXPECTED}; received {text[:60]!r}.")
    return tuple(widths)


# ---- results made anew: what `POST /images/remake` asks for ----

MAX_ITEMS = 10_000
"""The items of one request that changes many texts or images."""

_Limit = Annotated[int, Meta(ge=1, le=MAX_SIDE_PX)] | UnsetType | None


class RemakeItem(Struct, frozen=True, forbid_unknown_fields=True):
    image_id: str


class RemakeOptions(Struct, frozen=True, kw_only=True):
    """What is not set stays as it is. A limit of None is none, a quality of None that of the service."""

    format: ConvertTarget | UnsetType = UNSET
    max_width_px: _Limit = UNSET
    max_height_px: _Limit = UNSET
    quality_target: Quality | UnsetType | None = UNSET

    @property
    def changes(self) -> dict[str, Any]:
        """The options that are set, by name."""
        names = RemakeOptions.__struct_fields__
        return {name: value for name in names if (value := getattr(self, name)) is not UNSET}


class Remake(RemakeOptions, frozen=True, forbid_unknown_fields=True):
    """The options that change, and the images whose results are made anew."""

    images: Annotated[tuple[RemakeItem, ...], Meta(min_length=1, max_length=MAX_ITEMS)]

    @property
    def stages(self) -> tuple[StageName, ...]:
        """The stages whose results are made anew, where a job has them. The format is that of the converted file."""
        return (StageName.CONVERT,) if self.changes.keys() == {"format"} else (StageName.OPTIMIZE, StageName.CONVERT)


# ---- prices ----


class Prices(Struct, frozen=True):
    """The price of each stage in credits; `analyze` is per language. Source: api/README.md, "Credits"."""

    analyze: int = 1
    optimize: int = 1
    convert: int = 1

    def of(self, stage: StageName, languages: int, role: str = Role.INFORMATIVE, variants: int = 0) -> int:
        """What a stage of one picture costs that writes its texts in so many languages, and converts it at so many
        further widths. Empty texts cost nothing.
        """
        match stage:
            case StageName.ANALYZE:
                return 0 if role == Role.DECORATIVE else self.analyze * languages
            case StageName.OPTIMIZE:
                return self.optimize
            case StageName.CONVERT:
                return self.convert * (1 + variants)

    def affordability(self, images: int, languages: int, balance: int) -> Affordability:
        """Whether `balance` covers the full pipeline for `images` pictures in `languages` languages each."""
        required = images * sum(self.of(stage, languages) for stage in StageName)
        shortfall = max(0, required - balance)
        return Affordability(can_afford=shortfall == 0, required=required, balance=balance, shortfall=shortfall)


class Affordability(Struct, frozen=True):
    """Whether a balance covers the price of several images, in credits. `shortfall` is 0 if it does."""

    can_afford: bool
    required: int
    balance: int
    shortfall: int
