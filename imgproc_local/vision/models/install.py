"""Installs vision models, and the networks of `ocr`: downloads or copies their files, checks them, tests the model, and
renames its folder into place.

The checks are: the signature of the manifest, if one is required; whether there is a text model and a vision encoder;
their SHA-256 sums, if the user, a manifest or the catalogue states them; and last the self-test, whether they belong
together and the model works on this machine. A file that the user names may have any name: its first bytes tell its
type. In a folder, only `MANIFEST_FILE`, its signature and names that end in .gguf are read.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.system.files import copy_durably, open_own_file
from imgproc_local.vision.models import model, networks, store
from imgproc_local.vision.models.model import MANIFEST_FILE, Manifest, ModelFile, VisionModel, read_catalogue
from imgproc_local.vision.models.signature import SIGNATURE_FILE, require_signature
from imgproc_local.vision.models.store import OCR, ModelStore, Progress

AIR_GAPPED = (
    "air_gapped is true: nothing is downloaded. Run `models pull NAME --to DIR` on a connected machine,"
    " copy DIR to this machine, and run `imgproc-local models import DIR` there."
)

_SelfTest = Callable[[VisionModel], None]
"""A function that tests a model on this machine and stores the result beside the model's files.

It raises ModelUnusable if the model does not work."""


class ImportOptions(Struct, frozen=True, kw_only=True):
    """The options of `models import`; None is an option not given. One of the files must have each sum in `sha256`, and
    the manifest a signature by a key in the file `signers`.
    """

    name: str | None = None
    template: str | None = None
    image_tokens: int | None = None
    answer_opening: str | None = None
    sha256: tuple[str, ...] = ()
    signers: Path | None = None


def catalogue_entry(name: str) -> Manifest:
    """Raises: ModelUnusable, if the catalogue has no such model."""
    catalogue = read_catalogue()
    if name not in catalogue:
        raise ModelUnusable(f"{name[:80]!r} is not in the catalogue. Available: {', '.join(catalogue)}.")
    return catalogue[name]


def pull(models: ModelStore, name: str, self_test: _SelfTest, progress: Progress) -> Manifest | None:
    """Download, test and install a model of the catalogue, or `ocr`, whose manifest is None. What was downloaded stays
    for the next attempt if this fails.

    Raises: as `import_`; also if the server can't be reached or rejects the request.
    """
    if name == OCR and networks.is_frozen():
        raise ModelUnusable(
            "This program does not include the libraries that read text in pictures. They are installed with the extra"
            " ocr of the Python package imgproc-local."
        )
    entry = None if name == OCR else catalogue_entry(name)
    models.require_not_installed(name)
    with models.locked():
        folder = models.partial(name)
        _download(entry, folder, progress)
        if entry is not None:
            _test_and_publish(models, folder, entry, self_test)
        else:
            networks.install(models, folder / networks.WHEEL.file, progress)
            shutil.rmtree(folder)
    return entry


def pull_to(folder: Path, name: str, progress: Progress) -> None:
    """Download into `folder`, so that `import_` can install it from there on another machine.

    `folder` may be missing, empty, or hold an unfinished download; hidden files in it are ignored. It is not created
    if nothing can be downloaded. Raises: as `pull`.
    """
    entry = None if name == OCR else catalogue_entry(name)
    is_new = not folder.exists()
    with store.translate_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        files = {path.name.removesuffix(".part") for path in folder.iterdir() if not path.name.startswith(".")}
    if entry is not None and (foreign := files - {MANIFEST_FILE, SIGNATURE_FILE, *entry.files()}):
        raise ModelUnusable(f"{folder} is not empty: it contains {min(foreign)}. Name a new or empty folder.")
    try:
        _download(entry, folder, progress)
    except BaseException:
        if is_new:
            with suppress(OSError):  # it has what can be resumed
                folder.rmdir()
        raise


def _download(entry: Manifest | None, folder: Path, progress: Progress) -> None:
    """Download a model of the catalogue, or the networks if `entry` is None, into `folder`. Raises: as `pull`."""
    if entry is None:
        networks.download(folder, progress)
    else:
        from imgproc_local.vision.models.download import download_model

        download_model(entry, folder, progress)


def import_(
    models: ModelStore, sources: Sequence[Path], options: ImportOptions, self_test: _SelfTest, progress: Progress
) -> Manifest | None:
    """Install the model in `sources`: two GGUF files, or a folder with them; or `ocr` from its wheel. Returns the
    manifest of the model, None for `ocr`.

    Raises:
        ModelUnusable: the sources are not one complete model, a SHA-256 differs, or the model does not work.
        StorageFailed, DataFolderBusy: the models folder can't be written, or another command holds its lock.
    """
    if (wheel := networks.wheel_in(sources)) is not None:
        if options != ImportOptions(signers=options.signers):
            raise ModelUnusable(f"The name and the SHA-256 of {OCR} are fixed: leave out all options.")
        models.require_not_installed(OCR)
        with models.locked():
            networks.install(models, wheel, progress)
        return None
    if options.name is not None:
        model.require_name(options.name)
        models.require_not_installed(options.name)
    paths = [path for source in sources for path in _files_of(source)]
    supplied = next((_read_manifest(path, options.signers) for path in paths if path.name == MANIFEST_FILE), None)
    if options.signers and not supplied:
        raise ModelUnusable(f"A signature is required: name a folder with {MANIFEST_FILE} and {SIGNATURE_FILE}.")
    # so that an incomplete or damaged model is rejected before it is copied, which takes long
    text, mmproj = _identify_pair([path for path in paths if path.name != MANIFEST_FILE])
    with models.locked(), models.staging_folder() as staged:
        copied_text = _copy(text, staged / model.TEXT_MODEL_FILE, progress)
        copied_mmproj = _copy(mmproj, staged / model.MMPROJ_FILE, progress)
        manifest = _manifest(copied_text, copied_mmproj, supplied, options)
        models.require_not_installed(manifest.name)
        store.write_json(staged / MANIFEST_FILE, manifest)
        _test_and_publish(models, staged, manifest, self_test)
    return manifest


def verify(models: ModelStore, name: str, progress: Progress) -> None:
    """Check that the installed files have their SHA-256 sums. Raises: ModelUnusable."""
    files = networks.NETWORKS if name == OCR else models.manifest(name).files()
    store.verify_files(models.folder / name, files, progress)


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


def _read_manifest(path: Path, signers: Path | None) -> Manifest:
    try:
        with open_own_file(path) as file:
            content = file.read(1024 * 1024)
        if signers is not None:  # of the same bytes that are used: a drive may send others the second time
            require_signature(content, path.with_name(SIGNATURE_FILE), signers)
        return msgspec.json.decode(content, type=Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        problem = f"The {MANIFEST_FILE} of the model can't be used: it is no manifest of this program."
        raise ModelUnusable(problem) from error


def _copy(source: Path, target: Path, progress: Progress) -> ModelFile:
    """Copy a file to `target` and hash the copy. Raises: ModelUnusable, StorageFailed, OSError."""
    store.require_free_space(target.parent, source.stat().st_size)
    copy_durably(source, target)
    return ModelFile(source.name, target.stat().st_size, store.hash_file(target, f"verifying {source.name}", progress))


def _test_and_publish(models: ModelStore, staged: Path, manifest: Manifest, self_test: _SelfTest) -> None:
    """Test the model in `staged`, make it an installed one, and select it if nothing was selected yet.

    Raises: ModelUnusable, StorageFailed.
    """
    paths = (staged / model.TEXT_MODEL_FILE, staged / model.MMPROJ_FILE)
    try:
        self_test(VisionModel(manifest.name, *paths, manifest.chat, gpu_layers=models.gpu_layers))
    except ModelUnusable as error:
        # the user knows the files by their original names
        names = {name: file.file for name, file in manifest.files().items()}
        raise ModelUnusable(re.sub("|".join(names), lambda name: names[name[0]], error.message)) from error
    models.publish(staged, manifest.name)
    if not models.selected():
        models.select(manifest.name)


def _identify_pair(paths: Sequence[Path]) -> tuple[Path, Path]:
    """The text model and the vision encoder among `paths`, according to their GGUF headers.

    Raises: ModelUnusable, if there is not one of each, or a file can't be read or is no GGUF file.
    """
    kinds = [(path, "a vision encoder" if _is_vision_encoder(path) else "a text model") for path in paths]
    if sorted(kind for _, kind in kinds) != ["a text model", "a vision encoder"]:
        given = ", ".join(f"{path.name} ({kind})" for path, kind in kinds)
        raise ModelUnusable(
            "A vision model is one text model and the vision encoder (mmproj) made for it, two GGUF files;"
            f" given: {given or 'none'}. Name the two that belong together."
        )
    first, second = paths
    return (first, second) if kinds[0][1] == "a text model" else (second, first)


def _is_vision_encoder(path: Path) -> bool:
    """Whether a GGUF file is a vision encoder (mmproj); else it is a text model.

    Only the architecture is read, which the writers of GGUF files put first; the self-test checks the rest.

    Raises: ModelUnusable, if the file can't be read or is no GGUF file.
    """
    try:
        with path.open("rb") as file:
            head = file.read(65_536)
    except OSError as error:
        raise ModelUnusable(f"{path.name} can't be read ({error.strerror}).") from error
    # the key, the type of its value, and the length of the value
    architecture = re.search(rb"general\.architecture.{4}(.{8})", head, re.DOTALL)
    if not head.startswith(b"GGUF") or architecture is None:
        raise ModelUnusable(f"{path.name} is not a GGUF file, or is damaged: it does not begin with an architecture.")
    return head[architecture.end() :][: int.from_bytes(architecture[1], "little")] == b"clip"


def _manifest(text: ModelFile, mmproj: ModelFile, supplied: Manifest | None, options: ImportOptions) -> Manifest:
    """The manifest of an imported model. Options override the `supplied` manifest, which overrides the catalogue.

    SHA-256 sums are not overridden: those of the options, the manifest and the catalogue entry with the model's name
    must match. Raises: ModelUnusable, if one does not, or the model has no valid name.
    """
    for sha256 in options.sha256:
        if sha256.lower() not in (text.sha256, mmproj.sha256):
            actual = f"{text.file} has {text.sha256}; {mmproj.file} has {mmproj.sha256}"
            raise ModelUnusable(f"No file has the SHA-256 {sha256}: {actual}.")
    catalogue = read_catalogue()
    sums = (text.sha256, mmproj.sha256)
    listed = next((entry for entry in catalogue.values() if (entry.text.sha256, entry.mmproj.sha256) == sums), None)
    known = supplied or listed
    name = options.name or (known.name if known else None)
    if name is None:
        raise ModelUnusable("These files are not in the catalogue, so the model has no name. Give it one with --name.")
    model.require_name(name)
    for stated, stated_by in ((supplied, f"its {MANIFEST_FILE}"), (catalogue.get(name), f"the catalogue's {name!r}")):
        for file, expected in ((text, stated and stated.text), (mmproj, stated and stated.mmproj)):
            if expected and expected.sha256 != file.sha256:
                raise ModelUnusable(
                    f"{file.file} is not the file that {stated_by} names: expected the SHA-256 {expected.sha256},"
                    f" received {file.sha256}."
                )
    manifest = msgspec.structs.replace(known or Manifest(text=text, mmproj=mmproj), name=name, text=text, mmproj=mmproj)
    given = {field: getattr(options, field) for field in model.ChatFormat.__struct_fields__}
    changes = {field: value for field, value in given.items() if value is not None}
    return msgspec.structs.replace(manifest, chat=msgspec.structs.replace(manifest.chat, **changes))
