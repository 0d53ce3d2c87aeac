"""Installs a model: checks its two files, tests the model, and moves it into the models folder by one rename.

The checks are: the GGUF headers; whether the two files belong together; their SHA-256 sums, if the user, a manifest or
the catalogue states them; and last the self-test, whether the model works on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.models.catalogue import CatalogueFile, Entry, check_name
from imgproc_local.vision.models.files import Progress, translate_disk_errors, write_json
from imgproc_local.vision.models.gguf import check_pair, read_header
from imgproc_local.vision.models.manifest import MANIFEST_FILE, MMPROJ_FILE, TEXT_MODEL_FILE, Manifest, ModelFile
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.models.sources import StagedFile, Staging
from imgproc_local.vision.models.store import ModelStore

SelfTest = Callable[[VisionModel], None]
"""A function that tests a model on this machine and stores the result beside the model's files.

It raises ModelUnusable if the model does not work."""


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
    """Install the model in `sources`: two GGUF files, a folder, or a tar archive (also .tar.gz). Returns its manifest.

    Raises:
        ModelUnusable: the sources are not one complete model, a SHA-256 differs, or the model does not work.
        StorageFailed, DataFolderBusy: the models folder can't be written, or another command holds its lock.
    """
    if options.name is not None:
        _require_valid_name(options.name)
        models.require_not_installed(options.name)
    with models.locked(), models.staging_folder() as staged:
        staging = Staging(staged, progress)
        staging.add(sources)
        text, mmproj = identify_pair(staging.files)
        _require_given_hashes(options.sha256, (text.original, mmproj.original))
        manifest = _manifest(text.original, mmproj.original, staging.manifest, options, catalogue)
        models.require_not_installed(manifest.name)
        test_and_publish(models, staged, manifest, (text.path, mmproj.path), self_test)
    return manifest


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
    self_test(
        VisionModel(
            manifest.name, staged / TEXT_MODEL_FILE, staged / MMPROJ_FILE, manifest.chat, gpu_layers=models.gpu_layers
        )
    )
    models.publish(staged, manifest.name)


def identify_pair(files: Sequence[StagedFile]) -> tuple[StagedFile, StagedFile]:
    """The text model and the vision encoder among `files`, according to their GGUF headers.

    Raises: ModelUnusable, if there is not one of each or they don't belong together.
    """
    headers = [(file, read_header(file.path, file.original.file)) for file in files]
    texts = [(file, header) for file, header in headers if not header.is_projector]
    projectors = [(file, header) for file, header in headers if header.is_projector]
    if len(texts) != 1 or len(projectors) != 1:
        given = [f"{file.original.file} (a text model)" for file, _ in texts]
        given += [f"{file.original.file} (a vision encoder)" for file, _ in projectors]
        raise ModelUnusable(
            "A vision model is one text model and the vision encoder (mmproj) made for it, two GGUF files;"
            f" given: {', '.join(given) or 'none'}."
        )
    (text, text_header), (mmproj, mmproj_header) = texts[0], projectors[0]
    check_pair(text_header, mmproj_header)
    return text, mmproj


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


def _require_hash(file: ModelFile, expected: str, stated_by: str) -> None:
    """Raises: ModelUnusable, if the SHA-256 of `file` is not `expected`, unless that is ""."""
    if expected and file.sha256 != expected:
        raise ModelUnusable(
            f"{file.file} is not the file that {stated_by} names: expected the SHA-256 {expected},"
            f" received {file.sha256}."
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
    for file, in_manifest, in_catalogue in (
        (text, supplied.text if supplied else None, entry.text if entry else None),
        (mmproj, supplied.mmproj if supplied else None, entry.mmproj if entry else None),
    ):
        if in_manifest:
            _require_hash(file, in_manifest.sha256, f"its {MANIFEST_FILE}")
        if in_catalogue:
            _require_hash(file, in_catalogue.sha256, f"the catalogue's {name!r}")
    entry = entry or (catalogue[listed_as] if listed_as else None)
    if supplied:
        manifest = msgspec.structs.replace(supplied, name=name, text=text, mmproj=mmproj)
    elif entry:
        manifest = manifest_of(name, entry, text, mmproj)
    else:
        manifest = Manifest(name=name, text=text, mmproj=mmproj)
    chat = manifest.chat
    if options.template is not None:
        chat = msgspec.structs.replace(chat, template=options.template)
    if options.image_tokens is not None:
        chat = msgspec.structs.replace(chat, image_tokens=options.image_tokens)
    if options.answer_opening is not None:
        chat = msgspec.structs.replace(chat, answer_opening=options.answer_opening)
    return msgspec.structs.replace(manifest, chat=chat)


def _name_in_catalogue(text: ModelFile, mmproj: ModelFile, catalogue: Mapping[str, Entry]) -> str | None:
    """The name of the catalogue entry that has exactly these files; None if there is none."""

    def has_same_sum(file: ModelFile, listed: CatalogueFile) -> bool:
        return bool(listed.sha256) and listed.sha256 == file.sha256

    names = (
        name
        for name, entry in catalogue.items()
        if has_same_sum(text, entry.text) and has_same_sum(mmproj, entry.mmproj)
    )
    return next(names, None)
