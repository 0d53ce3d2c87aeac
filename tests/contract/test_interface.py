"""The tables of the published interface, one test per table or row, against a service behind a real socket."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.support import pictures
from tests.support.service import GatedDescriber, Running

ULID = re.compile(r"[0-9a-z]{26}")

DISPATCH_FIELDS = {"job_id", "status", "message"}
JOB_FIELDS = {"job_id", "status", "image"}
IMAGE_FIELDS = {
    "id",
    "status",
    "original_filename",
    "original_size",
    "optimized_size",
    "converted_format",
    "converted_size",
    "compression_percentage",
    "translations",
}
OPERATIONS = ("analyze", "optimize", "convert", "process")
KEYED = [
    ("POST", "/images/analyze"),
    ("POST", "/images/optimize"),
    ("POST", "/images/convert"),
    ("POST", "/images/process"),
    ("GET", "/credits/afford?images=1"),
    ("GET", "/credits/balance"),
    ("GET", "/jobs/01arz3ndektsv4rrffq69g5fav"),
    ("GET", "/images/01arz3ndektsv4rrffq69g5fav/optimized"),
]


def test_language_is_public_and_has_its_three_fields(service: Running) -> None:
    answer = httpx.get(f"{service.url}/languages")
    assert answer.status_code == 200
    assert set(answer.json()) == {"data"}
    for language in answer.json()["data"]:
        assert set(language) == {"code", "name", "native_name"}
        assert re.fullmatch(r"[a-z]{2}", language["code"])
        assert language["name"]
        assert language["native_name"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_dispatch_result_is_wrapped_pending_and_names_the_polling_path(service: Running, operation: str) -> None:
    answer = service.client.post(f"/images/{operation}", files={"image": ("a.jpg", pictures.jpeg())})
    assert answer.status_code == 202
    assert set(answer.json()) == {"data"}
    result = answer.json()["data"]
    assert set(result) == DISPATCH_FIELDS
    assert ULID.fullmatch(result["job_id"])
    assert result["status"] == "pending"
    assert f"GET /api/v1/jobs/{result['job_id']}" in result["message"]


def test_dispatch_messages_differ_per_operation(service: Running) -> None:
    messages = {
        re.sub(r"[0-9a-z]{26}", "", service.dispatch(operation, pictures.jpeg())["message"]) for operation in OPERATIONS
    }
    assert len(messages) == len(OPERATIONS)


def test_job_status_result_and_image_of_a_processed_picture(service: Running) -> None:
    picture = pictures.jpeg(640, 480)
    job = service.process("process", picture, "Meer.jpg", languages=["en", "de"], format="avif")
    assert set(job) == JOB_FIELDS
    assert job["status"] == "completed"
    image = job["image"]
    assert set(image) == IMAGE_FIELDS
    assert ULID.fullmatch(image["id"])
    assert image["id"] != job["job_id"]
    assert image["status"] == job["status"]
    assert image["original_filename"] == "Meer.jpg"
    assert image["original_size"] == len(picture)
    assert 0 < image["optimized_size"] <= len(picture)
    assert image["converted_format"] == "avif"
    assert image["converted_size"] > 0
    assert isinstance(image["compression_percentage"], int)
    assert [translation["language_code"] for translation in image["translations"]] == ["en", "de"]


def test_translation_fields(service: Running) -> None:
    job = service.process("analyze", pictures.jpeg())
    (translation,) = job["image"]["translations"]
    assert set(translation) == {"language_code", "seo_filename", "seo_alt_text", "source", "needs_text"}
    assert translation["language_code"] == "en"
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", translation["seo_filename"])
    assert translation["seo_alt_text"]


def test_credit_balance(service: Running) -> None:
    answer = service.client.get("/credits/balance")
    assert answer.status_code == 200
    assert set(answer.json()) == {"data"}
    assert set(answer.json()["data"]) == {"balance"}
    assert isinstance(answer.json()["data"]["balance"], int)


def test_affordability_result_and_defaults(service: Running) -> None:
    balance = service.client.get("/credits/balance").json()["data"]["balance"]
    answer = service.client.get("/credits/afford", params={"images": 10})
    assert answer.status_code == 200
    assert answer.json() == {"data": {"can_afford": True, "required": 30, "balance": balance, "shortfall": 0}}
    answer = service.client.get("/credits/afford", params={"images": 100, "languages": 10, "format": "avif"})
    assert answer.json()["data"]["required"] == 1200


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "images"),
        ({"images": 0}, "images"),
        ({"images": 101}, "images"),
        ({"images": "two"}, "images"),
        ({"images": 1, "languages": 0}, "languages"),
        ({"images": 1, "languages": 11}, "languages"),
        ({"images": 1, "format": "png"}, "format"),
    ],
)
def test_afford_bounds(service: Running, query: dict[str, object], field: str) -> None:
    answer = service.client.get("/credits/afford", params=query)
    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [field]


def test_project_name_of_analyze_without_project_is_api_uploads(service: Running) -> None:
    service.dispatch("analyze", pictures.jpeg())

    async def names() -> list[str]:
        async with service.services.store.database.reading() as read:
            rows = await read._connection.execute_fetchall("SELECT name FROM projects")
        return [row["name"] for row in rows]

    assert "API Uploads" in service.run(names())


def test_a_job_passes_from_pending_through_its_verbs_to_completed(gated: Running, describer: GatedDescriber) -> None:
    describer.open.clear()
    job_id = gated.dispatch("process", pictures.jpeg())["job_id"]
    seen = gated.client.get(f"/jobs/{job_id}").json()["data"]["status"]
    assert seen in ("pending", "analyzing", "optimizing", "converting")
    describer.open.set()
    assert gated.final(job_id)["status"] == "completed"


def test_unknown_job_is_404_with_message(service: Running) -> None:
    answer = service.client.get("/jobs/01arz3ndektsv4rrffq69g5fav")
    assert answer.status_code == 404
    assert set(answer.json()) == {"message"}


def test_optimized_before_its_stage_is_404_with_error(gated: Running, describer: GatedDescriber) -> None:
    describer.open.clear()
    job = gated.job(gated.dispatch("analyze", pictures.jpeg())["job_id"])
    answer = gated.client.get(f"/images/{job['image']['id']}/optimized")
    assert answer.status_code == 404
    assert set(answer.json()) == {"error"}


def test_optimized_download_is_the_original_type_as_an_attachment(service: Running) -> None:
    job = service.process("optimize", pictures.png(), "Diagram 1.PNG")
    answer = service.client.get(f"/images/{job['image']['id']}/optimized")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["content-disposition"] == 'attachment; filename="Diagram 1-optimized.PNG"'
    assert len(answer.content) == job["image"]["optimized_size"]
    assert answer.content.startswith(b"\x89PNG")


@pytest.mark.parametrize(("method", "path"), KEYED)
def test_every_endpoint_but_languages_requires_a_key(service: Running, method: str, path: str) -> None:
    assert httpx.request(method, service.url + path).status_code == 401


@pytest.mark.parametrize("header", [{"Authorization": "Bearer {}"}, {"X-API-Key": "{}"}])
def test_the_key_is_taken_from_either_header(service: Running, header: dict[str, str]) -> None:
    headers = {name: value.format(service.key) for name, value in header.items()}
    assert httpx.get(f"{service.url}/credits/balance", headers=headers).status_code == 200


def test_rate_limit_is_counted_per_key(service: Running) -> None:
    first, second = (service.client_for(service.make_key(rate_limit=2)) for _ in range(2))
    with first, second:
        assert [first.get("/credits/balance").status_code for _ in range(3)] == [200, 200, 429]
        assert second.get("/credits/balance").status_code == 200


def test_rate_limit_body_has_message_and_retry_after(service: Running) -> None:
    with service.client_for(service.make_key(rate_limit=1)) as client:
        client.get("/credits/balance")
        answer = client.get("/credits/balance")
    assert answer.status_code == 429
    assert set(answer.json()) == {"message", "retry_after"}
    assert isinstance(answer.json()["retry_after"], int)


@pytest.mark.parametrize(
    ("name", "picture"),
    [("a.jpg", pictures.jpeg), ("a.png", pictures.png), ("a.gif", pictures.gif), ("a.webp", pictures.webp)],
)
def test_analyze_accepts_jpeg_png_gif_and_webp(service: Running, name: str, picture: object) -> None:
    assert callable(picture)
    assert service.process("analyze", picture(), name)["status"] == "completed"


@pytest.mark.parametrize("target", ["webp", "avif"])
@pytest.mark.parametrize(("name", "picture"), [("a.jpg", pictures.jpeg), ("a.png", pictures.png)])
def test_convert_turns_png_and_jpeg_into_webp_and_avif(
    service: Running, name: str, picture: object, target: str
) -> None:
    assert callable(picture)
    job = service.process("convert", picture(), name, format=target)
    assert job["image"]["converted_format"] == target
    answer = service.client.get(f"/images/{job['image']['id']}/converted")
    assert answer.headers["content-type"] == f"image/{target}"
    assert len(answer.content) == job["image"]["converted_size"]


def test_convert_defaults_to_webp(service: Running) -> None:
    assert service.process("convert", pictures.jpeg())["image"]["converted_format"] == "webp"


def test_the_version_is_part_of_the_path(service: Running) -> None:
    assert httpx.get(f"{service.root}/api/v1/languages").status_code == 200
    assert httpx.get(f"{service.root}/languages").status_code == 404
