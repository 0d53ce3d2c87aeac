"""The functions that make files in worker processes: optimize, convert, and alt texts written into a result.

Optimize makes a smaller file of the same format and appearance, or returns the original if there is none.

If the original holds private data, the result is the cleaned file, even if that is not smaller, unless none of the data
could be removed. The kinds of data that were removed are part of the output.

A picture that is scaled down is always encoded again: the result has the requested width and height, even in the rare
case that it takes more bytes than the original. A TIFF, JPEG XL or HEIC always becomes a JPEG or PNG.

An outside compression service, if configured, is asked first, except for pictures that must be encoded again, that have
a quality of their own, which no such service can be told, or that may not be sent. If it fails, sends a different
picture or none that is smaller, the local codecs do the work, and the log says why. Worker processes read and write the
pictures; the process of the engine sends them to the service.
"""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.domain.errors import CheckStop, ExternalServiceFailed, StageFailed
from imgproc_local.domain.image import EVERYTHING, Format, ImageInfo
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import target_score
from imgproc_local.domain.result import Note, Translation, Words
from imgproc_local.engine.pipeline import CancellationToken, FileToRead, memory_to_read
from imgproc_local.engine.stage import CODECS_LANE, Output, SizedOutput, Stage, WorkItem
from imgproc_local.engine.workers import MEMORY_WITHOUT_PIXELS, Workers, memory_limit_bytes

if TYPE_CHECKING:
    from imgproc_local.codecs.files import Encoded
    from imgproc_local.codecs.picture.source import Picture, ResultOptions
    from imgproc_local.remote import Tinify

log = logging.getLogger(__name__)


def optimize(work: WorkItem, check_stop: CheckStop) -> Output:
    """The picture optimized by the local codecs. Runs in a worker."""
    from imgproc_local.codecs.files import encode_file, optimize_file

    picture, options = work.picture(), _result_options(work)
    if work.must_be_encoded:
        return _output(encode_file(work.original, picture, check_stop, options, work.result_size), picture)
    optimized = optimize_file(work.original, picture, check_stop, options)
    if optimized is not None:
        return _output(optimized, picture)
    if picture.record.removed:
        removed = ", ".join(sorted(picture.record.removed))
        log.warning("The picture holds private data that could not be removed: %s", removed)
    return Output(keeps_original=True)


def convert(work: WorkItem, check_stop: CheckStop) -> Output:
    """The picture in the format `work.plan.format`, at the target score. Runs in a worker.

    There is no file if it had to be smaller than another one, and is not.
    """
    from imgproc_local.codecs.files import convert_file

    picture, options = work.picture(), _result_options(work)
    sizes = work.plan.variant_sizes(work.info)
    made = convert_file(work.original, picture, work.plan.format, check_stop, options, work.result_size, sizes)
    if work.plan.only_smaller and len(made.data) >= work.bytes_to_beat:
        return Output(notes=(Note.NOT_SMALLER,))
    found = zip(sizes, made.variants, strict=True)
    variants = tuple(SizedOutput(size.width_px, size.height_px, data) for size, data in found)
    return replace(_output(made, picture), variants=variants)


def _output(made: Encoded, picture: Picture) -> Output:
    """What a stage returns of a file that was made of `picture`."""
    removed = tuple(sorted(picture.record.removed))
    return Output(data=made.data, format=made.format, removed=removed, score=made.score, notes=made.notes)


def _result_options(work: WorkItem) -> ResultOptions:
    from imgproc_local.codecs.picture.source import ResultOptions

    requested = work.plan.quality_target
    target = work.options.target_score if requested is None else target_score(requested)
    return ResultOptions(target, work.options.effort)


def jpeg_of(jxl: Path, check_stop: CheckStop) -> Output:
    """The JPEG that a JPEG XL was made of without loss; an output without a file if there is none. Runs in a worker.

    Raises: BrokenImage.
    """
    from imgproc_local.codecs.picture import other_decoders

    check_stop()
    return Output(data=other_decoders.jpeg_of(jxl.read_bytes()), format=Format.JPEG)


# ---- the outside service ----


class _ServiceResult(Struct, frozen=True):
    """A file that the outside service sent for the picture of `work`."""

    work: WorkItem
    data: bytes


def file_to_send(work: WorkItem, check_stop: CheckStop) -> Output:
    """The file to send to the service; an output without a file if the picture may not be sent. Runs in a worker."""
    from imgproc_local.codecs import external

    check_stop()
    return Output(data=external.file_to_send(work.original, work.picture()), format=work.info.format)


def checked_result(received: _ServiceResult, check_stop: CheckStop) -> Output:
    """The service's result with the metadata of the original; the original if that is not smaller. Runs in a worker.

    Raises: ExternalServiceFailed.
    """
    from imgproc_local.codecs import external

    work, picture = received.work, received.work.picture()
    data = external.checked_result(work.original, picture, received.data, check_stop)
    if data is None:
        return Output(keeps_original=True)
    return Output(data=data, format=work.info.format, removed=tuple(sorted(picture.record.removed)))


# ---- the stages ----


def optimize_stage(workers: Workers, service: Tinify | None = None) -> Stage:
    """The stage, with the local codecs and, if it is given, the compression service."""

    def run(work: WorkItem, check_stop: CheckStop) -> Output:
        by_service = None
        if service is not None and not work.must_be_encoded and work.plan.quality_target is None:
            by_service = _optimized_by(service, workers, work, check_stop)
        return by_service or workers.run(optimize, work, memory_limit_bytes(work.info), check_stop)

    return Stage(StageName.OPTIMIZE, CODECS_LANE, run)


def _optimized_by(service: Tinify, workers: Workers, work: WorkItem, check_stop: CheckStop) -> Output | None:
    """The picture optimized by `service`; None if it may not be sent, or the service makes no smaller file."""
    from imgproc_local.codecs.picture.formats import FORMATS

    to_send = workers.run(file_to_send, work, memory_limit_bytes(work.info), check_stop)
    if to_send.path is None:
        return None
    file = Path(to_send.path)
    try:
        result = service.shrink(file.read_bytes(), FORMATS[work.info.format].mime, check_stop)
        if result is None:
            return None
        received = _ServiceResult(work, result)
        output = workers.run(checked_result, received, memory_limit_bytes(work.info), check_stop)
        return None if output.keeps_original else output
    except ExternalServiceFailed as failure:
        log.warning("Optimizing with the local codecs instead of the compression service: %s", failure.message)
        return None
    finally:
        file.unlink(missing_ok=True)


def convert_stage(workers: Workers) -> Stage:
    """The stage that converts, in a worker process."""

    def run(work: WorkItem, check_stop: CheckStop) -> Output:
        return workers.run(convert, work, memory_limit_bytes(work.info, work.plan.format), check_stop)

    return Stage(StageName.CONVERT, CODECS_LANE, run)


# ---- alt texts ----


class TextsWork(Struct, frozen=True):
    """A picture, its texts, and the words that a person changed.

    With `overwrite`, texts that are already in the picture are replaced.
    """

    path: Path
    format: Format
    translations: tuple[Translation, ...]
    overwrite: bool = False
    words: Words = Words()


def with_texts(work: TextsWork, check_stop: CheckStop) -> Output:
    """The picture with its texts as XMP. Runs in a worker."""
    from imgproc_local.codecs.alt_texts import texts_to_write, write_alt_texts

    info = ImageInfo(work.format, 0, 0)  # no pixels are decoded
    texts = texts_to_write(work.translations)
    data = write_alt_texts(work.path, info, texts, check_stop, overwrite=work.overwrite, words=work.words)
    return Output(data=data, format=work.format)


def write_texts(workers: Workers, timeout_s: float, work: TextsWork, cancelled: threading.Event) -> Path:
    """A temporary file with the picture of `work` and its texts, which the caller deletes.

    Raises: StageFailed, BadImage, StorageFailed, WorkerError; StageCancelled, soon after `cancelled` is set.
    """
    check_stop = CancellationToken(timeout_s, cancelled).check
    memory_bytes = MEMORY_WITHOUT_PIXELS
    if work.format is Format.JXL:  # one that was made of a JPEG is made again of the JPEG with the texts
        file = FileToRead(work.path, (Format.JXL,), sys.maxsize, EVERYTHING)
        memory_bytes = workers.run(memory_to_read, file, memory_bytes, check_stop)
    output = workers.run(with_texts, work, memory_bytes, check_stop)
    if output.path is None:
        raise StageFailed("The worker process returned no file.")
    return Path(output.path)
