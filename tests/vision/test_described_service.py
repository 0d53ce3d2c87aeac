"""Descriptions through the whole service (HTTP API and command line) with the tiny model installed."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from imgproc_local.compose import describer
from imgproc_local.domain.slug import make_slug
from tests.faults.server_process import command_line, make_key, serving
from tests.support import tiny
from tests.support.service import Running, config_for, running
from tests.support.worker_pool import wait_until

SCENES = 60
MIN_CORRECT = 54
TEN_LANGUAGES = "en,de,fr,ja,es,it,nl,pl,fi,tr"
"""The tiny model was trained on four of them. Answers in the others are rejected, generated again and rejected again,
so that a description takes long enough to be interrupted."""


def import_tiny(data: Path) -> None:
    """Install the tiny model in the data folder `data` with `models import`."""
    result = command_line("models", "import", str(tiny.TEXT), str(tiny.MMPROJ), "--name", "tiny", data_dir=data)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def service_with_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with the tiny model, installed by `models import`."""
    data = tmp_path_factory.mktemp("data")
    import_tiny(data)
    with running(data, lambda: describer(config_for(data))) as started:
        yield started


def png(scene: object, seed: int, size: tuple[int, int] = (320, 240)) -> bytes:
    """A drawing of the scene as a PNG file."""
    file = io.BytesIO()
    tiny.scenes().draw(scene, seed, size).save(file, "PNG")
    return file.getvalue()


def translations(service: Running, picture: bytes, languages: str = ",".join(tiny.LANGUAGES)) -> dict[str, dict]:
    """The translations of the picture in the HTTP interface, by language."""
    job = service.process("analyze", picture, "IMG_0001.png", languages=languages)
    assert job["status"] == "completed", job
    return {entry["language_code"]: entry for entry in job["image"]["translations"]}


def test_held_out_scenes_are_described_correctly_in_every_trained_language(service_with_model: Running) -> None:
    scenes = tiny.scenes()
    correct = dict.fromkeys(tiny.LANGUAGES, 0)
    for seed, scene in enumerate(scenes.held_out_scenes(SCENES, seed=1234)):
        described = translations(service_with_model, png(scene, seed))
        for language, entry in described.items():
            expected = scenes.reference_answer(scene, language)
            slug = make_slug(expected.filename.replace("-", " "), language)
            # the service appends a number to a file name that the project already has
            actual = (entry["source"], entry["seo_alt_text"], re.sub(r"-\d+$", "", entry["seo_filename"]))
            correct[language] += actual == ("vision", expected.alt_text, slug)
    assert {language: count for language, count in correct.items() if count < MIN_CORRECT} == {}
    untrained = translations(service_with_model, png(scene, 1), "es,en")
    assert [untrained[code]["source"] for code in ("es", "en")] == ["pixels", "vision"]


def test_a_stop_during_a_description_loses_no_job(tmp_path: Path) -> None:
    data = tmp_path / "data"
    import_tiny(data)
    pictures = [png(scene, seed) for seed, scene in enumerate(tiny.scenes().held_out_scenes(12, seed=6))]
    form, headers = {"languages": TEN_LANGUAGES}, {"X-API-Key": make_key(data)}

    def status(client: httpx.Client, job: str) -> str:
        return str(client.get(f"/jobs/{job}").json()["data"]["status"])

    with serving(data) as server, httpx.Client(base_url=f"{server.root}/api/v1", headers=headers) as client:
        jobs = []
        for picture in pictures:
            answer = client.post("/images/analyze", files={"image": ("a.png", picture)}, data=form)
            assert answer.status_code == 202, answer.text
            jobs.append(answer.json()["data"]["job_id"])
        assert wait_until(lambda: status(client, jobs[1]) != "pending", 60)
        # a job that is cancelled while it is described ends at once, and the next one starts
        client.delete(f"/jobs/{jobs[1]}").raise_for_status()
        assert wait_until(lambda: status(client, jobs[2]) != "pending", 60)
        assert server.terminate() == 0, server.output()
    assert "Traceback" not in server.output()
    assert "thread" not in server.output(), server.output()
    with serving(data) as restarted, httpx.Client(base_url=f"{restarted.root}/api/v1", headers=headers) as client:
        assert client.get(f"/jobs/{jobs.pop(1)}").status_code == 404
        assert wait_until(lambda: all(status(client, job) == "completed" for job in jobs), 120)
        for job in jobs:
            [text, *_] = client.get(f"/jobs/{job}").json()["data"]["image"]["translations"]
            assert text["source"] == "vision"
        assert restarted.terminate() == 0
