"""What every describer is: it looks at one picture and writes a file name and an alt text per language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from imgproc_local.domain.image import Embedded, ImageInfo, Pixels
from imgproc_local.domain.result import Translation


class Hints(Struct, frozen=True):
    """What is known of a picture besides its pixels. `may_use_gps` is a setting, off by default."""

    info: ImageInfo
    embedded: Embedded
    original_filename: str = ""
    project_name: str = ""
    may_use_gps: bool = False


class Describer(Protocol):
    """A blocking call, made on the vision lane's one thread.

    `describe` returns exactly one translation per requested language code, in order. It calls `check_stop` between
    longer steps, which raises `StageFailed` when the deadline passed or the job was cancelled. `close` gives back
    what it holds, when nothing is described any more.
    """

    def describe(
        self, image: Pixels, languages: Sequence[str], hints: Hints, check_stop: Callable[[], None]
    ) -> tuple[Translation, ...]: ...

    def close(self) -> None: ...
