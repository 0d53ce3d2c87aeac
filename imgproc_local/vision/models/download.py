"""Downloads a model of the catalogue and checks it, to install it here or to move it to another machine.

An unfinished download is named after the SHA-256 that the complete file must have, so that the next attempt finds and
resumes it.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.system.files import fsync_folder
from imgproc_local.vision.models.catalogue import Entry
from imgproc_local.vision.models.files import (
    Progress,
    hash_file,
    require_free_space,
    translate_disk_errors,
    write_json,
)
from imgproc_local.vision.models.hub import Hub, file_size
from imgproc_local.vision.models.install import SelfTest, identify_pair, manifest_of, test_and_publish
from imgproc_local.vision.models.manifest import MANIFEST_FILE, MMPROJ_FILE, TEXT_MODEL_FILE, Manifest, ModelFile
from imgproc_local.vision.models.sources import StagedFile
from imgproc_local.vision.models.store import ModelStore


def pull_model(models: ModelStore, name: str, entry: Entry, self_test: SelfTest, progress: Progress) -> Manifest:
    """Download a model and install it.

    Raises:
        ModelUnusable: the hub can't be reached or rejects the request, a file has another SHA-256 than expected, or the
            model does not work here.
        StorageFailed, DataFolderBusy: the models folder can't be written, or another command holds its lock.
    """
    models.require_not_installed(name)
    with models.locked():
        paths, manifest = _download(name, entry, models.partial_folder, progress)
        with models.staging_folder() as staged:
            try:
                test_and_publish(models, staged, manifest, paths, self_test)
            except BaseException:
                # moved back, so that the next attempt need not download the files again
                for path, file in zip(paths, (TEXT_MODEL_FILE, MMPROJ_FILE), strict=True):
                    with contextlib.suppress(OSError):
                        (staged / file).rename(path)
                raise
    return manifest


def pull_to(folder: Path, name: str, entry: Entry, progress: Progress) -> Manifest:
    """Download a model into `folder`, so that `import_model` can install it from there on another machine.

    `folder` may be missing, empty, or hold an unfinished download. Raises: as `pull_model`.
    """
    target = ModelStore(folder)
    with translate_disk_errors(folder):
        foreign = [path.name for path in folder.glob("*") if not path.name.startswith(".")] if folder.exists() else []
    if foreign:
        raise ModelUnusable(f"{folder} is not empty: it contains {foreign[0]}. Name a new or empty folder.")
    with target.locked():
        paths, manifest = _download(name, entry, target.partial_folder, progress)
        with translate_disk_errors(folder):
            for path, file in zip(paths, (TEXT_MODEL_FILE, MMPROJ_FILE), strict=True):
                path.rename(folder / file)
            # rmtree instead of rmdir, because the folder may also contain an earlier, unfinished download
            shutil.rmtree(target.partial_folder)
            write_json(folder / MANIFEST_FILE, manifest)
            fsync_folder(folder)
    target.remove_lock_file()
    return manifest


def _download(name: str, entry: Entry, folder: Path, progress: Progress) -> tuple[tuple[Path, Path], Manifest]:
    """Download and check both files of a model into `folder`.

    Returns the paths of the text model and the vision encoder, and their manifest.
    """
    hub = Hub()
    text = hub.find(entry, entry.text, entry.revision)
    mmproj = hub.find(entry, entry.mmproj, text.commit)
    with translate_disk_errors(folder.parent):
        folder.mkdir(exist_ok=True)
        missing = sum(remote.size_bytes - file_size(folder / remote.sha256) for remote in (text, mmproj))
        require_free_space(folder, missing)
    files = []
    for remote in (text, mmproj):
        path = folder / remote.sha256
        hub.download(entry, remote, path, progress)
        actual = hash_file(path, f"verifying {remote.catalogue_file.file}", progress)
        if actual != remote.sha256:
            path.unlink()
            raise ModelUnusable(
                f"{remote.catalogue_file.file} was corrupted during the download: its SHA-256 is {actual};"
                f" the hub reports {remote.sha256}."
                " Nothing was installed; pull the model again."
            )
        files.append(StagedFile(path, ModelFile(remote.catalogue_file.file, remote.size_bytes, actual)))
    text_file, mmproj_file = identify_pair(files)
    manifest = manifest_of(name, entry, text_file.original, mmproj_file.original, text.commit)
    return (text_file.path, mmproj_file.path), manifest
