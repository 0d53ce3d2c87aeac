"""The report of `process`: a table for people; JSON for programs, with the API's fields of an image and file paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from imgproc_local.api.wire import StatusSet, TranslationBody, job_data, status_word, translation_body
from imgproc_local.cli.output import path_text, printable, size_text, table
from imgproc_local.cli.process.batch import Outcome
from imgproc_local.cli.process.discovery import RejectedFile
from imgproc_local.domain.image import compression_percentage
from imgproc_local.domain.job import Status
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Translation

MAX_SKIPPED_LISTED = 20
"""The most skipped files that are listed for people. The JSON lists all of them."""


class ErrorEntry(Struct, frozen=True):
    """An error of one picture. `stage` is None for an error outside a stage."""

    stage: str | None
    message: str


class ImageEntry(Struct, frozen=True):
    """The API's fields of an image, with the paths of the original and of the written files.

    If the picture was refused and has no job, the fields of the API are null, except `status` and `original_filename`.
    `status` is `skipped` for a file in a folder that is not a picture. `removed` are the kinds of private data that the
    original holds and a result does not; never the data.
    """

    file: str
    id: str | None
    status: str
    original_filename: str
    original_size: int | None
    optimized_size: int | None
    converted_format: Literal["webp", "avif"] | None
    converted_size: int | None
    compression_percentage: int | None
    translations: list[TranslationBody]
    removed: list[Removed] | None
    optimized_file: str | None
    converted_file: str | None
    errors: list[ErrorEntry]


def entries(
    outcomes: Sequence[Outcome], failed: Sequence[RejectedFile], skipped: Sequence[RejectedFile], status_set: StatusSet
) -> list[ImageEntry]:
    """One entry per file: first those with an outcome, then those that failed before, then the skipped ones.

    Of those with an outcome, pictures that need a text come first.
    """
    failed_word = status_word(Status.FAILED, status_set)
    return [
        *(_entry(outcome, status_set) for outcome in _needing_text_first(outcomes)),
        *(_rejected(one, failed_word) for one in failed),
        *(_rejected(one, "skipped") for one in skipped),
    ]


def _entry(outcome: Outcome, status_set: StatusSet) -> ImageEntry:
    failed_word = status_word(Status.FAILED, status_set)
    errors = [ErrorEntry(stage, message) for stage, message in outcome.errors]
    if outcome.job is None:
        return _without_job(outcome.picture, failed_word, errors)
    data = job_data(outcome.job, status_set)
    image = data.image
    return ImageEntry(
        file=path_text(outcome.picture),
        id=image.id,
        status=data.status if outcome.done else failed_word,
        original_filename=image.original_filename,
        original_size=image.original_size,
        optimized_size=image.optimized_size,
        converted_format=image.converted_format,
        converted_size=image.converted_size,
        compression_percentage=image.compression_percentage,
        translations=[translation_body(translation) for translation in outcome.translations],
        removed=list(outcome.job.removed),
        optimized_file=_path(outcome.optimized_file),
        converted_file=_path(outcome.converted_file),
        errors=errors,
    )


def _rejected(one: RejectedFile, status: str) -> ImageEntry:
    return _without_job(one.path, status, [ErrorEntry(None, one.reason)])


def _without_job(picture: Path, status: str, errors: list[ErrorEntry]) -> ImageEntry:
    return ImageEntry(
        file=path_text(picture),
        id=None,
        status=status,
        original_filename=path_text(Path(picture.name)),
        original_size=None,
        optimized_size=None,
        converted_format=None,
        converted_size=None,
        compression_percentage=None,
        translations=[],
        removed=None,
        optimized_file=None,
        converted_file=None,
        errors=errors,
    )


def _path(path: Path | None) -> str | None:
    return None if path is None else path_text(path)


# ---- for people ----

_FORMAT_NAMES = {"webp": "WebP", "avif": "AVIF"}


def summary(outcomes: Sequence[Outcome], converted_to: str, out: Path) -> Iterator[str]:
    """The lines of the table: one row per written picture with its alt texts below, and the totals.

    Pictures that need a text come first.
    """
    written = [outcome for outcome in _needing_text_first(outcomes) if outcome.optimized_file or outcome.converted_file]
    if not written:
        return
    rows = [("FILE", "NEW NAME", "BEFORE", "AFTER", "SAVED", converted_to.upper())]
    rows += [_row(outcome) for outcome in written]
    head, *lines = table(rows, right_aligned=(2, 3, 4, 5))
    yield head
    width = max((len(_label(text)) for outcome in written for text in outcome.translations), default=0)
    for line, outcome in zip(lines, written, strict=True):
        yield line
        for text in outcome.translations:
            yield f"    {_label(text):{width}}  {printable(text.seo_alt_text)}".rstrip()
    optimized = [outcome.job for outcome in written if outcome.job is not None and outcome.job.optimized is not None]
    before = sum(job.original.size_bytes for job in optimized)
    after = sum(job.optimized.size_bytes for job in optimized if job.optimized is not None)
    yield ""
    yield (
        f"{_picture_count(len(written))} written to {printable(path_text(out))}: {size_text(before)} before,"
        f" {size_text(after)} after, {compression_percentage(before, after)} % saved."
    )
    needing = sum(outcome.needs_text for outcome in written)
    if needing:
        need, their, are = ("needs", "its", "It is") if needing == 1 else ("need", "their", "They are")
        yield (
            f"{_picture_count(needing)} {need} an alt text from you: nothing but {their} kind, colours and date is"
            f" known. {are} listed first."
        )
    larger = [
        job
        for job in optimized
        if job.converted and job.optimized and job.converted.size_bytes > job.optimized.size_bytes
    ]
    if larger:
        are, them = ("is", "it") if len(larger) == 1 else ("are", "them")
        yield (
            f"{_picture_count(len(larger))} {are} larger as {_FORMAT_NAMES[converted_to]} than optimized:"
            f" use the optimized file for {them}."
        )


def _needing_text_first(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: not outcome.needs_text)


def _label(text: Translation) -> str:
    return f"{text.language_code} ({'needs text' if text.needs_text else text.source.value})"


def _row(outcome: Outcome) -> tuple[str, str, str, str, str, str]:
    job = outcome.job
    assert job is not None
    before, optimized, converted = job.original.size_bytes, job.optimized, job.converted
    new = outcome.optimized_file or outcome.converted_file
    assert new is not None
    return (
        printable(path_text(outcome.picture)),
        printable(path_text(Path(new.name))),
        size_text(before),
        size_text(optimized.size_bytes) if optimized else "-",
        f"{compression_percentage(before, optimized.size_bytes)} %" if optimized else "-",
        size_text(converted.size_bytes) if converted else "-",
    )


def problems(
    outcomes: Sequence[Outcome], failed: Sequence[RejectedFile], skipped: Sequence[RejectedFile]
) -> Iterator[str]:
    """The lines for failed files with the reason of each, those for skipped files, and how many there are of both."""
    for outcome in outcomes:
        if outcome.interrupted:
            continue
        for stage, message in outcome.errors:
            where = f"{stage}: " if stage else ""
            yield f"Failed: {printable(path_text(outcome.picture))}: {where}{printable(message)}"
    for one in failed:
        yield f"Failed: {printable(path_text(one.path))}: {printable(one.reason)}"
    for one in skipped[:MAX_SKIPPED_LISTED]:
        yield f"Skipped: {printable(path_text(one.path))}: {printable(one.reason)}"
    if len(skipped) > MAX_SKIPPED_LISTED:
        yield f"Skipped: {len(skipped) - MAX_SKIPPED_LISTED} more; --json lists them all."
    failures = len(failed) + sum(bool(outcome.errors) and not outcome.interrupted for outcome in outcomes)
    if failures + len(skipped) > 1:
        yield f"{failures:,} failed, {len(skipped):,} skipped."


def _picture_count(pictures: int) -> str:
    return "1 picture" if pictures == 1 else f"{pictures:,} pictures"
