"""`folder`: where an upload was on the sender's disk."""

from __future__ import annotations

from typing import Any

import pytest

from tests.codecs.pictures import jpeg_with_metadata
from tests.support import pictures
from tests.support.service import Running

PICTURE = pictures.jpeg()


def details(service: Running, job_id: str) -> dict[str, Any]:
    answer = service.client.get(f"/jobs/{job_id}", params={"include": "details"})
    found: dict[str, Any] = answer.json()["data"]["image"]["details"]
    return found


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("Hochzeit Müller/Kirche", "Hochzeit Müller/Kirche"),
        ("/home/eva/../Bilder/./Kirche//", "home/eva/Bilder/Kirche"),
        (r"C:\Bilder\Kirche", "Bilder/Kirche"),
        ("D:", ""),
        ("", ""),
        ("Mu\u0308ller", "Müller"),
        ("a" * 1000, "a" * 1000),
    ],
)
def test_a_folder_is_stored_without_what_names_none(service: Running, sent: str, stored: str) -> None:
    job_id = service.dispatch("optimize", PICTURE, folder=sent)["job_id"]
    assert details(service, job_id)["folder"] == stored


@pytest.mark.parametrize("sent", ["a" * 1001, "a\x07b"])
def test_another_folder_is_refused_by_all_operations(service: Running, sent: str) -> None:
    for operation in ("analyze", "optimize", "convert", "process"):
        answer = service.upload(operation, PICTURE, folder=sent)
        assert answer.status_code == 422
        (problem,) = answer.json()["errors"]["folder"]
        assert problem.startswith("folder must be at most 1000 characters without control characters; received")


def test_when_a_picture_was_taken_is_among_its_details(service: Running) -> None:
    taken = [
        details(service, service.dispatch("optimize", each)["job_id"])["taken_at"]
        for each in (
            jpeg_with_metadata(),
            PICTURE,
        )
    ]
    assert taken == ["2031-05-06T07:08:09", None]
