"""Descriptions through the whole service, in a process of its own, with the tiny model installed."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.filename import make_slug
from tests.faults.server_process import command_line, make_key, serving
from tests.support import tiny
from tests.support.pictures import encoded
from tests.support.service import Service
from tests.support.worker_pool import wait_until

SCENES = 30
MIN_CORRECT = 27
TEN_LANGUAGES = "en,de,fr,ja,es,it,nl,pl,fi,tr"
"""The tiny model was trained on four of them. Answers in the others are rejected, generated again and rejected again,
so that a description takes long enough to be interrupted."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder in which `models import` has installed the tiny model."""
    folder = tmp_path / "data"
    result = command_line("models", "import", str(tiny.TEXT), str(tiny.MMPROJ), "--name", "tiny", data_dir=folder)
    assert result.returncode == 0, result.stderr
    return folder


def png(scene: object, seed: int) -> bytes:
    """A drawing of the scene as a PNG file."""
    return encoded(tiny.scenes().draw(scene, seed, (320, 240)), "PNG")


def translations(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The translations of a completed job, by language."""
    assert job["status"] == "completed", job
    return {entry["language_code"]: entry for entry in job["image"]["translations"]}


def test_held_out_scenes_are_described_correctly_in_every_trained_language(data: Path) -> None:
    scenes, correct = tiny.scenes(), Counter[str]()
    key = make_key(data)
    with serving(data) as server, Service(server.root or "", key) as service:
        for seed, scene in enumerate(scenes.held_out_scenes(SCENES, seed=1234)):
            job = service.process("analyze", png(scene, seed), "IMG_0001.png", languages=",".join(tiny.LANGUAGES))
            for language, entry in translations(job).items():
                expected = scenes.reference_answer(scene, language)
                slug = make_slug(expected.filename.replace("-", " "), language)
                # the service appends a number to a file name that the project already has
                name = re.sub(r"-\d+$", "", entry["seo_filename"])
                found = (entry["source"], entry["seo_alt_text"], name)
                correct[language] += found == ("vision", expected.alt_text, slug)
        assert server.terminate() == 0
    assert all(correct[language] >= MIN_CORRECT for language in tiny.LANGUAGES), correct


def test_a_text_of_a_person_is_translated_into_languages_that_the_picture_lacks(data: Path) -> None:
    scenes = tiny.scenes()
    (scene,) = scenes.held_out_scenes(1, seed=1234)
    expected = {language: scenes.reference_answer(scene, language).alt_text for language in tiny.LANGUAGES}
    key = make_key(data)
    with serving(data) as server, Service(server.root or "", key) as service:
        job = service.process("analyze", png(scene, 0), languages="en")
        image_id, path = job["image"]["id"], f"/jobs/{job['job_id']}?include=details"
        words = {"seo_alt_text": f"There is {expected['en'].removeprefix('A ').rstrip('.')} here."}
        service.client.patch(f"/images/{image_id}/translations/en", json=words).raise_for_status()
        texts = [{"image_id": image_id, "language_code": code} for code in tiny.LANGUAGES[1:]]
        service.client.post("/translations/regenerate", json={"texts": texts, "from_language": "en"}).raise_for_status()
        assert wait_until(lambda: '"regenerating":true' not in service.client.get(path).text, 60)
        _, *translated = service.client.get(path).json()["data"]["image"]["translations"]
        assert server.terminate() == 0
    assert {text["language_code"]: text["seo_alt_text"] for text in translated} | {"en": expected["en"]} == expected
    assert {(text["source"], text["model"].split("@")[0]) for text in translated} == {("vision", "tiny")}


def test_a_stop_during_a_description_loses_no_job(data: Path) -> None:
    key = make_key(data)

    def begins(service: Service, job: str) -> bool:
        return wait_until(lambda: service.job(job)["status"] != "pending", 60)

    with serving(data) as server, Service(server.root or "", key) as service:
        jobs = [
            service.dispatch("analyze", png(scene, seed), languages=TEN_LANGUAGES)["job_id"]
            for seed, scene in enumerate(tiny.scenes().held_out_scenes(12, seed=6))
        ]
        assert begins(service, jobs[1])
        # a job that is cancelled while it is described ends at once, and the next one starts
        service.client.delete(f"/jobs/{jobs[1]}").raise_for_status()
        assert begins(service, jobs[2])
        assert server.terminate() == 0, server.output()
    assert "Traceback" not in server.output()
    assert "thread" not in server.output(), server.output()
    with serving(data) as restarted, Service(restarted.root or "", key) as service:
        assert service.client.get(f"/jobs/{jobs.pop(1)}").status_code == 404
        for job in jobs:
            assert translations(service.final(job, 120))["en"]["source"] == "vision"
        assert restarted.terminate() == 0
