"""`format=jxl`, and `GET /images/{id}/converted?as=jpeg`, the JPEG that a JPEG XL was made of without loss."""

from __future__ import annotations

import httpx
import pytest

from imgproc_local.codecs.picture import formats
from tests.codecs import pictures
from tests.codecs.pictures import jpeg_with_metadata
from tests.support.service import Running
from tests.support.worker_pool import wait_until

JPEG = pictures.saved(pictures.photo(), "JPEG", quality=90)
NEEDS = "as=jpeg needs a JPEG XL that was made of a JPEG without loss; this {} is none."


def converted(service: Running, data: bytes, target: str = "jxl", name: str = "boat.jpg") -> str:
    """The address of the converted file."""
    image = service.process("convert", data, name, format=target)["image"]
    assert image["converted_format"] == target
    return f"/images/{image['id']}/converted"


def test_a_jpeg_becomes_a_jpeg_xl_that_gives_it_back(service: Running) -> None:
    path = converted(service, JPEG)
    jxl = service.client.get(path)
    assert jxl.headers["content-type"] == "image/jxl"
    assert jxl.headers["content-disposition"] == 'attachment; filename="boat.jxl"'
    assert len(jxl.content) < 0.95 * len(JPEG)
    answer = service.client.get(path, params={"as": "jpeg"})
    assert answer.content == JPEG
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.headers["content-disposition"] == 'attachment; filename="boat.jpg"'
    assert answer.headers["etag"] not in ("", jxl.headers["etag"])
    current = {"If-None-Match": answer.headers["etag"]}
    assert service.client.get(path, params={"as": "jpeg"}, headers=current).status_code == 304
    assert service.client.get(path, headers=current).status_code == 200
    export = {"images": [path.split("/")[2]], "variants": ["converted"], "allow_needs_text": True, "dry_run": True}
    assert service.client.post("/exports", json=export).json()["data"]["names"] == ["boat.jxl"]
    head = service.client.head(path, params={"as": "jpeg"})
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(JPEG)))
    folder = service.services.blobs.incoming_folder
    assert wait_until(lambda: not any(folder.iterdir()), 10), "the files that were sent are deleted"


def test_private_data_is_not_in_the_jpeg_that_it_gives_back(service: Running) -> None:
    jpeg = service.client.get(converted(service, jpeg_with_metadata()), params={"as": "jpeg"}).content
    assert jpeg.startswith(b"\xff\xd8")
    assert b"PRIVATE" not in jpeg


def test_other_files_and_values_are_refused_in_words(service: Running) -> None:
    for data, target, name in (
        (pictures.saved(pictures.photo(), "PNG"), "jxl", "JPEG XL"),
        (JPEG, "webp", "WebP"),
        (JPEG, "avif", "AVIF"),
    ):
        answer = service.client.get(converted(service, data, target), params={"as": "jpeg"})
        assert (answer.status_code, answer.json()["errors"]) == (422, {"as": [NEEDS.format(name)]})
    answer = service.client.get(converted(service, JPEG), params={"as": "png"})
    assert (answer.status_code, answer.json()["message"]) == (422, "as must be jpeg; received 'png'.")
    image = service.process("optimize", JPEG)["image"]["id"]
    assert service.client.get(f"/images/{image}/converted", params={"as": "jpeg"}).status_code == 404


def test_where_its_codec_is_missing_the_answer_says_what_to_install(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, stored = service.process("convert", JPEG)["image"]["id"], converted(service, JPEG)
    monkeypatch.setattr(formats, "can_use_jxl", lambda: False)
    wanted = {"image_id": image, "variant": "converted", "format": "jxl"}
    preview = httpx.post(f"{service.root}/local/preview", json=wanted, headers=service.page_session())
    remade = service.client.post("/images/remake", json={"images": [{"image_id": image}], "format": "jxl"})
    assert service.client.get(stored, params={"as": "jpeg"}).status_code == 503
    for answer in (
        preview,
        remade,
        service.upload("convert", JPEG, format="jxl"),
        service.upload("process", JPEG, format="jxl"),
    ):
        assert (answer.status_code, answer.json()["errors"]) == (422, {"format": [formats.HOW_TO_INSTALL_JXL]})
    page = httpx.get(f"{service.root}/local/overview", headers=service.page_session()).json()["data"]
    assert (page["targets"], page["formats"]["jxl"]["available"]) == (["webp", "avif"], False)
