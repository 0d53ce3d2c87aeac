"""Stored thumbnails are bounded in bytes, deleted with their uploads, and made again if they are damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imgproc_local.storage.blobs import Blobs
from imgproc_local.storage.thumbnails import MIN_FILE_BYTES, ThumbnailFiles

WEBP = bytes(MIN_FILE_BYTES)


async def never_referenced(_: str) -> bool:
    return False


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path, never_referenced)


def name(number: int) -> str:
    return f"{number:064x}"


def store(blobs: Blobs, files: ThumbnailFiles, number: int, webp: bytes = WEBP) -> None:
    blobs.path(name(number)).parent.mkdir(exist_ok=True)
    blobs.path(name(number)).touch()
    files.write(name(number), webp)


def stored(blobs: Blobs) -> set[str]:
    return {path.stem for path in blobs.thumbnail_folder.iterdir()}


def test_what_was_not_used_for_the_longest_time_is_deleted(blobs: Blobs) -> None:
    files = ThumbnailFiles(blobs, max_bytes=4 * MIN_FILE_BYTES)
    for number in range(3):
        store(blobs, files, number)
    assert files.read(name(0)) == WEBP
    store(blobs, files, 3)
    assert stored(blobs) == {name(0), name(2), name(3)}
    store(blobs, files, 3, bytes(100))
    assert stored(blobs) == {name(0), name(2), name(3)}, "a file that is replaced is counted once"


def test_a_restart_keeps_the_order_and_removes_what_belongs_to_no_upload(blobs: Blobs) -> None:
    files = ThumbnailFiles(blobs)
    for number in range(4):
        store(blobs, files, number)
        os.utime(blobs.thumbnail_path(name(number)), (number, number))
    (blobs.thumbnail_folder / ".part").touch()
    again = ThumbnailFiles(blobs, max_bytes=3 * MIN_FILE_BYTES)
    assert again.sweep({name(number) for number in (1, 2, 3)}) == 2
    assert stored(blobs) == {name(2), name(3)}
    assert again.read(name(0)) is None


@pytest.mark.parametrize("damage", [b"", b"x", b"thumbnail 1\n" + bytes(100)])
def test_a_damaged_file_counts_as_missing(blobs: Blobs, damage: bytes) -> None:
    files = ThumbnailFiles(blobs)
    store(blobs, files, 1)
    path = blobs.thumbnail_path(name(1))
    for changed in (damage, path.read_bytes()[:-1], path.read_bytes() + b"x"):
        path.write_bytes(changed)
        assert files.read(name(1)) is None
    store(blobs, files, 1)
    assert files.read(name(1)) == WEBP


async def test_a_thumbnail_is_deleted_with_its_upload(blobs: Blobs) -> None:
    files = ThumbnailFiles(blobs)
    store(blobs, files, 1)
    await blobs.remove([name(1)])
    assert stored(blobs) == set()
    files.write(name(1), WEBP)
    assert stored(blobs) == set(), "it was made while the job was deleted"


async def test_deleted_thumbnails_do_not_count_as_stored_bytes(blobs: Blobs) -> None:
    files = ThumbnailFiles(blobs, max_bytes=4 * MIN_FILE_BYTES)
    for number in range(3):
        store(blobs, files, number)
    await blobs.remove([name(1), name(2)])
    for number in (3, 4):
        store(blobs, files, number)
    assert stored(blobs) == {name(0), name(3), name(4)}


def test_a_folder_that_can_not_be_written_costs_only_the_cache(blobs: Blobs) -> None:
    files = ThumbnailFiles(blobs)
    blobs.thumbnail_folder.rmdir()
    store(blobs, files, 1)
    assert files.read(name(1)) is None
