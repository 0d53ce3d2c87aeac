"""Gives the finished results of pictures their names, in the order of the pictures, and stores their records."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from msgspec import Struct, structs

from imgproc_local.batch.files import ResultFile, fallback_name
from imgproc_local.batch.records import Record
from imgproc_local.batch.request import BatchRequest
from imgproc_local.cli.process.discovery import Picture
from imgproc_local.cli.process.manifest import Manifest, source_key
from imgproc_local.cli.process.results import Names, Results, StagedFile
from imgproc_local.domain.job import Job
from imgproc_local.domain.result import Translation
from imgproc_local.domain.slug import archive_name, is_archive_name


class Finished(Struct, frozen=True):
    """A picture that was processed or interrupted, or could not be processed. Its results have no names yet.

    `base_names` are those of its texts by language, before numbers are added to make them unique.
    """

    picture: Picture
    sha256: str = ""
    job: Job | None = None
    job_ids: tuple[str, ...] = ()
    base_names: dict[str, str] = {}
    optimized: StagedFile | None = None
    converted: StagedFile | None = None
    sidecar: StagedFile | None = None
    errors: tuple[tuple[str | None, str], ...] = ()
    interrupted: bool = False

    @property
    def staged(self) -> list[StagedFile]:
        return [staged for staged in (self.optimized, self.converted, self.sidecar) if staged is not None]


class Publisher:
    """Publishes the results of one picture after the other. Names are unique in the output folder."""

    def __init__(self, out: Path, request: BatchRequest, results: Results, manifest: Manifest) -> None:
        self._out = out
        self._request = request
        self._results = results
        self._manifest = manifest
        self._names = Names()
        for record in manifest.records.values():
            for language, name in _names_of(record):
                self._names.take(language, name)

    def publish(self, finished: Finished, job: Job) -> Record:
        """Choose the names, store the record, then rename the files. Blocks. Raises: OSError.

        Earlier results of the picture are replaced. Those of the same content remain if nothing takes their place,
        because their stage failed or was not asked for; new files are then named after the earlier texts. After errors,
        the next run processes the picture again.
        """
        source = source_key(finished.picture.path, self._out)
        earlier = self._manifest.records.get(source)
        same = earlier if earlier is not None and earlier.sha256 == finished.sha256 else None
        if earlier is not None and same is None and earlier.files and finished.errors and not finished.staged:
            record = structs.replace(earlier, errors=finished.errors)
            self._manifest.append(record)
            return record
        kept = self._kept(same, finished)
        edited: tuple[str, ...] = ()
        if earlier is not None:
            replaced = [file for file in earlier.files if file not in kept.values()]
            self._results.remove_own(replaced)
            edited = self._results.existing((*earlier.edited, *(file.path for file in replaced)))
            for language, name in _names_of(earlier):
                self._names.release(language, name)
        language, base = self._base_of_files(finished, job, same)
        endings = [one.ending for one in finished.staged]
        for name in self._names.free(base, language, Names.FILES):
            if not self._results.is_free(finished.picture.subfolder, name, endings):
                continue
            record = self._record(finished, job, source, name)
            files = [(staged, file.path) for staged, file in zip(finished.staged, record.files, strict=True)]
            if same is not None:
                texts = record.translations or same.translations
                removed = tuple(sorted({*same.removed, *record.removed})) if kept else record.removed
                record = structs.replace(record, translations=texts, removed=removed, **kept)
            record = structs.replace(record, edited=edited)
            self._manifest.append(record)
            if self._results.publish(files):
                for taken in _names_of(record):
                    self._names.take(*taken)
                return record
        raise AssertionError("there is always another number")

    def _base_of_files(self, finished: Finished, job: Job, same: Record | None) -> tuple[str, str]:
        """The name of the files before numbers are added, after the language of the text that it is from."""
        # without texts of this run, because analyze failed or was not asked for, those of an earlier run name the files
        if not job.translations and same is not None and same.translations:
            language, earlier = same.translations[0].language_code, same.translations[0].seo_filename
            if not self._request.archive_names or is_archive_name(earlier, finished.picture.key):
                return language, earlier
        language = job.translations[0].language_code if job.translations else Names.FILES
        fallback = fallback_name(finished.picture.path, self._request.languages[0])
        return language, self._base_name(finished, language, fallback)

    def _kept(self, same: Record | None, finished: Finished) -> dict[str, ResultFile]:
        """The results of an earlier run on the same content that remain, by their field of the record.

        The user may have edited them. A sidecar is outdated by new texts.
        """
        if same is None:
            return {}
        results = (
            ("optimized", finished.optimized, same.optimized),
            ("converted", finished.converted, same.converted),
            ("sidecar", finished.sidecar or finished.base_names, same.sidecar),
        )
        kept = {field: old for field, new, old in results if not new and old is not None}
        return {field: old for field, old in kept.items() if self._results.are_present([old])}

    def _base_name(self, finished: Finished, language: str, fallback: str) -> str:
        """The name in a language before numbers are added; `fallback` if the picture has no text in that language."""
        name = finished.base_names.get(language, fallback)
        return archive_name(name, finished.picture.key) if self._request.archive_names else name

    def _record(self, finished: Finished, job: Job, source: str, name: str) -> Record:
        def file(staged: StagedFile | None) -> ResultFile | None:
            if staged is None:
                return None
            path = PurePosixPath(finished.picture.subfolder, name + staged.ending)
            return ResultFile(str(path), staged.sha256, staged.size_bytes, staged.format)

        texts = []
        for number, text in enumerate(job.translations):
            base = self._base_name(finished, text.language_code, text.seo_filename)
            unique = name if number == 0 else next(self._names.free(base, text.language_code))
            texts.append(Translation(text.language_code, unique, text.seo_alt_text, text.source))
        return Record(
            source=source,
            size_bytes=finished.picture.size_bytes,
            modified_ns=finished.picture.modified_ns,
            sha256=finished.sha256,
            options=self._request.options_hash,
            optimized=file(finished.optimized),
            converted=file(finished.converted),
            sidecar=file(finished.sidecar),
            translations=tuple(texts),
            removed=job.removed,
            errors=finished.errors,
        )


def _names_of(record: Record) -> list[tuple[str, str]]:
    """The names of the texts and files of a picture, as `Names` has them."""
    of_texts = [(text.language_code, text.seo_filename) for text in record.translations]
    return of_texts + [(Names.FILES, PurePosixPath(path).stem) for path in record.paths]
