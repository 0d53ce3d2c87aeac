"""Installs a model from files: checks them, tests the model, and moves it into the models folder by one rename.

The checks are: whether there is a text model and a vision encoder; their SHA-256 sums, if the user, a manifest or the
catalogue states them; and last the self-test, whether they belong together and the model works on this machine. A file
that the user names may have any name: its first bytes tell its type. In a folder, only `MANIFEST_FILE` and names that
end in .gguf are read.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.models.catalogue import Entry, ImageTokens, check_name
from imgproc_local.vision.models.files import (
    CHUNK_BYTES,
    Progress,
    require_free_space,
    translate_disk_errors,
    write_json,
)
from imgproc_local.vision.models.model import (
    MANIFEST_FILE,
    MMPROJ_FILE,
    TEXT_MODEL_FILE,
    ChatFormat,
    Manifest,
    ModelFile,
    VisionModel,
)
from imgproc_local.vision.models.store import ModelStore

MAX_MANIFEST_BYTES = 65_536
MAX_HEAD_BYTES = 65_536
"""How much of a GGUF file is read to find its architecture."""
PROJECTOR_ARCHITECTURE = b"clip"

SelfTest = Callable[[VisionModel], None]
"""A function that tests a model on this machine and stores the result beside the model's files.

It raises ModelUnusable if the model does not work."""


class StagedFile(Struct, frozen=True):
    """A copied or downloaded GGUF file at `path`. `original` has the name that it had before."""

    path: Path
    original: ModelFile


class ImportOptions(Struct, frozen=True, kw_only=True):
    """The options of `models import`. One of the files must have each sum in `sha256`; None is an option not given."""

    name: str | None = None
    template: str | None = None
    image_tokens: int | None = None
    answer_opening: str | None = None
    sha256: tuple[str, ...] = ()


def import_model(
    models: ModelStore,
    sources: Sequence[Path],
    options: ImportOptions,
    catalogue: Mapping[str, Entry],
    self_test: SelfTest,
    progress: Progress,
) -> Manifest:
    """Install the model in `sources`: two GGUF files, or a folder with them. Returns its manifest.

    Raises:
        ModelUnusable: the sources are not one complete model, a SHA-256 differs, or the model does not work.
        StorageFailed, DataFolderBusy: the models folder can't be written, or another command holds its lock.
    """
    if options.name is not None:
        _require_valid_name(options.name)
        models.require_not_installed(options.name)
    paths = [path for source in sources for path in _files_of(source)]
    supplied = next((_read_manifest(path) for path in paths if path.name == MANIFEST_FILE), None)
    paths = [path for path in paths if path.name != MANIFEST_FILE]
    for path in paths:
        is_vision_encoder(path, path.name)  # so that a damaged file is rejected before it is copied, which takes long
    if len(paths) > 2:
        names = ", ".join(path.name for path in paths)
        raise ModelUnusable(
            f"A vision model is two GGUF files; more were given: {names}. Name the two that belong to it."
        )
    with models.locked(), models.staging_folder() as staged:
        files = [_copy(path, staged / f"source-{number}.gguf", progress) for number, path in enumerate(paths)]
        text, mmproj = identify_pair(files)
        _require_given_hashes(options.sha256, (text.original, mmproj.original))
        manifest = _manifest(text.original, mmproj.original, supplied, options, catalogue)
        models.require_not_installed(manifest.name)
        test_and_publish(models, staged, manifest, (text.path, mmproj.path), self_test)
    return manifest


def _files_of(source: Path) -> list[Path]:
    """The GGUF files and the manifest in a folder, sorted; a file itself. Raises: ModelUnusable."""
    if not source.is_dir():
        if source.exists() and not source.is_file():
            raise ModelUnusable(f"{source.name} is not a regular file.")
        return [source]
    try:
        # names that begin with "._" are files in which macOS stores attributes on foreign drives
        names = sorted(path for path in source.iterdir() if path.is_file() and not path.name.startswith("._"))
    except OSError as error:
        raise ModelUnusable(f"{source.name} can't be read ({error.strerror}).") from error
    return [path for path in names if path.suffix.lower() == ".gguf" or path.name == MANIFEST_FILE]


def _read_manifest(path: Path) -> Manifest:
    try:
        with path.open("rb") as file:
            manifest = msgspec.json.decode(file.read(MAX_MANIFEST_BYTES), type=Manifest)
        msgspec.convert(manifest.chat.image_tokens, ImageTokens)  # only to check its range
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ModelUnusable(f"The {MANIFEST_FILE} of the model can't be used: {error}.") from error
    except OSError as error:
        raise ModelUnusable(f"{path.name} can't be read ({error.strerror}).") from error
    return manifest


def _copy(source: Path, target: Path, progress: Progress) -> StagedFile:
    """Copy a file to `target` while it is hashed. Raises: ModelUnusable, StorageFailed."""
    digest, done = hashlib.sha256(), 0
    try:
        file = source.open("rb")
    except OSError as error:
        raise ModelUnusable(f"{source.name} can't be read ({error.strerror}).") from error
    with file, translate_disk_errors(target.parent.parent):
        size_bytes = os.fstat(file.fileno()).st_size
        require_free_space(target.parent, size_bytes)
        with target.open("xb") as out:
            while chunk := _read_chunk(file, source.name):
                out.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                progress(f"copying {source.name}", done, size_bytes)
            out.flush()
            os.fsync(out.fileno())
    return StagedFile(target, ModelFile(source.name, done, digest.hexdigest()))


def _read_chunk(file: IO[bytes], name: str) -> bytes:
    try:
        return file.read(CHUNK_BYTES)
    except OSError as error:
        raise ModelUnusable(f"{name} can't be read ({error.strerror}).") from error


def test_and_publish(
    models: ModelStore, staged: Path, manifest: Manifest, paths: tuple[Path, Path], self_test: SelfTest
) -> None:
    """Move the checked files into the staging folder `staged`, test the model and publish it.

    `paths` are the text model and the vision encoder; they must be on the same drive as the models folder.
    Raises: ModelUnusable, StorageFailed.
    """
    text, mmproj = paths
    with translate_disk_errors(models.folder):
        text.rename(staged / TEXT_MODEL_FILE)
        mmproj.rename(staged / MMPROJ_FILE)
        write_json(staged / MANIFEST_FILE, manifest)
    model = VisionModel(
        manifest.name, staged / TEXT_MODEL_FILE, staged / MMPROJ_FILE, manifest.chat, gpu_layers=models.gpu_layers
    )
    try:
        self_test(model)
    except ModelUnusable as error:
        # the user knows the files by their original names
        names = {TEXT_MODEL_FILE: manifest.text.file, MMPROJ_FILE: manifest.mmproj.file}
        raise ModelUnusable(re.sub("|".join(names), lambda name: names[name[0]], error.message)) from error
    models.publish(staged, manifest.name)


def identify_pair(files: Sequence[StagedFile]) -> tuple[StagedFile, StagedFile]:
    """The text model and the vision encoder among `files`, according to their GGUF headers.

    Raises: ModelUnusable, if there is not one of each.
    """
    projectors = [file for file in files if is_vision_encoder(file.path, file.original.file)]
    texts = [file for file in files if file not in projectors]
    if len(texts) != 1 or len(projectors) != 1:
        given = [f"{file.original.file} (a text model)" for file in texts]
        given += [f"{file.original.file} (a vision encoder)" for file in projectors]
        raise ModelUnusable(
            "A vision model is one text model and the vision encoder (mmproj) made for it, two GGUF files;"
            f" given: {', '.join(given) or 'none'}."
        )
    return texts[0], projectors[0]


def is_vision_encoder(path: Path, name: str) -> bool:
    """Whether a GGUF file is a vision encoder (mmproj); else it is a text model. `name` is for messages.

    Only the architecture is read, which the writers of GGUF files put first; the self-test checks the rest.

    Raises: ModelUnusable, if the file can't be read or is no GGUF file.
    """
    try:
        with path.open("rb") as file:
            head = file.read(MAX_HEAD_BYTES)
    except OSError as error:
        raise ModelUnusable(f"{name} can't be read ({error.strerror}).") from error
    key = b"general.architecture"
    length, value = head.find(key) + len(key) + 4, head.find(key) + len(key) + 12
    if not head.startswith(b"GGUF") or key not in head or len(head) < value:
        raise ModelUnusable(f"{name} is not a GGUF file, or is damaged: it does not begin with an architecture.")
    return head[value : value + int.from_bytes(head[length:value], "little")] == PROJECTOR_ARCHITECTURE


def manifest_of(name: str, entry: Entry, text: ModelFile, mmproj: ModelFile, commit: str = "") -> Manifest:
    """The manifest of the model of a catalogue entry, made of two files of a commit; "" for the entry's revision."""
    return Manifest(
        name=name,
        text=text,
        mmproj=mmproj,
        chat=entry.chat,
        origin=f"{entry.repository}@{commit or entry.revision}",
        licence=entry.licence,
        languages=entry.languages,
        memory_mb=entry.memory_mb,
    )


def _require_valid_name(name: str) -> None:
    try:
        check_name(name)
    except ValueError as error:
        raise ModelUnusable(f"The model can't have this name: {error}.") from error


def _require_given_hashes(given: Sequence[str], files: Sequence[ModelFile]) -> None:
    """Raises: ModelUnusable, unless each SHA-256 in `given` is that of one of the files."""
    for sha256 in given:
        if sha256.lower() not in {file.sha256 for file in files}:
            actual = "; ".join(f"{file.file} has {file.sha256}" for file in files)
            raise ModelUnusable(f"No file has the SHA-256 {sha256}: {actual}.")


def _manifest(
    text: ModelFile,
    mmproj: ModelFile,
    supplied: Manifest | None,
    options: ImportOptions,
    catalogue: Mapping[str, Entry],
) -> Manifest:
    """The manifest of an imported model. Options override the `supplied` manifest, which overrides the catalogue.

    SHA-256 sums are not overridden: those of the manifest and of the catalogue entry with the model's name must match.
    Raises: ModelUnusable, if the model has no valid name or a SHA-256 differs.
    """
    listed_as = _name_in_catalogue(text, mmproj, catalogue)
    name = options.name or (supplied.name if supplied else None) or listed_as
    if name is None:
        raise ModelUnusable("These files are not in the catalogue, so the model has no name. Give it one with --name.")
    _require_valid_name(name)
    entry = catalogue.get(name)
    for source, stated_by in ((supplied, f"its {MANIFEST_FILE}"), (entry, f"the catalogue's {name!r}")):
        for file, expected in ((text, source and source.text), (mmproj, source and source.mmproj)):
            if expected and expected.sha256 not in ("", file.sha256):
                raise ModelUnusable(
                    f"{file.file} is not the file that {stated_by} names: expected the SHA-256 {expected.sha256},"
                    f" received {file.sha256}."
                )
    entry = entry or (catalogue[listed_as] if listed_as else None)
    if supplied:
        manifest = msgspec.structs.replace(supplied, name=name, text=text, mmproj=mmproj)
    elif entry:
        manifest = manifest_of(name, entry, text, mmproj)
    else:
        manifest = Manifest(name=name, text=text, mmproj=mmproj)
    given = {field: getattr(options, field) for field in ChatFormat.__struct_fields__}
    changes = {field: value for field, value in given.items() if value is not None}
    return msgspec.structs.replace(manifest, chat=msgspec.structs.replace(manifest.chat, **changes))


def _name_in_catalogue(text: ModelFile, mmproj: ModelFile, catalogue: Mapping[str, Entry]) -> str | None:
    """The name of the catalogue entry that has exactly these files; None if there is none."""
    sums = (text.sha256, mmproj.sha256)
    return next((name for name, entry in catalogue.items() if (entry.text.sha256, entry.mmproj.sha256) == sums), None)
