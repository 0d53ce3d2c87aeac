"""TIFF, HEIC, JPEG XL and AVIF: the local page may upload them, other clients may not. The optimized file of the first
three has another format.
"""

from __future__ import annotations

import io
from pathlib import Path

import httpx
import pytest
from PIL import Image

from imgproc_local.codecs.picture.other_decoders import libjxl
from tests.codecs import pictures
from tests.support.service import Running, running

TIFF = pictures.saved(pictures.photo(), "TIFF")
JXL = bytes(libjxl().jpeg_to_jxl(pictures.saved(pictures.photo(), "JPEG", quality=95)))
TRANSPARENT_TIFF = pictures.saved(pictures.graphic(alpha=True), "TIFF")


@pytest.fixture
def page(service: Running) -> httpx.Client:
    return page_client(service)


def page_client(service: Running) -> httpx.Client:
    """A client with the secret of a session of the local page."""
    return service.client_for(service.page_session()["Authorization"].removeprefix("Bearer "))


def upload(client: httpx.Client, operation: str, data: bytes, name: str = "boat.tif") -> httpx.Response:
    return client.post(f"/images/{operation}", files={"image": (name, data)}, headers={"Prefer": "wait=60"})


@pytest.mark.parametrize(("data", "suffix"), [(TIFF, "jpg"), (TRANSPARENT_TIFF, "png")], ids=["opaque", "transparent"])
def test_the_page_uploads_a_tiff_and_receives_a_jpeg_or_png(page: httpx.Client, data: bytes, suffix: str) -> None:
    with page:
        job_id = upload(page, "process", data).json()["data"]["job_id"]
        job = page.get(f"/jobs/{job_id}").json()["data"]
        assert job["status"] == "completed"
        assert job["image"]["compression_percentage"] > 0
        optimized = page.get(f"/images/{job['image']['id']}/optimized")
        assert optimized.headers["Content-Type"] == {"jpg": "image/jpeg", "png": "image/png"}[suffix]
        assert f'filename="boat-optimized.{suffix}"' in optimized.headers["Content-Disposition"]
        assert Image.open(io.BytesIO(optimized.content)).size == (320, 240)
        original = page.get(f"/images/{job['image']['id']}/original")
        assert original.content == data
        details = page.get(f"/jobs/{job_id}", params={"include": "details"}).json()["data"]["image"]["details"]
        expected = ("tiff", {"jpg": "jpeg"}.get(suffix, suffix), 1)
        assert (details["format"], details["optimized_format"], details["pages"]) == expected
        assert original.headers["Content-Type"] == "image/tiff"
        converted = page.get(f"/images/{job['image']['id']}/converted")
        assert Image.open(io.BytesIO(converted.content)).format == "WEBP"


@pytest.mark.parametrize(("data", "kind"), [(TIFF, "TIFF"), (JXL, "JPEG XL")], ids=["TIFF", "JPEG XL"])
def test_other_clients_may_not_upload_it(service: Running, data: bytes, kind: str) -> None:
    for operation in ("analyze", "optimize", "convert", "process"):
        (message,) = upload(service.client, operation, data).json()["errors"]["image"]
        assert message.endswith(f"but got a {kind}.")


def test_the_page_uploads_an_avif_for_every_operation_and_other_clients_only_to_optimize_it(
    service: Running, page: httpx.Client
) -> None:
    avif = pictures.saved(pictures.photo(), "AVIF", quality=95)
    with page:
        for operation in ("analyze", "optimize", "convert", "process"):
            job_id = upload(page, operation, avif, "boat.avif").json()["data"]["job_id"]
            assert page.get(f"/jobs/{job_id}").json()["data"]["status"] == "completed"
            status = upload(service.client, operation, avif).status_code
            assert status == (202 if operation == "optimize" else 422)


def test_a_tiff_may_be_larger_than_other_pictures(tmp_path: Path) -> None:
    png = pictures.saved(pictures.scene(), "PNG")
    with running(tmp_path, max_upload_bytes=len(TIFF) // 20) as service, page_client(service) as page:
        assert upload(page, "optimize", TIFF).status_code == 202
        assert upload(page, "optimize", png, "boat.png").status_code == 413
        # the second one is refused by the length of its body, before it is read
        for tiff in (TIFF * 2, TIFF + bytes(8_000_000)):
            answer = upload(page, "optimize", tiff)
            assert answer.status_code == 413
            assert f"at most {len(TIFF) // 20 * 32} bytes" in answer.json()["message"]
        assert upload(service.client, "optimize", TIFF).status_code == 413


def test_the_page_uploads_a_heic(page: httpx.Client) -> None:
    pillow_heif = pytest.importorskip("pillow_heif", reason="needs imgproc-local[heic]")
    out = io.BytesIO()
    pillow_heif.from_pillow(Image.fromarray(pictures.photo())).save(out)
    with page:
        job_id = upload(page, "process", out.getvalue(), "boat.heic").json()["data"]["job_id"]
        job = page.get(f"/jobs/{job_id}").json()["data"]
        assert job["status"] == "completed"
        optimized = page.get(f"/images/{job['image']['id']}/optimized")
        assert Image.open(io.BytesIO(optimized.content)).format == "JPEG"


def test_the_page_uploads_a_jpeg_xl(page: httpx.Client) -> None:
    with page:
        job_id = upload(page, "process", JXL, "boat.jxl").json()["data"]["job_id"]
        job = page.get(f"/jobs/{job_id}", params={"include": "details"}).json()["data"]
        assert job["status"] == "completed"
        details = job["image"]["details"]
        assert (details["format"], details["optimized_format"]) == ("jxl", "jpeg")
        optimized = page.get(f"/images/{job['image']['id']}/optimized")
        assert optimized.headers["Content-Disposition"] == 'attachment; filename="boat-optimized.jpg"'
        assert Image.open(io.BytesIO(optimized.content)).format == "JPEG"
