"""Blobs are written atomically, kept while a row references them, and deleted afterwards."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from imgproc_local.domain.errors import StorageFailed
from imgproc_local.storage.blobs import Blobs


class References:
    """A fake database: the SHA-256 digests that rows reference."""

    def __init__(self) -> None:
        self.digests: set[str] = set()

    async def __call__(self, sha256: str) -> bool:
        await asyncio.sleep(0)
        return sha256 in self.digests


@pytest.fixture
def references() -> References:
    return References()


@pytest.fixture
def blobs(tmp_path: Path, references: References) -> Blobs:
    return Blobs(tmp_path, references)


async def test_identical_content_is_stored_once(blobs: Blobs, references: References) -> None:
    for _ in range(2):
        async with blobs.put(b"content") as blob:
            references.digests.add(blob.sha256)
    assert [file.read_bytes() for file in blobs.on_disk()] == [b"content"]
    assert list(blobs.incoming_folder.iterdir()) == []


async def test_an_unreferenced_blob_is_deleted_when_its_block_raises(blobs: Blobs) -> None:
    with pytest.raises(RuntimeError):
        async with blobs.put(b"content"):
            raise RuntimeError
    assert blobs.on_disk() == []


async def test_an_incomplete_upload_leaves_nothing(blobs: Blobs) -> None:
    with pytest.raises(RuntimeError), blobs.incoming() as incoming:
        incoming.write(b"half")
        raise RuntimeError
    assert list(blobs.incoming_folder.iterdir()) == []


async def test_a_removal_keeps_a_blob_that_a_concurrent_upload_references(blobs: Blobs, references: References) -> None:
    async def upload() -> str:
        async with blobs.put(b"shared") as blob:
            await asyncio.sleep(0)
            references.digests.add(blob.sha256)
        return blob.sha256

    for _ in range(50):
        sha256 = await upload()
        references.digests.clear()
        # the job is deleted while the same picture is uploaded again
        _, sha256 = await asyncio.gather(blobs.remove([sha256]), upload())
        assert blobs.path(sha256).read_bytes() == b"shared"


async def test_sweep_deletes_unreferenced_blobs_and_partial_uploads(blobs: Blobs, references: References) -> None:
    async with blobs.put(b"referenced") as referenced:
        pass
    async with blobs.put(b"left"):
        pass
    (blobs.incoming_folder / "half.part").write_bytes(b"half")
    assert blobs.sweep({referenced.sha256}) == 2
    assert [file.name for file in blobs.on_disk()] == [referenced.sha256]


async def test_a_full_disk_is_reported_and_leaves_nothing(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_disk_full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", raise_disk_full)
    with pytest.raises(StorageFailed, match="full"):
        async with blobs.put(b"content"):
            pass
    monkeypatch.undo()
    assert blobs.on_disk() == []
    assert list(blobs.incoming_folder.iterdir()) == []


async def test_a_truncated_blob_is_replaced(blobs: Blobs, references: References) -> None:
    async with blobs.put(b"content") as blob:
        references.digests.add(blob.sha256)
    blobs.path(blob.sha256).write_bytes(b"con")
    async with blobs.put(b"content"):
        pass
    assert blobs.path(blob.sha256).read_bytes() == b"content"
