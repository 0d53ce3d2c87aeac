"""Stores finished images for exports, and requests and opens their archives."""

from __future__ import annotations

import hashlib
import io
import zipfile
from typing import Any

import httpx

from imgproc_local.domain.image import Format
from imgproc_local.domain.job import Job
from tests.support.finished import Result, add_job, text
from tests.support.service import Running


def content(label: str, size: int = 2000) -> bytes:
    """Bytes that stand for a picture: an export reads no pixels."""
    return hashlib.shake_128(label.encode()).digest(size)


def add(service: Running, label: str, **options: Any) -> Job:
    """A finished job with three files, or with what `options` say."""
    options = {
        "optimized": Result(content(f"{label} optimized"), Format.JPEG),
        "converted": Result(content(f"{label} converted"), Format.WEBP),
        "texts": [text("en", label)],
    } | options
    return service.run(add_job(service.services, content(label), account=service.account, **options))


def post(service: Running, **body: Any) -> httpx.Response:
    return service.client.post("/exports", json={"write_texts": False, **body})


def archive(answer: httpx.Response) -> dict[str, bytes]:
    """The files of an archive by name."""
    assert answer.status_code == 200, answer.text
    with zipfile.ZipFile(io.BytesIO(answer.content)) as opened:
        assert opened.testzip() is None
        streamable = not any(entry.flag_bits & 0x08 for entry in opened.infolist())
        assert streamable, "programs that unpack a stream can't read a stored entry whose size follows it"
        names = opened.namelist()
        assert len(names) == len(set(names))
        return {name: opened.read(name) for name in names}
