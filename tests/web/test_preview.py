"""Results that the page compares while a person chooses their options; none is stored."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from imgproc_local.engine.pipeline import Pipeline
from tests.faults import disk
from tests.support import pictures
from tests.support.service import Running, running
from tests.support.worker_pool import WAIT_S, wait_until

PICTURE = pictures.jpeg(320, 240)
UNKNOWN = "01arz3ndektsv4rrffq69g5fav"


def preview(page: httpx.Client, image_id: str, variant: str = "optimized", **options: Any) -> httpx.Response:
    return page.post("/local/preview", json={"image_id": image_id, "variant": variant, **options})


def test_a_preview_is_the_result_that_a_remake_would_store_and_stores_nothing(
    service: Running, page: httpx.Client
) -> None:
    image_id = service.process("process", PICTURE)["image"]["id"]
    before = service.client.get("/jobs", params={"include": "details"}).json()
    files = set(disk.stored_files(service.services.config.data_dir))
    options = {"format": "avif", "quality_target": 60, "max_width_px": 160}
    shown = {variant: preview(page, image_id, variant, **options) for variant in ("optimized", "converted")}
    assert [answer.status_code for answer in shown.values()] == [200, 200]
    for variant, kind in (("optimized", "JPEG"), ("converted", "AVIF")):
        answer, opened = shown[variant], Image.open(io.BytesIO(shown[variant].content))
        assert (opened.format, opened.size) == (kind, (160, 120))
        assert answer.headers["content-type"] == f"image/{kind.lower()}"
        assert int(answer.headers["content-length"]) == len(answer.content)
        assert answer.headers["cache-control"] == "no-store"
        assert 57 < float(answer.headers["x-score"]) < 63
    assert service.client.get("/jobs", params={"include": "details"}).json() == before
    assert set(disk.stored_files(service.services.config.data_dir)) == files
    assert disk.incoming_files(service.services.config.data_dir) == []
    service.client.post("/images/remake", json={"images": [{"image_id": image_id}], **options}).raise_for_status()
    for variant, answer in shown.items():
        path = f"/images/{image_id}/{variant}"
        assert wait_until(lambda path=path, answer=answer: service.client.get(path).content == answer.content)


def test_a_newer_preview_takes_the_place_of_one_that_is_being_made(
    service: Running, page: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    image_id = service.process("optimize", PICTURE)["image"]["id"]
    begun, run = threading.Event(), Pipeline.run

    def waits_until_it_is_cancelled(pipeline: Pipeline, stage: Any, work: Any, token: Any) -> Any:
        if work.plan.quality_target == 90:
            begun.set()
            token._cancelled.wait(WAIT_S)
        return run(pipeline, stage, work, token)

    monkeypatch.setattr(Pipeline, "run", waits_until_it_is_cancelled)
    with ThreadPoolExecutor(1) as pool:
        older = pool.submit(preview, page, image_id, quality_target=90)
        assert begun.wait(WAIT_S)
        assert preview(page, image_id, quality_target=60).status_code == 200
        answer = older.result(WAIT_S)
    assert answer.status_code == 409
    assert "Another preview" in answer.json()["message"]


def test_a_preview_is_for_pictures_of_the_page_and_says_why_it_is_not_made(
    service: Running, page: httpx.Client
) -> None:
    image_id = service.process("optimize", PICTURE)["image"]["id"]
    assert preview(page, UNKNOWN).status_code == 404
    with service.as_account("other") as other:
        foreign = other.process("optimize", PICTURE)["image"]["id"]
    assert preview(page, foreign).status_code == 404
    for options in ({"variant": "original"}, {"quality_target": 20}, {"format": "png"}, {"quality": "web"}):
        answer = page.post("/local/preview", json={"image_id": image_id, "variant": "optimized", **options})
        assert answer.status_code == 422, options
    for file in disk.stored_files(service.services.config.data_dir).values():
        file.unlink()
    answer = preview(page, image_id)
    assert (answer.status_code, "missing in the data folder" in answer.json()["message"]) == (422, True)
    key = {"Authorization": f"Bearer {service.key}"}
    body = {"image_id": image_id, "variant": "optimized"}
    assert httpx.post(f"{service.root}/local/preview", json=body, headers=key).status_code == 401


def test_a_stop_of_the_service_ends_a_preview_without_an_error_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun = threading.Event()

    def waits_until_it_is_cancelled(pipeline: Pipeline, stage: Any, work: Any, token: Any) -> Any:
        begun.set()
        token._cancelled.wait(WAIT_S)
        token.check()

    with ThreadPoolExecutor(1) as pool:
        with running(tmp_path) as service:
            image_id = service.process("optimize", PICTURE)["image"]["id"]
            page = httpx.Client(base_url=service.root, headers=service.page_session(), timeout=WAIT_S)
            monkeypatch.setattr(Pipeline, "run", waits_until_it_is_cancelled)
            waiting = pool.submit(preview, page, image_id)
            assert begun.wait(WAIT_S)
        assert waiting.result(WAIT_S).status_code == 409
    page.close()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
