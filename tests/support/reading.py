"""Pictures of tests, read as a worker process reads uploads, and results made of them with their record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imgproc_local.codecs import external, files
from imgproc_local.codecs.metadata.record import embedded
from imgproc_local.codecs.picture.formats import EVERY_FORMAT, detect, head_of
from imgproc_local.codecs.picture.source import Picture, read_picture
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Disclosure, EmbeddedMetadata, Format, ImageInfo
from imgproc_local.domain.privacy import Removed
from imgproc_local.engine.pipeline import Reader

MAX_PIXELS = 10**10
BY_DEFAULT = Disclosure()


def picture(
    path: Path,
    max_pixels: int = MAX_PIXELS,
    accepted: Sequence[Format] = EVERY_FORMAT,
    disclosure: Disclosure = BY_DEFAULT,
) -> Picture:
    """What a file says."""
    return read_picture(path, detect(head_of(path), accepted), max_pixels, disclosure)


class _WorkersHere:
    """Call functions in this process, in place of `Workers`."""

    def run(self, function: Any, argument: Any, memory_bytes: int, check_stop: CheckStop) -> Any:
        return function(argument, check_stop)


def reader_here(max_pixels: int = MAX_PIXELS) -> Reader:
    """A reader without worker processes."""
    workers: Any = _WorkersHere()
    return Reader(workers, max_pixels, Disclosure)


def probe(path: Path, max_pixels: int = MAX_PIXELS, accepted: Sequence[Format] = EVERY_FORMAT) -> ImageInfo:
    """The properties in the header of a file."""
    return picture(path, max_pixels, accepted).info


def read_embedded(path: Path, info: ImageInfo, disclosure: Disclosure = BY_DEFAULT) -> EmbeddedMetadata:
    """The words of a file."""
    return embedded(picture(path, disclosure=disclosure).record, disclosure.name_people)


def private_kinds(path: Path, info: ImageInfo, disclosure: Disclosure = BY_DEFAULT) -> tuple[Removed, ...]:
    """The kinds of private data in a file, sorted."""
    return tuple(sorted(picture(path, disclosure=disclosure).record.removed))


def _with_record(make: Any) -> Any:
    """A function of the codecs that takes a file's `ImageInfo` in place of its `Picture`, and reads the record."""

    def made(path: Path, info: ImageInfo, *args: Any, disclosure: Disclosure = BY_DEFAULT, **kw: Any) -> Any:
        return make(path, Picture(info, picture(path, disclosure=disclosure).record), *args, **kw)

    return made


def optimize_file(*args: Any, **kw: Any) -> Any:
    """The bytes of the optimized file, None if there is none."""
    made = _with_record(files.optimize_file)(*args, **kw)
    return made and made.data


def encode_file(*args: Any, **kw: Any) -> tuple[Any, Format]:
    """The bytes of the file, and its format."""
    made = _with_record(files.encode_file)(*args, **kw)
    return made.data, made.format


def convert_file(*args: Any, **kw: Any) -> Any:
    """The bytes of the converted file."""
    return _with_record(files.convert_file)(*args, **kw).data


file_to_send = _with_record(external.file_to_send)
checked_result = _with_record(external.checked_result)
