"""`widths`: the converted picture at several widths."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from PIL import Image

from tests.support import pictures
from tests.support.service import Running
from tests.support.worker_pool import wait_until

PICTURE = pictures.jpeg(320, 240)
EXPECTED = "widths must be at most 8 integers from 1 to 65535, separated by commas; received "


def balance_of(service: Running) -> int:
    balance: int = service.client.get("/credits/balance").json()["data"]["balance"]
    return balance


@pytest.fixture(scope="module")
def image(service: Running) -> dict[str, Any]:
    before = balance_of(service)
    job = service.process("process", PICTURE, "bridge.jpg", widths=["200,80", "", "80,310", ""], max_width_px=300)
    assert before - balance_of(service) == 3 + 2, "one conversion for each width that is made"
    found: dict[str, Any] = service.job(f"{job['job_id']}?include=details")["image"]
    return found


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


def test_the_converted_picture_is_made_at_each_width(service: Running, image: dict[str, Any]) -> None:
    assert image["details"]["widths"] == [80, 200, 310]
    assert [(each["width"], each["height"]) for each in image["variants"]] == [(80, 60), (200, 150)]
    for each in image["variants"]:
        assert each["url"] == f"/api/v1/images/{image['id']}/converted?width={each['width']}"
        answer = service.client.get(service.root + each["url"])
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/webp")
        assert answer.headers["Content-Disposition"] == f'attachment; filename="bridge-{each["width"]}.webp"'
        assert len(answer.content) == each["size"]
        assert opened(answer.content).size == (each["width"], each["height"])
    whole = service.client.get(f"/images/{image['id']}/converted")
    assert opened(whole.content).size == (300, 225)
    assert image["converted_size"] == len(whole.content)


def test_another_width_is_refused_with_those_that_there_are(service: Running, image: dict[str, Any]) -> None:
    answer = service.client.get(f"/images/{image['id']}/converted", params={"width": 300})
    assert answer.status_code == 404
    assert answer.json()["message"].endswith("at a width of 300. The widths of this image: 80, 200.")
    answer = service.client.get(f"/images/{image['id']}/converted", params={"width": "wide"})
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["width"])
    plain = service.process("convert", PICTURE)["image"]
    assert "variants" not in plain
    answer = service.client.get(f"/images/{plain['id']}/converted", params={"width": 80})
    assert (answer.status_code, answer.json()["message"][-6:]) == (404, " none.")


@pytest.mark.parametrize(
    ("picture", "sizes"),
    [(pictures.gif(3, 64, 48), [(20, 15)]), (pictures.jpeg(40, 30), [(20, 15)]), (pictures.jpeg(20, 10), [])],
)
def test_animations_are_scaled_and_nothing_is_scaled_up(
    service: Running, picture: bytes, sizes: list[tuple[int, int]]
) -> None:
    image = service.process("process", picture, widths="20,64")["image"]
    assert [(each["width"], each["height"]) for each in image["variants"]] == sizes
    for each in image["variants"]:
        shown = opened(service.client.get(service.root + each["url"]).content)
        assert getattr(shown, "n_frames", 1) == getattr(opened(picture), "n_frames", 1)


@pytest.mark.parametrize("value", ["0", "65536", "80;90", "wide", "1,2,3,4,5,6,7,8,9", "80,", "-4", "8.5", "٧٠"])
def test_other_widths_are_refused(service: Running, value: str) -> None:
    answer = service.upload("convert", PICTURE, widths=value)
    assert answer.status_code == 422
    assert answer.json()["errors"] == {"widths": [f"{EXPECTED}{value!r}."]}


def test_all_widths_are_exported_with_the_converted_file(service: Running, image: dict[str, Any]) -> None:
    wanted = {"images": [image["id"]], "variants": ["converted"], "allow_needs_text": True}
    archive = zipfile.ZipFile(io.BytesIO(service.client.post("/exports", json=wanted).content))
    stem = image["translations"][0]["seo_filename"]
    names = [f"{stem}.webp", f"{stem}-80.webp", f"{stem}-200.webp"]
    assert archive.namelist()[:3] == names
    assert [opened(archive.read(name)).width for name in names] == [300, 80, 200]


def test_widths_are_made_anew_with_the_conversion_and_deleted_with_it(service: Running) -> None:
    job = service.process("convert", PICTURE, widths="80")
    (before,) = job["image"]["variants"]
    wanted = {"images": [{"image_id": job["image"]["id"]}], "format": "avif"}
    balance = balance_of(service)
    assert service.client.post("/images/remake", json=wanted).status_code == 202
    assert balance - balance_of(service) == 2
    assert wait_until(lambda: not service.job(f"{job['job_id']}?include=details")["image"]["details"]["remaking"])
    (after,) = service.job(job["job_id"])["image"]["variants"]
    answer = service.client.get(service.root + after["url"])
    assert (answer.headers["Content-Type"], after["size"] == before["size"]) == ("image/avif", False)
    stored = service.run(service.services.jobs.referenced_files())
    assert len({path.name for path in service.services.blobs.on_disk()} & stored) == len(stored)
    assert service.client.delete(f"/jobs/{job['job_id']}").status_code == 204
    assert service.client.get(service.root + after["url"]).status_code == 404
    assert {path.name for path in service.services.blobs.on_disk()} == service.run(
        service.services.jobs.referenced_files()
    )
