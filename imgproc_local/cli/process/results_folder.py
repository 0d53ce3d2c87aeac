"""The output folder of `process`: results, the manifest that says what they were made from, and a lock.

No file of the user is overwritten, and none is partly written: a result is first written under a hidden temporary name
and fsynced (`hidden_copy`). Later it gets its name in one step, which fails if the name is taken.

The manifest has one JSON document per line, the record of one picture. A record is appended and fsynced before its
files get their names, so that every file that a run has named has a record; a picture whose record names a missing file
is processed again. Of several records of one source the last one counts. When the folder is opened and closed, the
manifest is rewritten with one record per source, sorted, so that a run that was interrupted and continued ends with the
same bytes as an undisturbed one. For the same reason, no record has the time of a run. A line that can't be read, such
as a last line that a loss of power cut off, is ignored: its picture is processed again.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory, mkdtemp
from typing import IO

import msgspec
from msgspec import Struct, structs

from imgproc_local import batch
from imgproc_local.cli.discovery import SourceFile, read_manifest
from imgproc_local.cli.output import Refused, duration_text, path_text, printable
from imgproc_local.domain.filename import archive_name, is_archive_name, numbered
from imgproc_local.domain.result import Translation
from imgproc_local.system import files

log = logging.getLogger(__name__)

LOCK_FILE = ".imgproc-local.lock"
_LOCK_NOTICE_S = 1.0
"""How long to wait silently for another run to end."""
_LOCK_WAIT_S = 3600.0
"""How long to wait after that. The runs that `xargs -P` starts take turns within seconds or minutes."""
_PART_PREFIX, _PART_SUFFIX = ".imgproc-local-", ".part"
"""The beginning and the end of the names of temporary files and folders."""
_FILES = ""
"""In place of a language, for the names of files."""


class RunOptions(Struct, frozen=True, kw_only=True):
    """Which pictures a run processes, where it writes results, and what it prints: see the help of the options."""

    paths: tuple[Path, ...]
    out: Path
    flat: bool
    archive_names: bool
    exclude: tuple[str, ...]
    in_place: bool
    backup_suffix: str | None
    preserve: bool
    jobs: int | None
    watch: bool
    is_piped: bool
    dry_run: bool
    quiet: bool
    as_json: bool
    csv_file: Path | None
    html_file: Path | None

    def shown(self, path: Path) -> str:
        """The path of a picture, for people."""
        return "-" if self.is_piped else printable(path_text(path))


class Outcome(Struct, frozen=True):
    """The result of one picture.

    `record` is what this run stored in the manifest or, for an unchanged picture, found there; None if neither. `new`
    is the record without the files that an earlier run made; None if this run made nothing. `errors` are as those of a
    `ManifestLine`.
    """

    picture: Path
    record: batch.ManifestLine | None = None
    new: batch.ManifestLine | None = None
    errors: tuple[tuple[str | None, str], ...] = ()

    @property
    def needs_text(self) -> bool:
        return self.record is not None and self.record.needs_text

    @property
    def done(self) -> bool:
        return self.record is not None and not self.errors

    @property
    def unchanged(self) -> bool:
        """Whether the results of an earlier run are up to date. Those of a picture that failed since are not."""
        return self.new is None and self.done


# ---- the manifest ----


def source_key(picture: Path, out: Path) -> str:
    """The path of a picture relative to the output folder, so that both can be moved together.

    It is absolute if the picture is on another drive of Windows than the output folder.
    """
    real = Path(os.path.realpath(picture))
    try:
        relative = Path(os.path.relpath(real, os.path.realpath(out)))
    except ValueError:
        relative = real
    return files.encodable_text(relative.as_posix())


def unchanged_record(
    picture: SourceFile, records: Mapping[str, batch.ManifestLine], out: Path, options_hash: str
) -> batch.ManifestLine | None:
    """The record of a picture of whose results in the output folder a run with these options would make the same."""
    record = records.get(source_key(picture.path, out))
    if record is None or record.errors or (record.options, record.size_bytes) != (options_hash, picture.size_bytes):
        return None
    if not _have_content(out, record.files):
        return None
    try:
        is_same = record.modified_ns == picture.modified_ns or record.sha256 == files.hash_file(picture.path)
    except OSError:  # reported when the picture is processed
        return None
    return record if is_same else None


class ResultsFolder:
    """The output folder at `path`, opened by one run at a time. `records` has the current record of each source.

    The names of files, and those of texts in each language, are unique in the folder. They have no extension.
    `has_waited` says that another run has written to the folder meanwhile. `temporary` is a folder for the files of
    stages, which `close` deletes. With `preserve`, results have the mode and the times of their pictures.
    """

    place = "output folder"
    max_unnamed = 512
    """How many pictures may be in progress, or wait for the name of an earlier one."""

    def __init__(self, path: Path, request: batch.BatchRequest, *, preserve: bool = False) -> None:
        """Create the folder if needed, lock it, and delete the temporary files that a killed run left.

        Waits while another run is writing to the folder, and logs it. Raises: Refused, if that takes too long; OSError.
        """
        self.path = path
        self.request = request
        self.preserve = preserve
        path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            self._lock: IO[bytes] = opened.enter_context(files.open_own_file(path / LOCK_FILE, "ab"))
            self.has_waited = not files.lock_within(self._lock, _LOCK_NOTICE_S)
            if self.has_waited:
                busy = f"Another `process` is writing to {printable(path_text(path))}."
                log.warning("%s Waiting until it ends, at most %s.", busy, duration_text(_LOCK_WAIT_S))
                if not files.lock_within(self._lock, _LOCK_WAIT_S):
                    raise Refused(f"{busy} Choose another folder with --out.")
            # before it is read, because this refuses what is no regular file
            self._manifest: IO[bytes] = opened.enter_context(self._opened_manifest())
            self.records = read_manifest(path)
            self._compact()
            _delete_leftovers(path)
            # in the output folder, where the next run deletes it after a kill; workers have another working directory
            self.temporary = Path(mkdtemp(_PART_SUFFIX, _PART_PREFIX, path.absolute()))
            opened.pop_all()
        self._taken = {name for record in self.records.values() for name in _names_of(record)}

    def close(self) -> None:
        """Delete temporary files, compact the manifest, and let another run write to the folder. Blocks."""
        _delete_leftovers(self.path)
        try:
            self._compact()
        except OSError as error:
            log.warning("The manifest could not be compacted (%s); the next run does it.", error.strerror)
        self._manifest.close()
        self._lock.close()

    def _opened_manifest(self) -> IO[bytes]:
        return files.open_own_file(self.path / batch.MANIFEST_FILE, "ab", buffering=0)

    def _compact(self) -> None:
        """Rewrite the manifest with one record per source, sorted. Raises: OSError, with the file unchanged."""
        self._manifest.close()
        records = [msgspec.json.encode(self.records[source]) for source in sorted(self.records)]
        lines = [batch.MANIFEST_HEADER, *records, b""]
        try:
            files.write_atomically(self.path / batch.MANIFEST_FILE, b"\n".join(lines))
        finally:
            self._manifest = self._opened_manifest()

    def _append(self, record: batch.ManifestLine) -> None:
        """Append a record to the manifest and sync it to the disk. Raises: OSError.

        A text that a person has to write is stored empty: its placeholder is only for the output of this run.
        """
        texts = (structs.replace(each, seo_alt_text="") if each.needs_text else each for each in record.translations)
        record = structs.replace(record, translations=tuple(texts))
        view = memoryview(msgspec.json.encode(record) + b"\n")
        while view:
            view = view[self._manifest.write(view) :]
        os.fsync(self._manifest.fileno())
        self.records[record.source] = record

    # ---- results ----

    def publish(self, picture: SourceFile, sha256: str, made: batch.Made) -> Outcome:
        """Choose the names of results, store their record, then rename the files. Blocks. Raises: OSError.

        `made` has staged files, and texts whose names are not unique yet; `sha256` is that of the picture. Earlier
        results of the picture are replaced. Those of the same content remain if nothing takes their place, because
        their stage failed or was not asked for; new files are then named after the earlier texts. After errors, the
        next run processes the picture again.
        """
        outcome = Outcome(picture.path, errors=made.errors)
        source = source_key(picture.path, self.path)
        earlier = self.records.get(source)
        same = earlier if earlier is not None and earlier.sha256 == sha256 else None
        if earlier is not None and same is None and earlier.files and made.errors and not made.files:
            record = structs.replace(earlier, errors=made.errors)
            self._append(record)
            return structs.replace(outcome, record=record)
        kept = self._kept(same, made)
        sized = same.variants if same is not None and "converted" in kept else ()
        sizes = {each.size_px for each, has_files in ((same, kept), (made, made.files)) if each and has_files}
        record = batch.ManifestLine(
            source=source,
            size_bytes=picture.size_bytes,
            modified_ns=picture.modified_ns,
            sha256=sha256,
            options=self.request.options_hash,
            removed=tuple(sorted({*same.removed, *made.removed})) if same and kept else made.removed,
            edited=() if earlier is None else self._make_way(earlier, [*kept.values(), *sized]),
            errors=made.errors,
            suggestion=same.suggestion if same and not made.texts else made.suggestion,
            notes={kind: notes for kind, notes in (same.notes if same else {}).items() if kind in kept} | made.notes,
        )
        record = structs.replace(record, variants=sized, size_px=sizes.pop() if len(sizes) == 1 else None, **kept)
        record = self._stored_under_free_name(picture, made, record, same)
        if made.files or made.texts:
            variants = () if sized else record.variants
            outcome = structs.replace(outcome, new=structs.replace(record, **dict.fromkeys(kept), variants=variants))
        return structs.replace(outcome, record=record)

    def _kept(self, same: batch.ManifestLine | None, made: batch.Made) -> dict[batch.Kind, batch.ResultFile]:
        """The results of an earlier run on the same content that remain, by kind. The user may have edited them."""
        earlier = () if same is None else same.by_kind.items()
        kept = {kind: file for kind, file in earlier if kind not in made.replaced}
        return {kind: file for kind, file in kept.items() if _have_content(self.path, [file])}

    def _make_way(self, earlier: batch.ManifestLine, kept: Collection[batch.ResultFile]) -> tuple[str, ...]:
        """Delete the results of an earlier run that are not kept, and return the paths of those that were edited."""
        replaced = [file for file in earlier.files if file not in kept]
        _remove_unedited(self.path, replaced)
        self._taken.difference_update(_names_of(earlier))
        return existing(self.path, (*earlier.edited, *(file.path for file in replaced)))

    def _stored_under_free_name(
        self, picture: SourceFile, made: batch.Made, record: batch.ManifestLine, same: batch.ManifestLine | None
    ) -> batch.ManifestLine:
        """Store the record with the files and texts under the first name that is free, and rename the files."""
        language, base = self._base_of_files(picture, made, same)
        for name in self._free_names(base, language, _FILES):
            stem = str(picture.subfolder / name)
            paths = {stem + file.ending: file for file in made.files}
            if existing(self.path, paths):
                continue
            texts = self._named_texts(picture, made, name) or (() if same is None else same.translations)
            named = structs.replace(record, translations=texts)
            for path, file in paths.items():
                named = file.added_to(named, path)
            self._append(named)
            if _rename_all(self.path, {path: file.path for path, file in paths.items()}):
                self._taken.update(_names_of(named))
                return named
        raise AssertionError("there is always another number")

    def _base_of_files(self, picture: SourceFile, made: batch.Made, same: batch.ManifestLine | None) -> tuple[str, str]:
        """The name of the files before numbers are added, after the language of the text that it is from."""
        # without texts of this run, because analyze failed or was not asked for, those of an earlier run name the files
        if not made.texts and same is not None and same.translations:
            language, earlier = same.translations[0].language_code, same.translations[0].seo_filename
            if not self.request.archive_names or is_archive_name(earlier, picture.key):
                return language, earlier
        if made.texts:
            return made.texts[0].language_code, self._base_name(picture, made.texts[0].seo_filename)
        return _FILES, self._base_name(picture, batch.fallback_name(picture.path, self.request.languages[0]))

    def _base_name(self, picture: SourceFile, name: str) -> str:
        return archive_name(name, picture.key) if self.request.archive_names else name

    def _named_texts(self, picture: SourceFile, made: batch.Made, name_of_files: str) -> tuple[Translation, ...]:
        """The texts with unique names; that of the first one is the name of the files."""
        named: list[Translation] = []
        for text in made.texts:
            base = self._base_name(picture, text.seo_filename)
            name = next(self._free_names(base, text.language_code)) if named else name_of_files
            named.append(structs.replace(text, seo_filename=name))
        return tuple(named)

    def _free_names(self, base: str, *languages: str) -> Iterator[str]:
        """`base`, `base-2`, `base-3` … without the names that are taken in any of the languages."""
        for name in itertools.chain((base,), (numbered(base, number) for number in itertools.count(2))):
            if not any((language, name) in self._taken for language in languages):
                yield name


def _names_of(record: batch.ManifestLine) -> Iterator[tuple[str, str]]:
    """The names of the texts and files of a picture, each after its language."""
    yield from ((text.language_code, text.seo_filename) for text in record.translations)
    yield from ((_FILES, PurePosixPath(path).stem) for path in record.paths)


# ---- files below the output folder `out` ----


def hidden_copy(out: Path, file: batch.LocalFile, like: Path | None = None) -> batch.LocalFile:
    """A result copied to the folder, under a temporary name. It gets the mode and the times of the file `like`.

    Raises: OSError; then no file is left behind, unless its mode or times can't be set.
    """
    part = out / f"{_PART_PREFIX}{secrets.token_hex(8)}{_PART_SUFFIX}"
    files.copy_durably(file.path, part)
    if like is not None:
        status = like.stat()
        shutil.copymode(like, part)
        os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
    return structs.replace(file, path=part)


def temporary_folder() -> TemporaryDirectory[str]:
    """A folder in that of the system for temporary files. Raises: Refused, if it can't be written."""
    try:
        return TemporaryDirectory(prefix="imgproc-", ignore_cleanup_errors=True)
    except OSError as error:
        problem = f"No temporary file can be written: {error.strerror}."
        raise Refused(f"{problem} Name a folder for such files in the environment variable TMPDIR.") from error


def _delete_leftovers(out: Path) -> None:
    """Delete the temporary files and folders that a killed run left, as far as possible."""
    for part in out.glob(f"{_PART_PREFIX}*{_PART_SUFFIX}"):
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part, ignore_errors=True)
        else:
            with suppress(OSError):
                part.unlink()


def _rename_all(out: Path, parts: Mapping[str, Path]) -> bool:
    """Rename every staged file to the path below `out` that is its key. Blocks.

    Returns False if one of the paths is taken. Then, and if it raises OSError, no file has been changed.
    """
    done: dict[Path, Path] = {}
    try:
        for path, part in parts.items():
            target = files.path_inside(out, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            files.rename_to_new(part, target)
            done[target] = part
    except BaseException as error:
        for target, part in done.items():
            # renaming between two hard links of one file does nothing, so the second link is removed instead
            target.unlink() if part.exists() else target.replace(part)
        if isinstance(error, FileExistsError):
            return False
        raise
    for part in done.values():
        part.unlink(missing_ok=True)
    return True


def existing(out: Path, paths: Iterable[str]) -> tuple[str, ...]:
    """Those of the paths at which there is a file, a folder, or a link."""
    return tuple(path for path in paths if os.path.lexists(out / path))


def _have_content(out: Path, results: Iterable[batch.ResultFile]) -> bool:
    """Whether the files exist and are not empty. Their content may have been changed by the user."""
    try:
        return all((out / file.path).stat().st_size > 0 for file in results)
    except OSError:
        return False


def _remove_unedited(out: Path, results: Iterable[batch.ResultFile]) -> None:
    """Delete those of the files that still have the content that this program wrote. Blocks. Raises: OSError.

    An empty file is deleted too: where there are no hard links, a killed run can leave one.
    """
    for file in results:
        path = files.path_inside(out, file.path)
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            size_bytes = path.stat().st_size
            if size_bytes == 0 or (size_bytes == file.size_bytes and files.hash_file(path) == file.sha256):
                path.unlink()
