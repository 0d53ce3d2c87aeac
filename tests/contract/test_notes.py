"""Notes on results, and conversions that are kept only if they are smaller."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import Image

from tests.support import pictures
from tests.support.service import Running
from tests.support.worker_pool import wait_until

FLAT = pictures.encoded(Image.new("RGB", (16, 16), "teal"), "PNG")
"""An AVIF of it has several times its bytes, for its header alone."""


def details(service: Running, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = service.job(f"{job_id}?include=details")["image"]["details"]
    return found


def balance(service: Running) -> int:
    return int(service.client.get("/credits/balance").json()["data"]["balance"])


def test_a_conversion_that_is_larger_than_the_optimized_file_is_said(service: Running) -> None:
    job = service.process("process", FLAT, format="avif")
    assert job["image"]["converted_size"] >= job["image"]["optimized_size"]
    found = details(service, job["job_id"])
    assert (found["optimized_notes"], found["only_smaller"]) == ([], False)
    (note,) = found["converted_notes"]
    assert note["code"] == "larger_than_optimized"
    assert note["message"].endswith("the optimized one, which is the one to serve.")
    smaller = service.process("process", pictures.png())
    assert details(service, smaller["job_id"])["converted_notes"] == []


@pytest.mark.parametrize(("operation", "price"), [("convert", 0), ("process", 2)])
def test_only_smaller_keeps_no_larger_conversion_and_charges_nothing_for_it(
    service: Running, operation: str, price: int
) -> None:
    before = balance(service)
    job = service.process(operation, FLAT, format="avif", only_smaller="true")
    image = job["image"]
    assert (job["status"], image["converted_size"], image["converted_format"]) == ("completed", None, None)
    found = details(service, job["job_id"])
    assert [note["code"] for note in found["converted_notes"]] == ["not_smaller"]
    assert found["only_smaller"] is True
    assert before - balance(service) == price
    answer = service.client.get(f"/images/{image['id']}/converted")
    assert (answer.status_code, list(answer.json())) == (404, ["error"])
    assert "it was not smaller, and not kept" in answer.json()["error"]
    files = service.client.post("/exports", json={"images": [image["id"]], "variants": ["best"], "dry_run": True})
    assert files.json()["data"]["files"] == (operation == "process"), "the best file is the optimized one"


def test_only_smaller_keeps_a_smaller_conversion(service: Running) -> None:
    before = balance(service)
    job = service.process("process", pictures.png(), only_smaller="True")
    assert job["image"]["converted_size"] < job["image"]["optimized_size"]
    assert details(service, job["job_id"])["converted_notes"] == []
    assert before - balance(service) == 3


def test_a_conversion_made_anew_must_be_smaller_than_the_optimized_file_or_the_one_in_force_stays(
    service: Running,
) -> None:
    job = service.process("process", pictures.png(), only_smaller="true")
    image_id = job["image"]["id"]
    in_force = service.client.get(f"/images/{image_id}/converted").content
    before = balance(service)
    wanted = {"images": [{"image_id": image_id}], "format": "avif", "max_width_px": 8}
    assert service.client.post("/images/remake", json=wanted).status_code == 202
    assert wait_until(lambda: not details(service, job["job_id"])["remaking"])
    assert "not smaller" in details(service, job["job_id"])["remake_error"]
    image = service.job(job["job_id"])["image"]
    assert (image["converted_size"], image["converted_format"]) == (len(in_force), "webp")
    assert service.client.get(f"/images/{image_id}/converted").content == in_force
    assert before - balance(service) == 1
    wanted = {"images": [{"image_id": image_id}], "format": "avif", "max_width_px": None}
    assert service.client.post("/images/remake", json=wanted).status_code == 202
    assert wait_until(lambda: not details(service, job["job_id"])["remaking"])
    assert details(service, job["job_id"])["remake_error"] is None
    assert service.job(job["job_id"])["image"]["converted_format"] == "avif", "it can be made anew"


def test_only_smaller_is_true_or_false_and_no_field_of_optimize(service: Running) -> None:
    answer = service.upload("convert", FLAT, only_smaller="yes")
    assert answer.status_code == 422
    assert answer.json()["errors"] == {"only_smaller": ["only_smaller must be true or false; received 'yes'."]}
    assert service.upload("optimize", FLAT, only_smaller="true").json()["warnings"] == ["only_smaller"]
