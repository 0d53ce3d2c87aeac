"""Thumbnails, for clients and the page: made once, if need be before the stages run, or refused with the reason."""

from __future__ import annotations

import hashlib
import io
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from imgproc_local.engine import thumbnails
from imgproc_local.engine.pipeline import OnDemand
from imgproc_local.engine.thumbnails import ThumbnailSource
from tests.support import pictures, worker_functions
from tests.support.service import GatedDescriber, Running


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The files of which a thumbnail was made, each a moment after it was asked for."""
    files: list[bytes] = []
    run = OnDemand.run

    def counted(on_demand: OnDemand, function: Any, argument: Any, memory_bytes: int) -> Any:
        if isinstance(argument, ThumbnailSource):
            files.append(argument.path)
            time.sleep(0.3)
        return run(on_demand, function, argument, memory_bytes)

    monkeypatch.setattr(OnDemand, "run", counted)
    return files


def upload(service: Running, seed: int = 1) -> str:
    """The id of the image of a new job."""
    job = service.dispatch("optimize", pictures.jpeg(800, 600, seed))
    image_id: str = service.job(job["job_id"])["image"]["id"]
    return image_id


def get(service: Running, image_id: str, **headers: str) -> httpx.Response:
    return service.client.get(f"/images/{image_id}/thumbnail", headers=headers)


def thumbnail_file(service: Running, webp: bytes) -> Path:
    return service.services.blobs.path(hashlib.sha256(webp).hexdigest())


def test_a_thumbnail_is_made_once_and_may_be_cached_for_ever(service: Running, made: list[bytes]) -> None:
    image_id = upload(service)
    answer = get(service, image_id)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/webp")
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert Image.open(io.BytesIO(answer.content)).size == (512, 384)
    assert get(service, image_id).content == answer.content
    current = get(service, image_id, **{"If-None-Match": answer.headers["etag"]})
    assert (current.status_code, current.content) == (304, b"")
    head = service.client.head(f"/images/{image_id}/thumbnail")
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", answer.headers["etag"])
    with service.client_for(service.make_key("another")) as other:
        assert other.get(f"/images/{image_id}/thumbnail").status_code == 404
    assert httpx.get(f"{service.url}/images/{image_id}/thumbnail").status_code == 401
    assert len(made) == 1
    thumbnail_file(service, answer.content).write_bytes(b"damaged")
    assert get(service, image_id).content == answer.content
    assert len(made) == 2, "a damaged one is made again"


def test_simultaneous_requests_share_one_thumbnail(service: Running, made: list[bytes]) -> None:
    images = [upload(service, seed) for seed in (10, 11, 12, 13, 14)]
    with ThreadPoolExecutor(11) as pool:
        answers = list(pool.map(lambda image_id: get(service, image_id), images + images[:1] * 6))
    assert [answer.status_code for answer in answers] == [200] * 11
    assert len({answer.content for answer in answers}) == len(made) == 5


def test_a_thumbnail_is_there_before_the_picture_is_processed_and_deleted_with_it(
    gated: Running, describer: GatedDescriber
) -> None:
    describer.open.clear()
    job = gated.job(gated.dispatch("analyze", pictures.png())["job_id"])
    file = thumbnail_file(gated, get(gated, job["image"]["id"]).raise_for_status().content)
    assert gated.job(job["job_id"])["status"] != "completed"
    assert file.exists()
    gated.client.delete(f"/jobs/{job['job_id']}").raise_for_status()
    describer.open.set()
    assert get(gated, job["image"]["id"]).status_code == 404
    assert not file.exists()


@pytest.mark.parametrize("crashes", [False, True])
def test_a_hostile_picture_is_refused_with_the_reason_and_not_decoded_again(
    gated: Running, monkeypatch: pytest.MonkeyPatch, made: list[bytes], crashes: bool
) -> None:
    message = "No thumbnail can be made of this picture: its data is damaged"
    if crashes:
        message = "This picture ended the process that worked on it"
        monkeypatch.setattr(thumbnails, "make_thumbnail", worker_functions.crash_on_a_thumbnail)
    picture = pictures.jpeg(seed=41) if crashes else pictures.broken_jpeg()
    job = gated.final(gated.dispatch("optimize", picture)["job_id"])
    for _ in range(3):
        answer = get(gated, job["image"]["id"])
        assert answer.status_code == 422
        assert answer.json()["message"].startswith(message)
        assert list(answer.json()["errors"]) == ["image"]
    assert len(made) == 1
    assert httpx.get(f"{gated.root}/healthz").status_code == 200
