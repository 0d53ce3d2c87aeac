"""The results of one picture as local files, with the alt texts in them, before they have names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path, PurePath
from typing import Literal

from msgspec import Struct, structs

from imgproc_local.batch.files import SIDECAR_ENDING, converted_ending, optimized_ending, sidecar_content
from imgproc_local.batch.request import BatchRequest
from imgproc_local.domain.errors import ServiceError, StorageFailed
from imgproc_local.domain.image import Format
from imgproc_local.domain.job import StageName
from imgproc_local.domain.result import Translation
from imgproc_local.engine.direct import DirectStages, StageResult
from imgproc_local.engine.results import TextsWork, write_texts


class LocalFile(Struct, frozen=True):
    """A result. Its name will end with `ending`, such as `.webp` or `-converted.webp`. A sidecar has no `format`."""

    kind: Literal["optimized", "converted", "sidecar"]
    path: Path
    ending: str
    format: Format | None = None


def texts_of(results: Collection[StageResult]) -> tuple[Translation, ...]:
    """The texts that the stages wrote; none if the picture was not analyzed, or that failed."""
    return next((result.output.texts for result in results if result.output is not None and result.output.texts), ())


def result_files(
    direct: DirectStages,
    request: BatchRequest,
    name: PurePath,
    original: Path,
    original_format: Format,
    results: Collection[StageResult],
    folder: Path,
) -> tuple[list[LocalFile], list[str]]:
    """The results of a picture that was called `name`, and why some have no texts.

    They lie in `folder`, except that `original` itself stands for an output that keeps it. Raises: StorageFailed,
    OSError.
    """
    texts = texts_of(results)
    problems = []
    files = _stage_files(name, original, original_format, results, folder)
    if request.write_metadata and texts:
        for number, file in enumerate(files):
            try:
                files[number] = structs.replace(file, path=_with_texts(direct, request, file, texts, folder))
            except StorageFailed:
                raise
            except ServiceError as error:
                problems.append(f"The texts are not in the {file.kind} file: {error.message}")
    if request.sidecar and (content := sidecar_content(texts)) is not None:
        files.append(LocalFile("sidecar", folder / "sidecar", SIDECAR_ENDING))
        files[-1].path.write_bytes(content)
    return files, problems


def _stage_files(
    name: PurePath, original: Path, original_format: Format, results: Collection[StageResult], folder: Path
) -> list[LocalFile]:
    files: list[LocalFile] = []
    ending = optimized_ending(name, original_format)
    for result in results:
        output = result.output
        if output is None or result.stage is StageName.ANALYZE:
            continue
        path = original if output.path is None else Path(output.path).rename(folder / result.stage.value)
        result_format = output.format or original_format
        if result.stage is StageName.OPTIMIZE:
            ending = optimized_ending(name, result_format)
            files.append(LocalFile("optimized", path, ending, result_format))
        else:
            files.append(LocalFile("converted", path, converted_ending(result_format, ending), result_format))
    return files


def _with_texts(
    direct: DirectStages, request: BatchRequest, file: LocalFile, texts: Sequence[Translation], folder: Path
) -> Path:
    assert file.format is not None
    work = TextsWork(bytes(file.path.absolute()), file.format, tuple(texts), request.overwrite)
    written = write_texts(direct.workers, direct.timeout_s, work, direct.cancelled)
    return written.rename(folder / f"{file.kind}-with-texts")
