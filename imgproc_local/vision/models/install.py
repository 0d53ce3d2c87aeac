"""Installs a model: takes its two files from wherever they are, makes sure of them, and puts them in place as one.

A file counts for what its GGUF header says it is, never for its name. What is checked, in order: the headers, the
SHA-256 that somebody named (a manifest, the catalogue, the user), that the two belong together, and the proof.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.models.catalogue import CatalogueFile, Entry, ImageTokens, check_name
from imgproc_local.vision.models.gguf import MAGIC, check_pair, read_header
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.models.store import (
    CHUNK_BYTES,
    MANIFEST_FILE,
    MMPROJ_FILE,
    TEXT_FILE,
    Manifest,
    ModelFile,
    ModelStore,
    Report,
    check_room,
    disk_errors,
    write_json,
)

MAX_MANIFEST_BYTES = 65_536
MAX_TAR_MEMBERS = 1000
GZIP_MAGIC = b"\x1f\x8b"
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257

Prove = Callable[[VisionModel], None]
"""Makes sure that the model works here, keeping what it finds beside the files. Raises: ModelUnusable."""


class StagedFile(Struct, frozen=True):
    """A GGUF file that was copied into the folder being built."""

    path: Path
    part: ModelFile


class ImportOptions(Struct, frozen=True, kw_only=True):
    """What the user asked of an import; None where he said nothing."""

    name: str | None = None
    template: str | None = None
    image_tokens: int | None = None
    sha256: tuple[str, ...] = ()


def import_model(
    models: ModelStore,
    sources: Sequence[Path],
    wanted: ImportOptions,
    catalogue: Mapping[str, Entry],
    prove: Prove,
    report: Report,
) -> Manifest:
    """Install the model that `sources` hold: two GGUF files, a folder, or a tar (also .gz).

    Raises:
        ModelUnusable: they are not one whole model, not the one that was named, or it does not work.
        StorageFailed, DataFolderBusy: the folder of models can't be written, or another command holds it.
    """
    if wanted.name is not None:
        _checked_name(wanted.name)
        models.require_not_installed(wanted.name)
    with models.changing(), models.building() as built:
        came, brought = _Taking(built, report).all_of(sources)
        text, mmproj = identify_pair(came)
        _refuse_unnamed(wanted.sha256, (text.part, mmproj.part))
        manifest = _manifest(text.part, mmproj.part, brought, wanted, catalogue)
        models.require_not_installed(manifest.name)
        finish(models, built, manifest, (text.path, mmproj.path), prove)
    return manifest


def finish(models: ModelStore, built: Path, manifest: Manifest, files: tuple[Path, Path], prove: Prove) -> None:
    """Put checked files, text model first, that lie on the same drive, into `built`, prove the model and place it."""
    text, mmproj = files
    with disk_errors(models.folder):
        text.rename(built / TEXT_FILE)
        mmproj.rename(built / MMPROJ_FILE)
        write_json(built / MANIFEST_FILE, manifest)
    prove(
        VisionModel(
            manifest.name, built / TEXT_FILE, built / MMPROJ_FILE, manifest.chat, run_options=models.run_options
        )
    )
    models.place(built, manifest.name)


def identify_pair(came: Sequence[StagedFile]) -> tuple[StagedFile, StagedFile]:
    """The text model and its projector, told apart by their headers. Raises: ModelUnusable, where they are no pair."""
    headers = [read_header(one.path, one.part.file) for one in came]
    texts = [(one, header) for one, header in zip(came, headers, strict=True) if not header.is_projector]
    projectors = [(one, header) for one, header in zip(came, headers, strict=True) if header.is_projector]
    if len(texts) != 1 or len(projectors) != 1:
        found = [f"{one.part.file} (a text model)" for one, _ in texts]
        found += [f"{one.part.file} (a projector)" for one, _ in projectors]
        raise ModelUnusable(
            "A vision model is one text model and the projector (mmproj) made for it, two GGUF files;"
            f" {', '.join(found) or 'nothing'} came."
        )
    (text, text_header), (mmproj, mmproj_header) = texts[0], projectors[0]
    check_pair(text_header, mmproj_header)
    return text, mmproj


def require_hash(part: ModelFile, expected: str, whose: str) -> None:
    """Raises: ModelUnusable, where the file is not the one with the `expected` SHA-256; "" expects nothing."""
    if expected and part.sha256 != expected:
        raise ModelUnusable(
            f"{part.file} is not the file that {whose} names: its SHA-256 is {part.sha256}, expected was {expected}."
        )


def _checked_name(name: str) -> str:
    try:
        check_name(name)
    except ValueError as error:
        raise ModelUnusable(f"The name: {error}.") from error
    return name


def _refuse_unnamed(named: Sequence[str], parts: Sequence[ModelFile]) -> None:
    for sha256 in named:
        if sha256.lower() not in {part.sha256 for part in parts}:
            came = "; ".join(f"{part.file} has {part.sha256}" for part in parts)
            raise ModelUnusable(f"No file has the SHA-256 {sha256}: {came}.")


def _manifest(
    text: ModelFile, mmproj: ModelFile, brought: Manifest | None, wanted: ImportOptions, catalogue: Mapping[str, Entry]
) -> Manifest:
    """What the model is: by its own manifest, else by the catalogue, and by what the user said over both."""
    known = _known(text, mmproj, catalogue)
    name = wanted.name or (brought.name if brought else None) or known
    if name is None:
        raise ModelUnusable("These files are not in the catalogue, so the model has no name yet. Give it one: --name.")
    _checked_name(name)
    entry = catalogue.get(name)
    for part, beside, listed in (
        (text, brought.text if brought else None, entry.text if entry else None),
        (mmproj, brought.mmproj if brought else None, entry.mmproj if entry else None),
    ):
        if beside:
            require_hash(part, beside.sha256, f"its {MANIFEST_FILE}")
        if listed:
            require_hash(part, listed.sha256, f"the catalogue's {name!r}")
    entry = entry or (catalogue[known] if known else None)
    if brought:
        manifest = msgspec.structs.replace(brought, name=name, text=text, mmproj=mmproj)
    elif entry:
        manifest = manifest_of(name, entry, text, mmproj)
    else:
        manifest = Manifest(name=name, text=text, mmproj=mmproj)
    chat = manifest.chat
    if wanted.template is not None:
        chat = msgspec.structs.replace(chat, template=wanted.template)
    if wanted.image_tokens is not None:
        chat = msgspec.structs.replace(chat, image_tokens=wanted.image_tokens)
    return msgspec.structs.replace(manifest, chat=chat)


def _known(text: ModelFile, mmproj: ModelFile, catalogue: Mapping[str, Entry]) -> str | None:
    """The name of the catalogue's model with exactly these files."""

    def same(part: ModelFile, listed: CatalogueFile) -> bool:
        return bool(listed.sha256) and listed.sha256 == part.sha256

    names = (name for name, entry in catalogue.items() if same(text, entry.text) and same(mmproj, entry.mmproj))
    return next(names, None)


def manifest_of(name: str, entry: Entry, text: ModelFile, mmproj: ModelFile, revision: str = "") -> Manifest:
    """What the catalogue says of a model, with the files that came. `revision` is the commit they are of."""
    return Manifest(
        name=name,
        text=text,
        mmproj=mmproj,
        chat=entry.chat,
        origin=f"{entry.repository}@{revision or entry.revision}",
        licence=entry.licence,
        languages=entry.languages,
        memory_mb=entry.memory_mb,
    )


class _Taking:
    """Copies what is needed of some sources into a folder, hashing on the way, and nothing else of them."""

    def __init__(self, into: Path, report: Report) -> None:
        self._into = into
        self._report = report
        self._came: list[StagedFile] = []
        self._manifest: Manifest | None = None

    def all_of(self, sources: Sequence[Path]) -> tuple[list[StagedFile], Manifest | None]:
        for source in sources:
            if source.is_dir():
                with _reading(source.name):
                    # macOS writes a ._ file beside every other on drives that are not its own
                    files = sorted(
                        path for path in source.iterdir() if path.is_file() and not path.name.startswith("._")
                    )
                for path in files:
                    if path.suffix.lower() == ".gguf" or path.name == MANIFEST_FILE:
                        self._take_file(path)
            else:
                self._take_file(source)
        return self._came, self._manifest

    def _take_file(self, path: Path) -> None:
        if path.exists() and not path.is_file():
            raise ModelUnusable(f"{path.name} is no plain file.")
        with _reading(path.name), path.open("rb") as file:
            start = file.read(TAR_MAGIC_AT + len(TAR_MAGIC))
            file.seek(0)
            if start.startswith(MAGIC):
                read_header(path)  # before gigabytes of it are copied
                self._copy(file, os.fstat(file.fileno()).st_size, path.name)
            elif path.name == MANIFEST_FILE:
                self._read_manifest(file)
            elif start.startswith(GZIP_MAGIC):
                with gzip.open(file) as unzipped:
                    self._take_tar(path.name, _Measured(unzipped))
            elif start[TAR_MAGIC_AT:] == TAR_MAGIC:
                self._take_tar(path.name, _Measured(file))
            else:
                raise ModelUnusable(f"{path.name} is neither a GGUF file nor a tar of them.")

    def _take_tar(self, name: str, file: Any) -> None:
        """Every member is looked at and copied by hand: nothing is ever extracted to a place that the archive names."""
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for number, member in enumerate(tar):
                place = PurePosixPath(member.name.replace("\\", "/"))
                if number >= MAX_TAR_MEMBERS:
                    raise ModelUnusable(f"{name} holds more than {MAX_TAR_MEMBERS} files.")
                if place.is_absolute() or ".." in place.parts or not (member.isreg() or member.isdir()):
                    raise ModelUnusable(f"{name} holds {member.name!r}, which is no plain file inside it.")
                content = tar.extractfile(member) if member.isreg() else None
                if content is None or place.name.startswith("._"):
                    continue
                if place.suffix.lower() == ".gguf":
                    self._copy(content, member.size, place.name)
                elif place.name == MANIFEST_FILE:
                    self._read_manifest(content)

    def _read_manifest(self, file: IO[bytes]) -> None:
        try:
            self._manifest = msgspec.json.decode(file.read(MAX_MANIFEST_BYTES), type=Manifest)
            msgspec.convert(self._manifest.chat.image_tokens, ImageTokens)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ModelUnusable(f"The {MANIFEST_FILE} that came with the model can't be used: {error}.") from error

    def _copy(self, source: IO[bytes], size_bytes: int, name: str) -> None:
        if len(self._came) == 2:
            names = ", ".join([*(one.part.file for one in self._came), name])
            raise ModelUnusable(
                f"A vision model is one text model and its projector (mmproj), two GGUF files; more came: {names}."
                " Name the two that belong together."
            )
        with disk_errors(self._into.parent):
            check_room(self._into, size_bytes)
        target = self._into / f"came-{len(self._came)}.gguf"
        digest, left = hashlib.sha256(), size_bytes
        with disk_errors(self._into.parent):
            out = target.open("xb")
        with out:
            while left:
                chunk = source.read(min(CHUNK_BYTES, left))
                if not chunk:
                    raise ModelUnusable(f"{name} is cut off: {size_bytes - left:,} of {size_bytes:,} bytes came.")
                with disk_errors(self._into.parent):
                    out.write(chunk)
                digest.update(chunk)
                left -= len(chunk)
                self._report(f"copying {name}", size_bytes - left, size_bytes)
            with disk_errors(self._into.parent):
                out.flush()
                os.fsync(out.fileno())
        self._came.append(StagedFile(target, ModelFile(name, size_bytes, digest.hexdigest())))


class _Measured:
    """A file that refuses to be read in large pieces: an archive's header must not fill the memory."""

    MOST_BYTES = 4 * CHUNK_BYTES

    def __init__(self, file: IO[bytes] | gzip.GzipFile) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self.MOST_BYTES:
            raise tarfile.ReadError("a header of it is too large")
        return self._file.read(size)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Maps what goes wrong with a source."""
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ModelUnusable(f"{name} is damaged or cut off: {error}.") from error
    except OSError as error:
        raise ModelUnusable(f"{name} can't be read ({error.strerror}).") from error
