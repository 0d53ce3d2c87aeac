"""Blobs are written atomically, kept while a row references them, and deleted afterwards."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from imgproc_local.domain.errors import StorageFailed
from imgproc_local.storage.blobs import Blob, Blobs


@asynccontextmanager
async def put(blobs: Blobs, content: bytes) -> AsyncIterator[Blob]:
    """`content` stored as an upload is."""
    with blobs.incoming() as incoming:
        await asyncio.to_thread(incoming.write, content)
        async with blobs.stored(incoming) as blob:
            yield blob


@pytest.fixture
def references() -> set[str]:
    """The SHA-256 digests that rows of the database reference."""
    return set()


@pytest.fixture
def blobs(tmp_path: Path, references: set[str]) -> Blobs:
    async def is_referenced(sha256: str) -> bool:
        await asyncio.sleep(0)
        return sha256 in references

    return Blobs(tmp_path, is_referenced)


async def test_a_removal_keeps_a_blob_that_a_concurrent_upload_references(blobs: Blobs, references: set[str]) -> None:
    async def upload() -> str:
        async with put(blobs, b"shared") as blob:
            await asyncio.sleep(0)
            references.add(blob.sha256)
        return blob.sha256

    for _ in range(50):
        sha256 = await upload()
        references.clear()
        # the job is deleted while the same picture is uploaded again
        _, sha256 = await asyncio.gather(blobs.remove([sha256]), upload())
        assert blobs.path(sha256).read_bytes() == b"shared"


async def test_sweep_deletes_unreferenced_blobs_and_partial_uploads(
    blobs: Blobs, references: set[str], tmp_path: Path
) -> None:
    async with put(blobs, b"referenced") as referenced:
        pass
    async with put(blobs, b"left"):
        pass
    (blobs.incoming_folder / "half.part").write_bytes(b"half")
    (blobs.incoming_folder / "folder.part").mkdir()
    (blobs.path(referenced.sha256).parent / "folder").mkdir()
    older_thumbnails = tmp_path / "thumbnails"
    older_thumbnails.mkdir()
    (older_thumbnails / f"{'a' * 64}.webp").touch()
    assert blobs.sweep({referenced.sha256}) == 2
    assert not older_thumbnails.exists()
    assert [file.name for file in blobs.on_disk()] == [referenced.sha256]


async def test_the_second_upload_is_refused_if_its_file_can_not_be_made_durable(
    blobs: Blobs, references: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with put(blobs, b"content") as blob:
        references.add(blob.sha256)

    def fail(_: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("imgproc_local.storage.blobs.fsync_folder", fail)
    with pytest.raises(StorageFailed, match="Input/output error"):
        async with put(blobs, b"content"):
            pass


@pytest.mark.parametrize("is_stored_again", [False, True])
async def test_a_leased_file_is_removed_after_its_lease(
    blobs: Blobs, references: set[str], is_stored_again: bool
) -> None:
    async with put(blobs, b"content") as blob:
        references.add(blob.sha256)
    async with blobs.leased([blob.sha256]):
        async with blobs.leased([blob.sha256]):
            references.clear()
            await blobs.remove([blob.sha256])
        assert len(blobs.on_disk()) == 1
        if is_stored_again:
            async with put(blobs, b"content"):
                references.add(blob.sha256)
    assert len(blobs.on_disk()) == is_stored_again
