"""`PATCH /images`: the project, caption, keywords and credit of many pictures."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support import pictures
from tests.support.exports import add
from tests.support.finished import text
from tests.support.service import GatedDescriber, Running, running

ULID = "01arz3ndektsv4rrffq69g5fav"


def edit(service: Running, *images: dict[str, Any]) -> list[dict[str, Any]]:
    answer = service.client.patch("/images", json={"images": images})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


def details(service: Running, job_id: str) -> dict[str, Any]:
    answer = service.client.get(f"/jobs/{job_id}", params={"include": "details"})
    found: dict[str, Any] = answer.json()["data"]["image"]["details"]
    return found


def names(service: Running, job_id: str) -> list[str]:
    return [each["seo_filename"] for each in service.job(job_id)["image"]["translations"]]


def test_words_are_stored_replaced_and_taken_back(fresh: Running) -> None:
    job = add(fresh, "boat")
    sent = {
        "caption": " Zwei Boote\r\nam\tKai\x00 ",
        "keywords": ["Boot", " Boot ", "", "Hafen\n1"],
        "credit": "Mu\u0308ller",
    }
    stored = {"caption": "Zwei Boote\nam Kai", "keywords": ["Boot", "Hafen 1"], "credit": "Müller"}
    (result,) = edit(fresh, {"image_id": job.image_id.upper(), **sent})
    named = {"image_id": job.image_id, "job_id": job.id, "project_name": "API Uploads"}
    assert result == named | {"words": stored}
    assert details(fresh, job.id)["words"] == stored
    (result,) = edit(fresh, {"image_id": job.image_id, "credit": "Meier"})
    assert result["words"] == stored | {"credit": "Meier"}
    (result,) = edit(fresh, {"image_id": job.image_id, "caption": None, "keywords": [], "credit": ""})
    assert result["words"] == {"keywords": [], "credit": ""}
    (result,) = edit(fresh, {"image_id": job.image_id, "keywords": None, "credit": None})
    assert result["words"] == details(fresh, job.id)["words"] == {}


def test_a_moved_picture_keeps_its_file_names_where_they_are_free(fresh: Running) -> None:
    old, other, new = (
        add(fresh, label, texts=[text("en", "boat"), text("de", german)], project=project)
        for label, german, project in (("a", "boot", "Old"), ("b", "kahn", "Old"), ("c", "boot", "New"))
    )
    assert names(fresh, other.id) == ["boat-2", "kahn"]
    moved = [{"image_id": job.image_id, "project_name": " New "} for job in (old, other)]
    assert [result["project_name"] for result in edit(fresh, *moved)] == ["New", "New"]
    assert [names(fresh, job.id) for job in (new, old, other)] == [
        ["boat", "boot"],
        ["boat-2", "boot-2"],
        ["boat-3", "kahn"],
    ]
    assert {details(fresh, job.id)["project"]["name"] for job in (old, other, new)} == {"New"}
    listed = {each["name"]: each["pictures"] for each in fresh.client.get("/projects").json()["data"]}
    assert listed == {"New": 3, "Old": 0}
    edit(fresh, {"image_id": old.image_id, "project_name": "Third"})
    assert names(fresh, old.id) == ["boat-2", "boot-2"], "a published name does not change without need"
    assert names(fresh, add(fresh, "d", texts=[text("en", "boat")], project="New").id) == ["boat-4"]


def test_the_texts_of_a_picture_that_is_moved_while_it_is_described_are_in_its_new_project(
    tmp_path: Any, describer: GatedDescriber
) -> None:
    with running(tmp_path, lambda: describer) as service:
        describer.slug = "boat"
        taken = add(service, "a", texts=[text("en", "boat")], project="New")
        describer.open.clear()
        job_id = service.dispatch("analyze", pictures.jpeg())["job_id"]
        while (job := service.job(job_id))["status"] == "pending":
            pass
        edit(service, {"image_id": job["image"]["id"], "project_name": "New"})
        describer.open.set()
        service.final(job_id)
        assert (names(service, taken.id), names(service, job_id)) == (["boat"], ["boat-2"])


def test_an_item_that_can_not_be_changed_says_why_and_stops_no_other(fresh: Running) -> None:
    job = add(fresh, "boat")
    with fresh.as_account("another") as other:
        foreign = add(other, "foreign")
    own = {"image_id": job.image_id}
    refused: list[tuple[dict[str, Any], int, str]] = [
        ({"image_id": ULID, "caption": "x"}, 404, "No image"),
        ({"image_id": foreign.image_id, "caption": "x"}, 404, "No image"),
        (own, 422, "Expected project_name, caption, keywords or credit beside image_id; received none."),
        (own | {"caption": "x" * 2001}, 422, "caption may have at most 2000 characters; received 2001."),
        (own | {"credit": "x" * 251}, 422, "credit may have at most 250 characters; received 251."),
        (own | {"keywords": [str(number) for number in range(101)]}, 422, "keywords may have at most 100 entries"),
        (own | {"keywords": ["x" * 101]}, 422, "keywords may have at most 100 characters each; received"),
        (own | {"project_name": " "}, 422, "project_name must be at most 255 characters"),
        (own | {"project_name": "a\x07"}, 422, "project_name must be at most 255 characters"),
        (own | {"caption": "good", "project_name": "x" * 256}, 422, "project_name must be at most 255 characters"),
    ]
    results = edit(fresh, *(item for item, _, _ in refused), own | {"credit": "x" * 250})
    for (item, status, message), result in zip(refused, results, strict=False):
        assert result == {"image_id": item["image_id"], "problem": result["problem"], "status": status}
        assert result["problem"].startswith(message)
    assert results[-1]["words"] == details(fresh, job.id)["words"] == {"credit": "x" * 250}
    assert details(fresh, job.id)["project"]["name"] == "API Uploads"


@pytest.mark.parametrize(
    "body",
    [{"images": []}, {}, {"images": [{"image_id": ULID, "caption": 1}]}, {"images": [{"image_id": ULID, "title": "x"}]},
     {"images": [{"caption": "x"}]}, {"images": [{"image_id": ULID}] * 10_001},
     {"images": [{"image_id": ULID, "caption": "x"}], "project": "Guide"}],
)  # fmt: skip
def test_another_body_is_refused(fresh: Running, body: dict[str, Any]) -> None:
    answer: httpx.Response = fresh.client.patch("/images", json=body)
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["body"])
