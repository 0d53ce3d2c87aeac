"""What one request asks for, validated: stages, languages and format; and what its stages cost."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from imgproc_local.domain.image import Format
from imgproc_local.domain.job import StageName


class Operation(StrEnum):
    ANALYZE = "analyze"
    OPTIMIZE = "optimize"
    CONVERT = "convert"
    PROCESS = "process"


STAGES: dict[Operation, tuple[StageName, ...]] = {
    Operation.ANALYZE: (StageName.ANALYZE,),
    Operation.OPTIMIZE: (StageName.OPTIMIZE,),
    Operation.CONVERT: (StageName.CONVERT,),
    Operation.PROCESS: (StageName.ANALYZE, StageName.OPTIMIZE, StageName.CONVERT),
}

ACCEPTED: dict[Operation, tuple[Format, ...]] = {
    Operation.ANALYZE: (Format.JPEG, Format.PNG, Format.GIF, Format.WEBP),
    Operation.OPTIMIZE: (Format.JPEG, Format.PNG, Format.GIF, Format.WEBP, Format.AVIF),
    Operation.CONVERT: (Format.JPEG, Format.PNG),
    Operation.PROCESS: (Format.JPEG, Format.PNG, Format.GIF, Format.WEBP),
}

CONVERT_TARGETS = (Format.WEBP, Format.AVIF)
MAX_LANGUAGES = 10
DEFAULT_LANGUAGES = ("en",)
DEFAULT_PROJECT_NAME = "API Uploads"


class Plan(Struct, frozen=True):
    """`project_id` is of an existing project; where it is None the project named `project_name` is used or created."""

    operation: Operation
    languages: tuple[str, ...] = DEFAULT_LANGUAGES
    format: Format = Format.WEBP
    project_id: str | None = None
    project_name: str = DEFAULT_PROJECT_NAME


class Prices(Struct, frozen=True):
    """Credits per stage; analyze is per language. Source: api/README.md, "Credits"."""

    analyze: int = 1
    optimize: int = 1
    convert: int = 1


class Affordability(Struct, frozen=True):
    """Whether a balance covers a batch, in credits. `shortfall` is 0 where it does."""

    can_afford: bool
    required: int
    balance: int
    shortfall: int
