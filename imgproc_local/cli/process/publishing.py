"""Gives the finished results of pictures their names, in the order of the pictures, and stores their records."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from msgspec import Struct, structs

from imgproc_local.batch.files import LocalFile, ResultFile, fallback_name
from imgproc_local.batch.records import Record
from imgproc_local.batch.request import BatchRequest
from imgproc_local.cli.process.discovery import Picture
from imgproc_local.cli.process.manifest import Manifest, source_key
from imgproc_local.cli.process.output_folder import OutputFolder
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Translation
from imgproc_local.domain.slug import archive_name, is_archive_name, numbered
from imgproc_local.storage.blobs import hash_file

FILES = ""
"""In place of a language, for the names of files."""


class Finished(Struct, frozen=True):
    """A picture that was processed. Its files have temporary names, and those of its texts are not unique.

    `sha256` is empty if it could not be read, or if the run was stopped before its results were written.
    """

    picture: Picture
    sha256: str = ""
    files: tuple[LocalFile, ...] = ()
    texts: tuple[Translation, ...] = ()
    removed: tuple[Removed, ...] = ()
    errors: tuple[tuple[str | None, str], ...] = ()


class Outcome(Struct, frozen=True):
    """The result of one picture.

    `record` is what this run stored in the manifest or, for an unchanged picture, found there; None if neither. `new`
    is the record without the files that an earlier run made; None if this run made nothing. An error is a pair of the
    failed stage, None for an error outside a stage, and a message. `interrupted` says that the run ended before the
    picture was done: by Ctrl+C, or because temporary files or results could not be written.
    """

    picture: Path
    record: Record | None = None
    new: Record | None = None
    errors: tuple[tuple[str | None, str], ...] = ()
    interrupted: bool = False

    @property
    def needs_text(self) -> bool:
        """Whether a person has to write one of the alt texts."""
        return self.record is not None and self.record.needs_text

    @property
    def done(self) -> bool:
        return self.record is not None and not self.errors

    @property
    def unchanged(self) -> bool:
        """Whether the results of an earlier run are up to date. Those of a picture that failed since are not."""
        return self.new is None and self.done


class Publisher:
    """Publishes the results of one picture after the other.

    The names of files, and those of texts in each language, are unique in the output folder. They have no extension.
    """

    def __init__(self, folder: OutputFolder, request: BatchRequest, manifest: Manifest) -> None:
        self.folder = folder
        self.request = request
        self._manifest = manifest
        self._taken = {name for record in manifest.records.values() for name in _names_of(record)}

    def publish(self, finished: Finished) -> Outcome:
        """Choose the names, store the record, then rename the files. Blocks. Raises: OSError.

        Earlier results of the picture are replaced. Those of the same content remain if nothing takes their place,
        because their stage failed or was not asked for; new files are then named after the earlier texts. After errors,
        the next run processes the picture again.
        """
        outcome = Outcome(finished.picture.path, errors=finished.errors)
        source = source_key(finished.picture.path, self.folder.path)
        earlier = self._manifest.records.get(source)
        same = earlier if earlier is not None and earlier.sha256 == finished.sha256 else None
        if earlier is not None and same is None and earlier.files and finished.errors and not finished.files:
            record = structs.replace(earlier, errors=finished.errors)
            self._manifest.append(record)
            return structs.replace(outcome, record=record)
        kept = self._kept(same, finished)
        record = Record(
            source=source,
            size_bytes=finished.picture.size_bytes,
            modified_ns=finished.picture.modified_ns,
            sha256=finished.sha256,
            options=self.request.options_hash,
            removed=tuple(sorted({*same.removed, *finished.removed})) if same and kept else finished.removed,
            edited=() if earlier is None else self._make_way(earlier, kept),
            errors=finished.errors,
        )
        record = structs.replace(record, **kept)
        record = self._stored_under_free_name(finished, record, same)
        if finished.files or finished.texts:
            outcome = structs.replace(outcome, new=structs.replace(record, **dict.fromkeys(kept)))
        return structs.replace(outcome, record=record)

    def _kept(self, same: Record | None, finished: Finished) -> dict[str, ResultFile]:
        """The results of an earlier run on the same content that remain, by kind. The user may have edited them.

        A sidecar is outdated by new texts.
        """
        replaced = {*(file.kind for file in finished.files), *(("sidecar",) if finished.texts else ())}
        earlier = {kind: getattr(same, kind, None) for kind in ("optimized", "converted", "sidecar")}
        return {
            kind: file
            for kind, file in earlier.items()
            if file is not None and kind not in replaced and self.folder.has_all([file])
        }

    def _make_way(self, earlier: Record, kept: dict[str, ResultFile]) -> tuple[str, ...]:
        """Delete the results of an earlier run that are not kept, and return the paths of those that were edited."""
        replaced = [file for file in earlier.files if file not in kept.values()]
        self.folder.remove_own(replaced)
        self._taken.difference_update(_names_of(earlier))
        return self.folder.existing((*earlier.edited, *(file.path for file in replaced)))

    def _stored_under_free_name(self, finished: Finished, record: Record, same: Record | None) -> Record:
        """Store the record with the files and texts under the first name that is free, and rename the files."""
        language, base = self._base_of_files(finished, same)
        for name in self._free_names(base, language, FILES):
            stem = str(finished.picture.subfolder / name)
            paths = {stem + file.ending: file for file in finished.files}
            if self.folder.existing(paths):
                continue
            files = {
                file.kind: ResultFile(path, hash_file(file.path), file.path.stat().st_size, file.format)
                for path, file in paths.items()
            }
            texts = self._named_texts(finished, name) or (() if same is None else same.translations)
            named = structs.replace(record, translations=texts, **files)
            self._manifest.append(named)
            if self.folder.publish({path: file.path for path, file in paths.items()}):
                self._taken.update(_names_of(named))
                return named
        raise AssertionError("there is always another number")

    def _base_of_files(self, finished: Finished, same: Record | None) -> tuple[str, str]:
        """The name of the files before numbers are added, after the language of the text that it is from."""
        # without texts of this run, because analyze failed or was not asked for, those of an earlier run name the files
        if not finished.texts and same is not None and same.translations:
            language, earlier = same.translations[0].language_code, same.translations[0].seo_filename
            if not self.request.archive_names or is_archive_name(earlier, finished.picture.key):
                return language, earlier
        if finished.texts:
            return finished.texts[0].language_code, self._base_name(finished, finished.texts[0].seo_filename)
        return FILES, self._base_name(finished, fallback_name(finished.picture.path, self.request.languages[0]))

    def _base_name(self, finished: Finished, name: str) -> str:
        return archive_name(name, finished.picture.key) if self.request.archive_names else name

    def _named_texts(self, finished: Finished, name_of_files: str) -> tuple[Translation, ...]:
        """The texts with unique names; that of the first one is the name of the files."""
        named: list[Translation] = []
        for text in finished.texts:
            base = self._base_name(finished, text.seo_filename)
            name = next(self._free_names(base, text.language_code)) if named else name_of_files
            named.append(structs.replace(text, seo_filename=name))
        return tuple(named)

    def _free_names(self, base: str, *languages: str) -> Iterator[str]:
        """`base`, `base-2`, `base-3` … without the names that are taken in any of the languages."""
        for name in itertools.chain((base,), (numbered(base, number) for number in itertools.count(2))):
            if not any((language, name) in self._taken for language in languages):
                yield name


def _names_of(record: Record) -> Iterator[tuple[str, str]]:
    """The names of the texts and files of a picture, each after its language."""
    yield from ((text.language_code, text.seo_filename) for text in record.translations)
    yield from ((FILES, PurePosixPath(path).stem) for path in record.paths)
