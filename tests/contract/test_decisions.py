"""The decisions of imgproc_local/api/README.md, at least one test for each: one long file, because the page is one."""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from PIL import Image

from imgproc_local.domain.errors import NotFound, StorageFailed
from imgproc_local.storage.jobs import Jobs
from tests.support import pictures
from tests.support.events import END, event_stream
from tests.support.raw_http import connect, statuses
from tests.support.service import GatedDescriber, Running, running
from tests.support.worker_pool import wait_until

T = TypeVar("T")
UNKNOWN_ID = "01arz3ndektsv4rrffq69g5fav"


class ManualClock:
    """A clock that moves only when a test sets `now_s`."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def utc(self) -> datetime:
        return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(seconds=self.now_s)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def timed(tmp_path: Path, clock: ManualClock) -> Iterator[Running]:
    with running(tmp_path / "data", GatedDescriber, clock=clock.utc, monotonic=clock.monotonic) as started:
        yield started


def problems(answer: httpx.Response) -> dict[str, list[str]]:
    assert answer.status_code == 422, answer.text
    assert set(answer.json()) == {"message", "errors"}
    errors: dict[str, list[str]] = answer.json()["errors"]
    return errors


def upload_parts(service: Running, operation: str, image: str, *fields: tuple[str, str]) -> str:
    """The id of the job of a form whose parts are written as they are; `image` is its image's Content-Disposition."""
    parts = [(f'name="{name}"', value.encode()) for name, value in fields] + [(image, pictures.jpeg())]
    body = b"".join(
        b"--b\r\nContent-Disposition: form-data; " + disposition.encode() + b"\r\n\r\n" + content + b"\r\n"
        for disposition, content in parts
    )
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = service.client.post(f"/images/{operation}", content=body + b"--b--\r\n", headers=headers)
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["data"]["job_id"]
    return job_id


def balance(service: Running) -> int:
    amount: int = service.client.get("/credits/balance").json()["data"]["balance"]
    return amount


def languages_of(image: dict[str, Any]) -> list[str]:
    return [translation["language_code"] for translation in image["translations"]]


def at_once(work: Callable[[int], T], count: int) -> list[T]:
    """The results of `work`, called with 0 to `count` - 1 at the same time."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


# ---- Status ----


def test_status_set_b_is_a_setting_mapped_at_the_wire(tmp_path: Path, describer: GatedDescriber) -> None:
    with running(tmp_path, lambda: describer, status_set="B") as service:
        describer.open.clear()
        dispatched = service.dispatch("analyze", pictures.jpeg())
        assert dispatched["status"] == "pending"
        assert wait_until(lambda: service.job(dispatched["job_id"])["status"] == "processing")
        assert [job["status"] for job in service.client.get("/jobs?status=processing").json()["data"]] == ["processing"]
        describer.open.set()
        job = service.final(dispatched["job_id"])
        assert job["status"] == job["image"]["status"] == "done"


def test_one_failing_stage_lets_the_others_finish_and_its_reason_is_reported_without_a_path(
    gated: Running, describer: GatedDescriber
) -> None:
    describer.error = RuntimeError("secret /home/somebody/file")
    job = gated.process("process", pictures.jpeg(), languages=["en", "de"])
    image = job["image"]
    assert job["status"] == image["status"] == "failed"
    assert image["optimized_size"] is not None
    assert image["converted_size"] is not None
    assert image["translations"] == []
    assert gated.client.get(f"/images/{image['id']}/optimized").status_code == 200
    assert [error["stage"] for error in job["errors"]] == ["analyze"]
    assert balance(gated) == 1_000_000 - 2, "the part of the stage that failed is given back"
    gated.upload("process", b"words")
    assert balance(gated) == 1_000_000 - 2, "a refused upload costs nothing"
    damaged = gated.process("process", pictures.broken_jpeg())
    assert {error["stage"] for error in damaged["errors"]} == {"analyze", "optimize", "convert"}
    for error in job["errors"] + damaged["errors"]:
        assert len(error["message"]) > 10
        assert not re.search("/|Traceback", error["message"])


def test_fields_not_known_yet_are_null_and_each_appears_with_its_own_stage(
    gated: Running, describer: GatedDescriber
) -> None:
    describer.open.clear()
    first = gated.dispatch("analyze", pictures.jpeg())["job_id"]
    assert wait_until(lambda: gated.job(first)["status"] == "analyzing"), "the verb of the stage started last"
    waiting = gated.job(gated.dispatch("analyze", pictures.jpeg(seed=2))["job_id"])["image"]
    assert waiting["status"] == "pending"
    assert {waiting[name] for name in ("optimized_size", "converted_format", "converted_size")} == {None}
    assert (waiting["compression_percentage"], waiting["translations"]) == (None, [])
    job_id = gated.dispatch("process", pictures.jpeg(seed=3))["job_id"]
    assert wait_until(lambda: all(gated.job(job_id)["image"][name] for name in ("optimized_size", "converted_size")))
    image = gated.job(job_id)["image"]
    assert image["translations"] == []
    assert gated.client.get(f"/images/{image['id']}/optimized").status_code == 200


# ---- Results ----


def test_a_result_that_is_not_smaller_is_discarded_for_the_original_bytes(service: Running) -> None:
    tiny = pictures.encoded(Image.new("RGB", (1, 1)), "PNG", optimize=True)
    image = service.process("optimize", tiny, "tiny.png")["image"]
    assert image["optimized_size"] <= len(tiny)
    if image["compression_percentage"] == 0:
        assert service.client.get(f"/images/{image['id']}/optimized").content == tiny
    once = service.client.get(f"/images/{image['id']}/optimized").content
    again = service.process("optimize", once, "tiny.png")["image"]
    assert again["compression_percentage"] == 0
    assert service.client.get(f"/images/{again['id']}/optimized").content == once


@pytest.mark.parametrize(
    ("uploaded", "header"),
    [
        ("photo.JPEG", 'attachment; filename="photo-optimized.JPEG"'),
        (
            "Übung.jpg",
            "attachment; filename=\"Ubung-optimized.jpg\"; filename*=UTF-8''%C3%9Cbung-optimized.jpg",
        ),
        ("写真.jpg", "attachment; filename=\"image-optimized.jpg\"; filename*=UTF-8''%E5%86%99%E7%9C%9F-optimized.jpg"),
        ("con.a.jpg:stream", 'attachment; filename="_con.a-optimized.jpg"'),
        ("wrong.png", 'attachment; filename="wrong-optimized.png"'),
        ("invoice.html", 'attachment; filename="invoice-optimized.jpg"'),
        ("invoice", 'attachment; filename="invoice-optimized"'),
    ],
)
def test_content_disposition(service: Running, uploaded: str, header: str) -> None:
    image = service.process("optimize", pictures.jpeg(), uploaded)["image"]
    answer = service.client.get(f"/images/{image['id']}/optimized")
    assert answer.headers["content-disposition"] == header
    original = service.client.get(f"/images/{image['id']}/original")
    assert original.headers["content-disposition"] == header.replace("-optimized", "")


def test_a_download_does_not_tell_that_another_account_has_the_same_file(service: Running) -> None:
    job = service.process("process", pictures.jpeg(seed=40))
    for path in service.services.blobs.on_disk():
        os.utime(path, (0, 0))  # as if the other account had sent it at this time
    details = service.client.get(f"/jobs/{job['job_id']}?include=details").json()["data"]["image"]["details"]
    uploaded_at = datetime.fromisoformat(details["created_at"]).replace(microsecond=0)
    for variant in ("original", "optimized", "converted"):
        answer = service.client.get(f"/images/{job['image']['id']}/{variant}")
        assert parsedate_to_datetime(answer.headers["last-modified"]) == uploaded_at


def test_seo_filename_is_unique_in_its_project_and_language(gated: Running, describer: GatedDescriber) -> None:
    def name(project: str, seed: int, slug: str = "a-test-picture") -> str:
        describer.slug = slug
        job = gated.process("analyze", pictures.jpeg(seed=seed), project_name=project)
        return str(job["image"]["translations"][0]["seo_filename"])

    assert [name("one", seed) for seed in (1, 2, 3)] == ["a-test-picture", "a-test-picture-2", "a-test-picture-3"]
    assert name("two", 4) == "a-test-picture"
    slugs = ("tower-2", "tower", "tower")
    assert [name("three", 5 + seed, slug) for seed, slug in enumerate(slugs)] == ["tower-2", "tower", "tower-3"]


# ---- Uploads ----


def test_more_bytes_than_allowed_are_413_and_the_bound_itself_is_not(tmp_path: Path) -> None:
    picture = pictures.jpeg()
    with running(tmp_path, max_upload_bytes=len(picture)) as service:
        assert service.process("optimize", picture)["status"] == "completed"
        answer = service.upload("optimize", picture + b"\0")
        assert answer.status_code == 413
        assert set(answer.json()) == {"message"}
        assert balance(service) == 999_999
        assert list((tmp_path / "incoming").iterdir()) == []


def test_more_pixels_than_allowed_are_422_every_frame_counted(tmp_path: Path) -> None:
    with running(tmp_path, max_pixels=64 * 48 * 2) as service:
        assert service.process("optimize", pictures.gif(frames=2), "a.gif")["status"] == "completed"
        assert list(problems(service.upload("optimize", pictures.gif(frames=3)))) == ["image"]


def test_the_type_is_decided_by_the_bytes(service: Running) -> None:
    answer = service.client.post("/images/optimize", files={"image": ("a.gif", pictures.png(), "image/gif")})
    assert answer.status_code == 202
    job = service.final(answer.json()["data"]["job_id"])
    download = service.client.get(f"/images/{job['image']['id']}/optimized")
    assert download.headers["content-type"] == "image/png"
    answer = service.client.post("/images/optimize", files={"image": ("a.jpg", b"just words", "image/jpeg")})
    assert list(problems(answer)) == ["image"]


PICTURES = {
    "jpeg": pictures.jpeg,
    "png": pictures.png,
    "gif": pictures.gif,
    "webp": pictures.webp,
    "avif": pictures.avif,
}
ACCEPTED = {
    "analyze": {"jpeg", "png", "gif", "webp"},
    "process": {"jpeg", "png", "gif", "webp"},
    "optimize": {"jpeg", "png", "gif", "webp", "avif"},
    "convert": {"jpeg", "png"},
}


@pytest.mark.parametrize("operation", list(ACCEPTED))
def test_which_types_each_operation_accepts_and_that_animations_are_kept(service: Running, operation: str) -> None:
    for kind, make in PICTURES.items():
        answer = service.upload(operation, make())
        if kind not in ACCEPTED[operation]:
            assert list(problems(answer)) == ["image"]
            continue
        image = service.final(answer.json()["data"]["job_id"])["image"]
        assert image["status"] == "completed"
        if kind == "gif" and operation == "optimize":
            with Image.open(io.BytesIO(service.client.get(f"/images/{image['id']}/optimized").content)) as animation:
                assert getattr(animation, "n_frames", 1) == Image.open(io.BytesIO(make())).n_frames > 1
        if operation in ("convert", "process"):
            converted = service.client.get(f"/images/{image['id']}/converted")
            assert (image["converted_format"], converted.headers["content-type"]) == ("webp", "image/webp")


@pytest.mark.parametrize(
    "fields",
    [
        [("languages", "en"), ("languages", "de")],
        [("languages[]", "en"), ("languages[]", "de")],
        [("languages[1]", "de"), ("languages[0]", "en")],
        [("languages", '["en", "de"]')],
        [("languages", "en,de,en")],
        [("languages", " EN , de ")],
        [("languages", "en-GB,de_AT,en_US,de_DE_formal")],
    ],
)
def test_languages_in_every_spelling(service: Running, fields: list[tuple[str, str]]) -> None:
    job = service.final(upload_parts(service, "analyze", 'name="image"; filename="a.jpg"', *fields))
    assert languages_of(job["image"]) == ["en", "de"], "in the order requested, without duplicates"


def test_fields_that_an_operation_does_not_know_are_ignored_and_named(service: Running) -> None:
    fields = {"language": "de", "format[]": "avif", "_token": "x", "context": "a page", "languages[0]": "fr"}
    answer = service.upload("analyze", pictures.jpeg(), **fields, max_width_px="abc").json()
    assert answer["warnings"] == ["language", "format[]", "_token", "max_width_px"]
    dispatched = answer["data"]
    assert dispatched["message"].endswith(
        f"Poll GET /api/v1/jobs/{dispatched['job_id']} for the result. Ignored, because analyze has no such field:"
        " 'language', 'format[]', '_token', 'max_width_px'. Did you mean 'languages'?"
    )
    assert languages_of(service.final(dispatched["job_id"])["image"]) == ["fr"]
    picture = ("a.jpg", pictures.jpeg())
    answer = service.client.post(
        "/images/optimize", files={"image": picture, "thumbnail": picture}, data={"languages[]": "en"}
    ).json()
    assert answer["warnings"] == ["languages[]", "thumbnail"]
    assert answer["data"]["message"].endswith("because optimize has no such field: 'languages[]', 'thumbnail'.")
    assert "warnings" not in service.upload("optimize", pictures.jpeg(), max_width_px="9", project_name="a").json()
    message = "image is required: a file part of the form; received one with the name 'file'."
    assert problems(service.client.post("/images/optimize", files={"file": picture})) == {"image": [message]}


def test_at_most_ten_languages_and_only_known_ones(service: Running) -> None:
    codes = [language["code"] for language in service.client.get("/languages").json()["data"]]
    assert service.upload("analyze", pictures.jpeg(), languages=codes[:10]).status_code == 202
    refused = problems(service.upload("analyze", pictures.jpeg(), languages=[*codes[:11], "en_US", "en_GB"]))
    assert refused == {"languages": ["languages may have at most 10 codes; received 13 tags."]}
    assert "'xx'" in problems(service.upload("analyze", pictures.jpeg(), languages=["en", "xx"]))["languages"][0]
    locales = [f"en_{region}" for region in ["US", "GB", "AU", "CA", "IE", "IN", "NZ", "ZA", "SG", "MT", "PH"]]
    assert service.upload("analyze", pictures.jpeg(), languages=locales).status_code == 202
    flood = problems(service.upload("analyze", pictures.jpeg(), languages=",".join(map(str, range(3000)))))
    assert len(flood["languages"]) <= 101


@pytest.mark.parametrize("locale", ["zh-Hant", "zh_TW"])
def test_a_locale_of_a_script_that_is_not_written_is_refused_with_the_reason(service: Running, locale: str) -> None:
    refused = problems(service.upload("analyze", pictures.jpeg(), languages=["en", locale]))
    assert refused == {"languages": [f"Chinese is written in the script Hans only, not in Hant; received '{locale}'."]}


ENCODED_WORD = '"=?utf-8?B?QsO8Y2hlciDigJMgYWx0LmpwZw==?="'


@pytest.mark.parametrize(
    ("parameters", "stored"),
    [
        ('filename="C:\\Users\\me\\photo.jpg"', "photo.jpg"),
        ('filename="../../etc/photo.jpg"', "photo.jpg"),
        ('filename="na\x07me\x7f.jpg"', "name.jpg"),
        ('filename="Żółw 写真.jpg"', "Żółw 写真.jpg"),
        (f'filename="{"é" * 200}.jpg"', "é" * 125 + ".jpg"),
        ('filename=".."', "image.jpeg"),
        (f"filename={ENCODED_WORD}; filename*=utf-8''B%C3%BCcher%20%E2%80%93%20neu.jpg", "Bücher – neu.jpg"),
        ("filename*=UTF-8'de'B%C3%BCcher%2F..%2Fneu.jpg", "neu.jpg"),
        ("filename*=iso-8859-1''%e4.jpg; filename=a.jpg", "ä.jpg"),
        (f"filename={ENCODED_WORD}", "Bücher – alt.jpg"),
        ('filename="=?utf-8?B?w6?="', "=?utf-8?B?w6?="),
        ("filename=a.jpg; filename*=utf-8''%ff.jpg", "a.jpg"),
        ("filename=a.jpg; filename*=utf-8''%zz.jpg", "a.jpg"),
        ("filename=\"a; filename*=utf-8''b.jpg\"", "a; filename*=utf-8''b.jpg"),
    ],
)
def test_original_filename(service: Running, parameters: str, stored: str) -> None:
    job = service.job(upload_parts(service, "optimize", f"name=image; {parameters}"))
    assert job["image"]["original_filename"] == stored
    assert len(stored.encode()) <= 255


def project_ids(service: Running, **form: str) -> set[str]:
    """The projects that one upload for each operation went to."""
    operations = ("analyze", "optimize", "convert", "process")
    return {service.upload(each, pictures.jpeg(), **form).headers["x-project-id"] for each in operations}


def test_a_project_is_that_of_its_id_or_else_of_its_name_which_is_created_once(gated: Running) -> None:
    (default,) = project_ids(gated)
    (holidays,) = project_ids(gated, project_name="Holidays")
    assert project_ids(gated, project_name="Holidays") == {holidays}
    assert project_ids(gated, project_name="API Uploads") == {default} != {holidays}
    assert project_ids(gated, project_id=holidays.upper(), project_name="Other") == {holidays}
    funds = balance(gated)
    for wrong in (UNKNOWN_ID, "not-a-ulid"):
        answer = gated.upload("optimize", pictures.jpeg(), project_id=wrong)
        assert list(problems(answer)) == ["project_id"]
    assert balance(gated) == funds


# ---- Keys, credits, limits ----


@pytest.mark.parametrize("key", [{}, {"X-API-Key": "wrong"}, {"X-API-Key": "right"}])
@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Bearer", "Basic abc"])
def test_a_missing_or_wrong_key_is_401(service: Running, key: dict[str, str], authorization: str | None) -> None:
    """A valid key beside an invalid `Authorization` does not count."""
    headers = {name: service.key if value == "right" and authorization else "wrong" for name, value in key.items()}
    headers |= {"Authorization": authorization} if authorization else {}
    answer = httpx.get(f"{service.url}/credits/balance", headers=headers)
    assert answer.status_code == 401
    both = {"Authorization": f"Bearer {service.key}", **key}
    assert httpx.get(f"{service.url}/credits/balance", headers=both).status_code == 200
    assert answer.json() == {"message": "Unauthenticated."}
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_bad_key_is_refused_before_the_body_is_read(service: Running) -> None:
    fields = "X-API-Key: wrong\r\nContent-Length: 20000000\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    with connect(service.root) as connection:
        connection.sendall(f"POST /api/v1/images/process HTTP/1.1\r\nHost: 127.0.0.1\r\n{fields}\r\n".encode())
        assert statuses(connection.recv(1024)) == [401]


def test_another_account_sees_nothing(service: Running) -> None:
    job = service.process("process", pictures.jpeg())
    with service.client_for(service.make_key("neighbour")) as neighbour:
        paths = [f"/jobs/{job['job_id']}", f"/jobs/{job['job_id']}/events"]
        paths += [f"/images/{job['image']['id']}/{each}" for each in ("original", "optimized", "converted")]
        assert {neighbour.get(path).status_code for path in paths} == {404}
        assert neighbour.delete(paths[0]).status_code == 404
        assert neighbour.get("/jobs").json()["data"] == []
    with service.client_for(service.make_key()) as same_account:
        assert same_account.get(f"/jobs/{job['job_id']}").status_code == 200


def test_the_window_of_a_key_rolls_and_its_headers_count(timed: Running, clock: ManualClock) -> None:
    with timed.client_for(timed.make_key(rate_limit=None)) as client:
        for expected in range(59, -1, -1):
            answer = client.get("/credits/balance")
            assert answer.status_code == 200
            assert answer.headers["x-ratelimit-limit"] == "60"
            assert answer.headers["x-ratelimit-remaining"] == str(expected)
        clock.now_s += 20
        answer = client.get("/credits/balance")
        assert answer.status_code == 429
        assert answer.json() == {"message": "Too Many Attempts.", "retry_after": 40}
        assert answer.headers["retry-after"] == "40"
        assert answer.headers["x-ratelimit-remaining"] == "0"
        with timed.client_for(timed.make_key(rate_limit=1)) as other:
            assert [other.get("/credits/balance").status_code for _ in range(2)] == [200, 429]
        clock.now_s += 40
        assert client.get("/credits/balance").status_code == 200


def test_the_reset_is_the_unix_time_from_which_one_more_request_is_allowed(timed: Running, clock: ManualClock) -> None:
    with timed.client_for(timed.make_key(rate_limit=2)) as client:

        def is_reset_in(seconds: int, status: int) -> bool:
            before_s = time.time()
            answer = client.get("/credits/balance")
            assert answer.status_code == status
            return before_s + seconds <= int(answer.headers["x-ratelimit-reset"]) <= time.time() + seconds + 1

        assert is_reset_in(60, 200), "60 seconds after the first one"
        clock.now_s += 20
        assert is_reset_in(40, 200), "that remains the first one"
        clock.now_s += 10
        assert is_reset_in(30, 429)
        clock.now_s += 30
        assert is_reset_in(20, 200), "now the second one is the oldest"
    with timed.client_for(timed.make_key(rate_limit=0)) as client:
        assert is_reset_in(0, 200), "a key without a limit"


def test_the_window_is_exact_under_parallel_requests(service: Running) -> None:
    paths = ["/credits/balance", "/jobs", "/credits/afford?images=1", f"/jobs/{UNKNOWN_ID}"] * 5
    key = {"X-API-Key": service.make_key(rate_limit=10)}
    answers = at_once(lambda number: httpx.get(service.url + paths[number], headers=key), len(paths))
    assert [answer.status_code for answer in answers].count(429) == 10
    assert {answer.headers["x-ratelimit-limit"] for answer in answers} == {"10"}, "whatever is answered"


def test_cost_per_operation_and_a_grant_adds(gated: Running) -> None:
    expected = 1_000_000
    for operation, cost in (("analyze", 3), ("optimize", 1), ("convert", 1), ("process", 5)):
        gated.process(operation, pictures.jpeg(), languages=["en", "de", "fr"])
        expected -= cost
        assert balance(gated) == expected
    account_id = gated.run(gated.services.store.keys.account_id())
    gated.run(gated.services.store.credits.grant(account_id, 500))
    assert balance(gated) == expected + 500


def test_prices_are_a_setting_and_afford_uses_them(tmp_path: Path) -> None:
    with running(tmp_path, GatedDescriber, prices="2, 3, 5") as service:
        answer = service.client.get("/credits/afford", params={"images": 4, "languages": 3})
        assert answer.json()["data"]["required"] == 4 * (3 * 2 + 3 + 5)
        service.process("process", pictures.jpeg(), languages=["en", "de", "fr"])
        assert balance(service) == 1_000_000 - 14


def test_not_enough_credits_are_402_and_nothing_is_taken(tmp_path: Path) -> None:
    with running(tmp_path, GatedDescriber, first_balance=2) as service:
        answer = service.upload("process", pictures.jpeg())
        assert answer.status_code == 402
        body = answer.json()
        assert set(body) == {"message", "required", "balance", "shortfall"}
        assert (body["required"], body["balance"], body["shortfall"]) == (3, 2, 1)
        assert service.client.get("/jobs").json()["data"] == []
        assert service.services.blobs.on_disk() == []
        afford = service.client.get("/credits/afford", params={"images": 1}).json()["data"]
        assert afford == {"can_afford": False, "required": 3, "balance": 2, "shortfall": 1}


def test_at_least_thirty_languages_and_every_one_can_be_written(service: Running) -> None:
    codes = [language["code"] for language in service.client.get("/languages").json()["data"]]
    assert len(codes) >= 30
    for start in range(0, len(codes), 10):
        batch = codes[start : start + 10]
        image = service.process("analyze", pictures.jpeg(), languages=batch)["image"]
        assert languages_of(image) == batch
        for text in image["translations"]:
            assert 0 < len(text["seo_alt_text"]) <= 250
            assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+){0,7}", text["seo_filename"])
            assert len(text["seo_filename"]) <= 80


# ---- Local additions ----


def test_converted_is_downloaded_under_its_new_extension(service: Running) -> None:
    image = service.process("convert", pictures.png(), "Meer.png", format="avif")["image"]
    answer = service.client.get(f"/images/{image['id']}/converted")
    assert answer.headers["content-disposition"] == 'attachment; filename="Meer.avif"'
    assert answer.headers["content-type"] == "image/avif"
    assert Image.open(io.BytesIO(answer.content)).format == "AVIF"
    assert "convert only" in service.client.get(f"/images/{image['id']}/optimized").json()["error"]


def test_prefer_wait_holds_an_answer_until_the_job_is_final_or_its_seconds_are_over(
    gated: Running, describer: GatedDescriber
) -> None:
    def get(*lines: str) -> httpx.Response:
        return gated.client.get(f"/jobs/{job_id}", headers=[("Prefer", line) for line in lines])

    describer.open.clear()
    files = {"image": ("a.jpg", pictures.jpeg())}
    answer = gated.client.post("/images/analyze", files=files, headers={"Prefer": "respond-async, wait=1"})
    assert (answer.status_code, answer.headers["preference-applied"]) == (202, "wait=1")
    job_id = answer.json()["data"]["job_id"]
    answer = get("respond-async", "wait=1")
    assert answer.headers["preference-applied"] == "wait=1"
    assert answer.json()["data"]["status"] in ("pending", "analyzing")
    threading.Timer(0.2, describer.open.set).start()
    answer = get("wait=600")
    assert answer.headers["preference-applied"] == "wait=60"
    assert answer.json()["data"]["status"] == "completed"
    describer.open.clear()
    threading.Timer(0.2, describer.open.set).start()
    answer = gated.client.post("/images/analyze", files=files, headers={"Prefer": "wait=30"})
    assert answer.json()["data"]["status"] == "completed"
    for lines in (["wait=2, respond-async"], ["return=minimal; x=1", 'wait="2"']):
        assert get(*lines).headers["preference-applied"] == "wait=2"


@pytest.mark.parametrize("error", [StorageFailed("The disk is gone."), NotFound("It was deleted.")])
def test_what_was_stored_is_answered_with_202_whatever_happens_to_the_wait(
    gated: Running, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fail(*_: object) -> None:
        raise error

    image = gated.process("analyze", pictures.jpeg())["image"]
    monkeypatch.setattr(Jobs, "get", fail)
    files, wait = {"image": ("a.jpg", pictures.jpeg())}, {"Prefer": "wait=30"}
    answer = gated.client.post("/images/analyze", files=files, headers=wait)
    assert answer.status_code == 202
    assert answer.json()["data"]["job_id"]
    regenerate = f"/images/{image['id']}/translations/en/regenerate"
    assert gated.client.post(regenerate, headers=wait).status_code == 202


def test_events_report_every_change_and_end_with_the_final_status(gated: Running, describer: GatedDescriber) -> None:
    def events(job_id: str) -> list[dict[str, Any]]:
        with event_stream(gated, f"/jobs/{job_id}/events") as stream:
            received = list(iter(stream.next, END))
        assert {name for name, _ in received} == {"status"}
        return [body["data"] for _, body in received]

    describer.open.clear()
    job_id = gated.dispatch("process", pictures.jpeg())["job_id"]
    threading.Timer(0.5, describer.open.set).start()
    sent = events(job_id)
    assert sent[-1] == gated.job(job_id)
    assert [job["status"] for job in sent].count("completed") == 1
    assert all(earlier != later for earlier, later in itertools.pairwise(sent))
    assert [job["status"] for job in events(job_id)] == ["completed"]
    describer.open.clear()
    job_id = gated.dispatch("analyze", pictures.jpeg())["job_id"]
    with event_stream(gated, f"/jobs/{job_id}/events") as stream:
        stream.next()
        gated.client.delete(f"/jobs/{job_id}").raise_for_status()
        while stream.next() != END:
            pass


def test_jobs_are_listed_newest_first_with_filters_and_cursor(gated: Running, describer: GatedDescriber) -> None:
    (project,) = project_ids(gated, project_name="A")
    others = [gated.dispatch("optimize", pictures.jpeg(), project_name="B")["job_id"] for _ in range(3)]
    first = gated.client.get("/jobs", params={"limit": 2}).json()
    assert [job["job_id"] for job in first["data"]] == [others[2], others[1]]
    second = gated.client.get("/jobs", params={"limit": 100, "cursor": first["next_cursor"]}).json()
    assert len(second["data"]) == 5
    assert second["next_cursor"] is None
    assert len(gated.client.get("/jobs", params={"project_id": project}).json()["data"]) == 4
    for job in gated.client.get("/jobs").json()["data"]:
        gated.final(job["job_id"])
    assert len(gated.client.get("/jobs", params={"status": "completed"}).json()["data"]) == 7
    assert gated.client.get("/jobs", params={"status": "failed"}).json()["data"] == []


def test_delete_cancels_what_has_not_started_and_removes_the_files(gated: Running, describer: GatedDescriber) -> None:
    describer.open.clear()
    blocking = gated.dispatch("analyze", pictures.jpeg())["job_id"]
    waiting = gated.dispatch("analyze", pictures.jpeg(seed=2), languages=["en", "de"])["job_id"]
    funds = balance(gated)
    assert gated.client.delete(f"/jobs/{waiting}").status_code == 204
    assert balance(gated) == funds + 2
    assert gated.client.get(f"/jobs/{waiting}").status_code == 404
    describer.open.set()
    gated.final(blocking)
    assert describer.described == 1
    done = gated.process("process", pictures.jpeg(seed=3))
    gated.client.delete(f"/jobs/{done['job_id']}")
    gated.client.delete(f"/jobs/{blocking}")
    assert gated.client.get(f"/images/{done['image']['id']}/optimized").status_code == 404
    assert gated.services.blobs.on_disk() == []
    assert gated.client.delete(f"/jobs/{done['job_id']}").status_code == 404


def test_idempotency_key_answers_with_the_same_job_for_24_hours(timed: Running, clock: ManualClock) -> None:
    picture = pictures.jpeg()

    def dispatch(key: str, operation: str = "analyze", **form: Any) -> httpx.Response:
        return timed.upload(operation, picture, headers={"Idempotency-Key": key}, **form)

    first = dispatch("k1").json()["data"]["job_id"]
    balance = timed.client.get("/credits/balance").json()
    assert dispatch("k1").json()["data"]["job_id"] == first
    assert timed.client.get("/credits/balance").json() == balance
    assert dispatch("k2").json()["data"]["job_id"] != first
    other = dispatch("k1", languages="de")
    assert other.status_code == 409
    assert set(other.json()) == {"message"}
    for key, operation, fields in (
        ("sizes", "optimize", [{}, {}, {"max_width_px": 40}, {"max_height_px": 40}]),
        ("quality", "optimize", [{}, {}, {"quality_target": "small"}, {"quality_target": 70}]),
        ("contexts", "analyze", [{"context": "one"}, {"context": "one"}, {"context": "two"}, {"context": ""}]),
        ("folders", "optimize", [{}, {"folder": ""}, {"folder": "a"}, {"folder": "b"}]),
        ("roles", "analyze", [{}, {"role": "informative"}, {"role": "decorative"}, {"role": "DECORATIVE"}]),
    ):
        assert [dispatch(key, operation, **each).status_code for each in fields] == [202, 202, 409, 409]
    clock.now_s += 24 * 3600 - 1
    assert dispatch("k1").json()["data"]["job_id"] == first
    clock.now_s += 2
    assert dispatch("k1").json()["data"]["job_id"] != first
    assert list(problems(dispatch("k" * 256))) == ["Idempotency-Key"]
    assert len({answer.json()["data"]["job_id"] for answer in at_once(lambda _: dispatch("at once"), 6)}) == 1


def test_an_idempotency_key_compares_what_is_asked_for(gated: Running) -> None:
    def dispatch(operation: str = "convert", name: str = "a.jpg", **form: Any) -> httpx.Response:
        return gated.upload(operation, pictures.jpeg(), name, headers={"Idempotency-Key": "compared"}, **form)

    first = dispatch().json()["data"]["job_id"]
    for same in ({"format": "webp"}, {"project_name": "API Uploads"}, {"languages": "de", "colour": "red"}):
        assert dispatch(**same).json()["data"]["job_id"] == first
    for other in ({"name": "b.jpg"}, {"operation": "optimize"}, {"quality_target": "web"}):
        assert dispatch(**other).status_code == 409
    assert gated.client.delete(f"/jobs/{first}").status_code == 204
    assert dispatch().json()["data"]["job_id"] != first


def test_healthz_needs_no_key_and_reports_when_stages_are_not_claimed(gated: Running) -> None:
    assert httpx.get(f"{gated.root}/healthz").status_code == 200

    async def kill_a_lane() -> None:
        next(task for task in asyncio.all_tasks() if task.get_name() == "codecs-0").cancel()

    gated.run(kill_a_lane())
    assert wait_until(lambda: httpx.get(f"{gated.root}/healthz").status_code != 200)
    answer = httpx.get(f"{gated.root}/healthz")
    assert answer.status_code == 503
    assert set(answer.json()) == {"message"}


def test_a_full_queue_is_503_with_retry_after_and_takes_nothing(tmp_path: Path, describer: GatedDescriber) -> None:
    def repeatable() -> httpx.Response:
        return service.upload("analyze", pictures.jpeg(), headers={"Idempotency-Key": "once"})

    with running(tmp_path, lambda: describer, queue_limit=2) as service:
        describer.open.clear()
        service.dispatch("analyze", pictures.jpeg(seed=2))
        first = repeatable().json()["data"]["job_id"]
        balance = service.client.get("/credits/balance").json()
        answer = service.upload("analyze", pictures.jpeg(seed=9))
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert answer.headers["x-error-code"] == "queue_full"
        assert set(answer.json()) == {"message"}
        assert repeatable().json()["data"]["job_id"] == first
        assert service.client.get("/credits/balance").json() == balance
        describer.open.set()
