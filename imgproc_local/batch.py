"""What `process` and `archive` share: what is made of each picture, the files and names of the results, their records.

A name is made from the texts or from the picture's own name. Each file adds its ending, such as `.webp`,
`-converted.webp` or `.xmp`. Both commands know the manifest of `process` and the targets of `archive`, so that neither
takes the results of the other for pictures.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, structs

from imgproc_local.codecs.picture.formats import FORMATS, max_local_bytes
from imgproc_local.config import Config
from imgproc_local.domain.errors import ServiceError, StorageFailed, UploadTooLarge
from imgproc_local.domain.filename import make_slug
from imgproc_local.domain.image import Format, NamePeople
from imgproc_local.domain.job import StageName
from imgproc_local.domain.plan import ACCEPTED_LOCALLY, Plan, target_score
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Note, RoleSuggestion, Translation, conversion_notes
from imgproc_local.engine.pipeline import Pipeline, ReadPicture, StageResult, run_stages
from imgproc_local.engine.results import TextsWork, write_texts
from imgproc_local.system.files import hash_file, is_disk_full, open_own_file

MANIFEST_FILE = ".imgproc-local.manifest.jsonl"
"""The manifest of `process`, in its output folder. `ManifestLine` is one line of it, after `MANIFEST_HEADER`."""
MANIFEST_HEADER = b'{"format":"imgproc-local manifest","version":1}'
_MAX_LINE_BYTES = 256 * 1024
"""The longest record. One with ten translations takes a tenth of this, even in the script that needs the most bytes."""
_MAX_MANIFEST_BYTES = 1024 * 1024 * 1024
"""The largest manifest that is read or written: enough for half a million pictures."""
STATE_FOLDER = ".imgproc-local-archive"
"""The folder with the manifest of `archive`, in the root of its target. It is hidden, so that no command searches it
for pictures. All other files of the target are results.
"""
FIRST_ALT_COLUMNS = ("file", "original_file", "language", "seo_filename", "alt_text", "source", "needs_text")
"""The columns of the table of alt texts that every version writes first."""
_SUGGESTION_COLUMNS = ("suggested_role", "suggested_role_reason")
ALT_COLUMNS = (*FIRST_ALT_COLUMNS, "needs_text_reason", "long_description", *_SUGGESTION_COLUMNS)

Kind = Literal["optimized", "converted", "sidecar"]
_Results = TypeVar("_Results", bound="Results")


# ---- what is requested ----


class BatchRequest(Struct, frozen=True):
    """What a run makes of each picture: the results of all `plans`.

    `options_hash` tells a later run whether it would make the same. `write_metadata` writes the texts into the results,
    and `overwrite` also replaces those that the pictures have; `sidecar` writes them to files beside the results. With
    `archive_names`, the names of results do not depend on other pictures (`domain.filename.archive_name`).
    """

    plans: tuple[Plan, ...]
    languages: tuple[str, ...]
    options_hash: str
    write_metadata: bool = False
    overwrite: bool = False
    sidecar: bool = False
    archive_names: bool = False

    @property
    def accepted(self) -> tuple[Format, ...]:
        """The formats that every plan accepts."""
        lists = [ACCEPTED_LOCALLY[plan.operation] for plan in self.plans]
        return tuple(each for each in lists[0] if all(each in others for others in lists))


def options_hash(plans: Sequence[Plan], flags: Sequence[str], config: Config, model: str | None) -> str:
    """A hash of all that changes the results. `model` is the name of the vision model.

    Manifests store it instead of its content, because the text of --context must not be stored.
    """
    content = [
        # a run after an upgrade does not process everything again
        [plan.hashed for plan in plans],
        target_score(config.quality_target),
        config.effort,
        config.keep_location.value,
        # 0.1.0 stored False here
        False if config.name_people is NamePeople.CAPTIONS else config.name_people.value,
        config.pixel_texts,
        config.compression_service,
        model,
        *flags,
        # earlier releases had no such settings
        *sorted(config.disclosure.kept),
    ]
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:32]


# ---- what is recorded ----


class ResultFile(Struct, frozen=True):
    """A result file. `path` is relative to the output folder, with `/` between the parts. A sidecar has no `format`."""

    path: str
    sha256: str
    size_bytes: int
    format: Format | None = None


class VariantFile(ResultFile, frozen=True, kw_only=True):
    """The converted picture at another width."""

    width_px: int
    height_px: int


class Results(Struct, frozen=True, kw_only=True):
    """The results of one picture. `removed` are the kinds of private data that it holds and a result does not.
    `suggestion` is the role that it seems to have. `notes` are those on its files. `variants` belong to the
    converted one.
    """

    optimized: ResultFile | None = None
    converted: ResultFile | None = None
    sidecar: ResultFile | None = None
    translations: tuple[Translation, ...] = ()
    removed: tuple[Removed, ...] = ()
    suggestion: RoleSuggestion | None = None
    notes: dict[Kind, tuple[Note, ...]] = {}
    variants: tuple[VariantFile, ...] = ()

    def notes_on(self, kind: Kind) -> tuple[Note, ...]:
        """The notes on a file, with the one that follows from the sizes."""
        notes = self.notes.get(kind, ())
        return conversion_notes(notes, self.converted, self.optimized) if kind == "converted" else notes

    @property
    def by_kind(self) -> dict[Kind, ResultFile]:
        files = {"optimized": self.optimized, "converted": self.converted, "sidecar": self.sidecar}
        return {kind: file for kind, file in files.items() if file is not None}  # type: ignore[misc]

    @property
    def files(self) -> tuple[ResultFile, ...]:
        return (*self.by_kind.values(), *self.variants)

    @property
    def needs_text(self) -> bool:
        """Whether a person has to write any of the alt texts."""
        return any(text.needs_text for text in self.translations)


class ManifestLine(Results, frozen=True, kw_only=True):
    """A line of the manifest of `process`: the results of one picture.

    `source` is the picture's path relative to the output folder; `size_bytes`, `modified_ns` and `sha256` are those of
    the content that was processed. `options` is the `options_hash` of the `BatchRequest`. `edited` are the paths of
    earlier results that the user had edited, so that they remained when others took their place. An error is a pair of
    the failed stage, or None, and a message; the next run processes a picture with an error again. `size_px` is the
    width and height of the optimized and the converted file; None if they differ or, from 0.1.0, are not known.
    """

    source: str
    size_bytes: int
    modified_ns: int
    sha256: str
    options: str
    edited: tuple[str, ...] = ()
    errors: tuple[tuple[str | None, str], ...] = ()
    size_px: tuple[int, int] | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all files of this picture in the output folder, also of edited ones."""
        return (*(file.path for file in self.files), *self.edited)


def stored_records(folder: Path) -> Iterator[ManifestLine | None]:
    """The records of an output folder, in the order of its manifest; None for a line that can't be read.

    There are none without a manifest. Memory is bounded by a line. Raises: OSError, also for a manifest of more than
    `_MAX_MANIFEST_BYTES`.
    """
    try:
        manifest = open_own_file(folder / MANIFEST_FILE, max_bytes=_MAX_MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return
    with manifest:
        while line := manifest.readline(_MAX_LINE_BYTES):
            if line.rstrip() == MANIFEST_HEADER:
                continue
            try:
                record = msgspec.json.decode(line, type=ManifestLine) if line.endswith(b"\n") else None
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                record = None
            yield record if record is not None and all(_is_inside(path) for path in record.paths) else None


def require_size(size_bytes: int, head: bytes, config: Config) -> None:
    """Raises: UploadTooLarge, for a picture with these first bytes that is larger than the settings allow."""
    most_bytes = max_local_bytes(head, config.max_upload_bytes)
    if size_bytes > most_bytes:
        raise UploadTooLarge(
            f"Expected at most {most_bytes:,} bytes (setting max_upload_bytes), but the file has more."
        )


@contextmanager
def writing_to(place: str) -> Iterator[None]:
    """Raises the errors of the operating system inside the block as StorageFailed, about the `place` of the results."""
    try:
        yield
    except OSError as error:
        problem = f"The {place} can't be written ({error.strerror or error})."
        raise StorageFailed(f"The disk of the {place} is full." if is_disk_full(error) else problem) from error


def _is_inside(path: str) -> bool:
    """Whether a path of a record stays in the output folder. The folder may come from somebody else."""
    return ".." not in Path(path).parts and not Path(path).anchor and "\0" not in path


def archive_target_above(folder: Path) -> Path | None:
    """The target of an earlier `archive` that is this folder or contains it; None if there is none."""
    real = Path(os.path.realpath(folder))
    return next((each for each in (real, *real.parents) if is_folder(each / STATE_FOLDER)), None)


def is_folder(path: Path) -> bool:
    """Whether there is a folder; not if a folder above it can't be searched."""
    try:
        return path.is_dir()
    except OSError:
        return False


# ---- what the stages made ----


class LocalFile(Struct, frozen=True):
    """A result. Its name will end with `ending`, such as `.webp` or `-converted.webp`. A sidecar has no `format`;
    only a variant has a width and height.
    """

    kind: Kind
    path: Path
    ending: str
    format: Format | None = None
    width_px: int = 0
    height_px: int = 0

    def added_to(self, results: _Results, path: str) -> _Results:
        """The results with this file, which is to be at `path`. Raises: OSError."""
        file: dict[str, Any] = {"path": path, "sha256": hash_file(self.path), "size_bytes": self.path.stat().st_size}
        file["format"] = self.format
        if not self.width_px:
            return structs.replace(results, **{self.kind: ResultFile(**file)})
        variant = VariantFile(**file, width_px=self.width_px, height_px=self.height_px)
        return structs.replace(results, variants=(*results.variants, variant))


class Made(Struct, frozen=True):
    """What was made of one picture. `errors` are as those of a `ManifestLine`, the rest as that of `Results`. `notes`
    has an entry, which may be empty, for each file that a stage made or did not keep. `size_px` is the width and height
    of the results.
    """

    files: tuple[LocalFile, ...] = ()
    texts: tuple[Translation, ...] = ()
    removed: tuple[Removed, ...] = ()
    errors: tuple[tuple[str | None, str], ...] = ()
    suggestion: RoleSuggestion | None = None
    notes: dict[Kind, tuple[Note, ...]] = {}
    size_px: tuple[int, int] | None = None

    @property
    def replaced(self) -> set[Kind]:
        """The kinds of earlier results that these take the place of. A sidecar is outdated by new texts."""
        return {*self.notes, *(("sidecar",) if self.texts else ()), *(file.kind for file in self.files)}


def make_results(
    pipeline: Pipeline,
    request: BatchRequest,
    name: str,
    original: Path,
    read: ReadPicture,
    folder: Path,
    described: StageResult | None = None,
) -> Made:
    """Run the stages of a picture that was called `name`, and put their results together.

    The files lie in `folder`, except that `original` itself stands for an output that keeps it. `described` is the
    result of the analyze stage if that was run before. Raises: StorageFailed, OSError.
    """
    from imgproc_local.codecs.alt_texts import FileTexts, sidecar, texts_to_write

    wanted = [stage for stage in StageName if stage is not StageName.ANALYZE or described is None]
    results = [] if described is None else [described]
    for plan in request.plans:
        results += run_stages(pipeline, plan, original, name, read, wanted, results)
    done = [result.output for result in results if result.output is not None]
    errors: list[tuple[str | None, str]] = [(each.stage.value, each.error) for each in results if each.output is None]
    texts = next((output.texts for output in done if output.texts), ())
    files = list(_stage_files(PurePath(name), original, read.info.format, results, folder))
    if request.write_metadata and texts:
        for number, file in enumerate(files):
            try:
                files[number] = structs.replace(file, path=_with_texts(pipeline, request, file, texts, folder))
            except StorageFailed:
                raise
            except ServiceError as error:
                errors.append((None, f"The texts are not in the {file.kind} file: {error.message}"))
    # without a text that a person or a model wrote, there is no sidecar
    if request.sidecar and (file_texts := texts_to_write(texts)) != FileTexts():
        files.append(LocalFile("sidecar", folder / "sidecar", ".xmp"))
        files[-1].path.write_bytes(sidecar(file_texts))
    removed = {kind for output in done for kind in output.removed}
    suggestion = next((output.suggestion for output in done if output.suggestion), None)
    kinds: dict[StageName, Kind] = {StageName.OPTIMIZE: "optimized", StageName.CONVERT: "converted"}
    notes = {kinds[each.stage]: each.output.notes for each in results if each.output and each.stage in kinds}
    size = read.info.scaled_within(request.plans[0].max_width_px, request.plans[0].max_height_px)
    size_px = (size.width_px, size.height_px) if size else read.info.display_size_px
    return Made(tuple(files), texts, tuple(sorted(removed)), tuple(errors), suggestion, notes, size_px)


def _stage_files(
    name: PurePath, original: Path, original_format: Format, results: Collection[StageResult], folder: Path
) -> Iterator[LocalFile]:
    """The files that the stages made, in the order of the pipeline: the optimized one is before the converted one."""
    optimized_ending = _optimized_ending(name, original_format)
    for result in results:
        output = result.output
        if output is None or Note.NOT_SMALLER in output.notes:
            continue
        path = original if output.path is None else Path(output.path).rename(folder / result.stage.value)
        result_format = output.format or original_format
        if result.stage is StageName.OPTIMIZE:
            optimized_ending = _optimized_ending(name, result_format)
            yield LocalFile("optimized", path, optimized_ending, result_format)
        elif result.stage is StageName.CONVERT:
            # a WebP that is converted to WebP has two results, also if another run makes the optimized one
            ending = f".{FORMATS[result_format].extensions[0]}"
            ending = f"-converted{ending}" if ending == optimized_ending else ending
            yield LocalFile("converted", path, ending, result_format)
            sized = zip(output.variants, output.paths[1:], strict=True)
            for size, path in sorted(sized, key=lambda each: each[0].width_px):
                size_path, size_ending = path.rename(folder / f"convert-{size.width_px}"), f"-{size.width_px}{ending}"
                yield LocalFile("converted", size_path, size_ending, result_format, size.width_px, size.height_px)


def _optimized_ending(picture: PurePath, result_format: Format) -> str:
    """The picture's extension in lower case if `result_format` uses it, else the usual extension of that format."""
    ending = picture.suffix.lower()
    extensions = FORMATS[result_format].extensions
    return ending if ending.removeprefix(".") in extensions else f".{extensions[0]}"


def _with_texts(
    pipeline: Pipeline, request: BatchRequest, file: LocalFile, texts: Sequence[Translation], folder: Path
) -> Path:
    assert file.format is not None
    work = TextsWork(file.path.absolute(), file.format, tuple(texts), request.overwrite)
    written = write_texts(pipeline.workers, pipeline.timeout_s, work, pipeline.cancelled)
    return written.rename(folder / f"{file.kind}{file.width_px}-with-texts")


def fallback_name(picture: PurePath, language: str) -> str:
    """The name for the results of a picture without texts, made from its file name."""
    return make_slug(picture.stem, language) or "image"


# ---- the table of alt texts ----


def alt_rows(original: str, results: Results) -> Iterator[tuple[str, ...]]:
    """The rows of one picture, one per result file and language, or one per language if no file was written.

    `file` is the path in the output folder, empty without a file. An alt text that a person has to write is empty.
    """
    suggestion = (results.suggestion.role.value, results.suggestion.reason) if results.suggestion else ("", "")
    for path in [file.path for kind, file in results.by_kind.items() if kind != "sidecar"] or [""]:
        for text in results.translations:
            alt_text = "" if text.needs_text else text.seo_alt_text
            needs_text = "true" if text.needs_text else "false"
            first = (path, original, text.language_code, text.seo_filename, alt_text, text.source.value, needs_text)
            yield *first, text.needs_text_reason or "", text.long_description, *suggestion
