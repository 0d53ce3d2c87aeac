"""Results of finished jobs are made anew as api/README.md, "Making results anew", says.

This is one long file because its tests share one service.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from imgproc_local.domain.errors import StageFailed
from imgproc_local.domain.job import StageName
from imgproc_local.engine.pipeline import Pipeline
from imgproc_local.engine.stage import Stage, WorkItem
from imgproc_local.storage.jobs import MaxAge, Retention
from tests.support import pictures
from tests.support.service import GatedDescriber, Running, running
from tests.support.worker_pool import wait_until

PICTURE = pictures.jpeg(320, 240)
UNKNOWN = "01arz3ndektsv4rrffq69g5fav"


class Gate:
    """Holds the stages of the codecs while it is closed, notes what they work on, and fails those in `failing`."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.failing: set[StageName] = set()
        self.begun: list[tuple[StageName, WorkItem]] = []

    def run(self, run: Any, pipeline: Pipeline, stage: Stage, work: WorkItem, token: Any) -> Any:
        if stage.name is not StageName.ANALYZE:
            self.begun.append((stage.name, work))
            while not self.open.wait(0.01):
                token.check()
            if stage.name in self.failing:
                return StageFailed("It is said to fail."), 0.0
        return run(pipeline, stage, work, token)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """An open gate."""
    gate, run = Gate(), Pipeline.run
    gate.open.set()
    monkeypatch.setattr(Pipeline, "run", lambda *work: gate.run(run, *work))
    return gate


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("data"), GatedDescriber, codec_threads=1) as started:
        yield started


class Job:
    """A finished job of its own."""

    def __init__(self, service: Running, operation: str = "process", picture: bytes = PICTURE, **form: Any) -> None:
        self.service = service
        self.first = service.process(operation, picture, **form)
        self.id, self.image_id = self.first["job_id"], self.first["image"]["id"]

    @property
    def image(self) -> dict[str, Any]:
        image: dict[str, Any] = self.service.client.get(f"/jobs/{self.id}?include=details").json()["data"]["image"]
        return image

    @property
    def details(self) -> dict[str, Any]:
        details: dict[str, Any] = self.image["details"]
        return details

    def remake(self, **options: Any) -> None:
        assert results(remake(self.service, [self.image_id], **options)) == [{"image_id": self.image_id}]

    def wait(self) -> dict[str, Any]:
        """The image once nothing is being made anew."""
        assert wait_until(lambda: not self.details["remaking"])
        return self.image

    def file(self, variant: str) -> bytes:
        return self.service.client.get(f"/images/{self.image_id}/{variant}").raise_for_status().content


def remake(service: Running, image_ids: list[str], **options: Any) -> httpx.Response:
    return service.client.post("/images/remake", json={"images": [{"image_id": each} for each in image_ids], **options})


def results(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 202, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


def balance(service: Running) -> int:
    amount: int = service.client.get("/credits/balance").json()["data"]["balance"]
    return amount


def only_referenced_files(service: Running) -> bool:
    referenced = service.run(service.services.jobs.referenced_files())
    return {file.name for file in service.services.blobs.on_disk()} == referenced


def test_results_are_made_anew_with_other_options_and_the_rest_stays(shared: Running, gate: Gate) -> None:
    job = Job(shared, languages="en,de", quality_target="visually-lossless")
    before, files = job.image, (job.file("optimized"), job.file("converted"))
    shared.client.patch(f"/images/{job.image_id}/translations/en", json={"seo_alt_text": "A word of a person."})
    texts = job.image["translations"]
    gate.begun.clear()
    gate.open.clear()
    job.remake(format="avif", max_width_px=100, quality_target="small")
    assert wait_until(lambda: len(gate.begun) == 1)
    waiting = job.image
    assert waiting["details"]["remaking"] is True
    assert (job.file("optimized"), job.file("converted")) == files, "the results in force are served"
    for name in ("status", "converted_format", "optimized_size", "converted_size"):
        assert waiting[name] == before[name]
    assert waiting["details"]["quality_target"] == "visually-lossless"
    gate.open.set()
    after = job.wait()
    assert (after["status"], after["id"], after["translations"]) == ("completed", job.image_id, texts)
    assert after["converted_format"] == "avif"
    for variant, kind in (("optimized", "JPEG"), ("converted", "AVIF")):
        opened = Image.open(io.BytesIO(job.file(variant)))
        assert (opened.format, opened.size) == (kind, (100, 75))
    details = after["details"]
    assert (details["quality_target"], details["max_width_px"], details["max_height_px"]) == ("small", 100, None)
    assert details["remake_error"] is None
    assert wait_until(lambda: only_referenced_files(shared)), "the replaced files are removed"


def test_another_format_changes_only_the_converted_file_and_what_is_left_out_stays(shared: Running, gate: Gate) -> None:
    job = Job(shared, quality_target=70, max_width_px=200)
    gate.begun.clear()
    job.remake(format="avif")
    job.wait()
    (name, work), *others = gate.begun
    assert (name, others) == (StageName.CONVERT, [])
    assert (work.plan.quality_target, work.plan.max_width_px) == (70, 200)
    gate.begun.clear()
    job.remake(max_width_px=None, quality_target=None)
    job.wait()
    assert {name for name, _ in gate.begun} == {StageName.OPTIMIZE, StageName.CONVERT}
    assert {(work.plan.format, work.plan.max_width_px, work.plan.quality_target) for _, work in gate.begun} == {
        ("avif", None, None)
    }
    assert (job.details["max_width_px"], job.details["quality_target"]) == (None, None)
    assert Image.open(io.BytesIO(job.file("converted"))).size == (320, 240)


def test_the_latest_wish_wins_and_keeps_what_an_earlier_one_changed(shared: Running, gate: Gate) -> None:
    job = Job(shared)
    paid = balance(shared)
    gate.begun.clear()
    gate.open.clear()
    job.remake(format="avif", max_width_px=100)
    assert wait_until(lambda: len(gate.begun) == 1)
    job.remake(quality_target="small")
    assert balance(shared) == paid - 2, "what is discarded costs nothing"
    gate.open.set()
    image = job.wait()
    assert image["converted_format"] == "avif"
    assert (image["details"]["quality_target"], image["details"]["max_width_px"]) == ("small", 100)
    assert balance(shared) == paid - 2
    assert [work.plan.quality_target for _, work in gate.begun] == [None, "small", "small"]
    assert wait_until(lambda: only_referenced_files(shared))


def test_a_failure_keeps_the_result_says_why_and_gives_the_credits_back(shared: Running, gate: Gate) -> None:
    job = Job(shared)
    paid, before = balance(shared), (job.file("optimized"), job.file("converted"))
    gate.failing = {StageName.CONVERT}
    job.remake(quality_target="small")
    image = job.wait()
    assert image["details"]["remake_error"] == "It is said to fail."
    assert image["status"] == "completed"
    assert "errors" not in shared.job(job.id)
    assert job.file("converted") == before[1]
    assert job.file("optimized") != before[0]
    assert balance(shared) == paid - 1
    gate.failing = set()
    job.remake(quality_target="small")
    assert job.wait()["details"]["remake_error"] is None


def test_images_that_cannot_be_remade_have_a_problem_and_the_others_are(shared: Running, gate: Gate) -> None:
    done, analyzed, optimized = Job(shared), Job(shared, "analyze"), Job(shared, "optimize")
    with shared.as_account("other") as other:
        foreign = Job(other)
    gate.open.clear()
    unfinished = shared.job(shared.dispatch("optimize", PICTURE)["job_id"])["image"]["id"]
    paid = balance(shared)
    listed = [UNKNOWN, foreign.image_id, analyzed.image_id, optimized.image_id, unfinished, done.image_id.upper(), "?"]
    found = results(remake(shared, listed, format="avif"))
    gate.open.set()
    assert [each["image_id"] for each in found] == listed
    assert [each.get("status") for each in found] == [404, 404, 409, 409, 409, None, 404]
    assert all(each.get("problem", "A sentence.").endswith(".") for each in found)
    assert balance(shared) == paid - 1
    done.wait()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"images": []},
        {"images": [{"image_id": UNKNOWN}] * 10_001},
        {"images": [UNKNOWN]},
        {"images": [{"image_id": UNKNOWN}], "format": "jpeg"},
        {"images": [{"image_id": UNKNOWN}], "format": None},
        {"images": [{"image_id": UNKNOWN}], "max_width_px": 0},
        {"images": [{"image_id": UNKNOWN}], "quality_target": 49},
        {"images": [{"image_id": UNKNOWN}], "quality_target": "best"},
        {"images": [{"image_id": UNKNOWN}], "quality": "web"},
    ],
)
def test_another_request_is_refused(shared: Running, body: dict[str, Any]) -> None:
    answer = shared.client.post("/images/remake", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"]["body"]


def test_remakes_cost_what_an_upload_costs_and_the_page_pays_nothing(tmp_path: Path, gate: Gate) -> None:
    with running(tmp_path, GatedDescriber, prices="1, 2, 4", first_balance=20, codec_threads=1) as service:
        jobs = [Job(service), Job(service)]
        assert balance(service) == 20 - 2 * 7
        ids = [job.image_id for job in jobs]
        answer = remake(service, ids, quality_target="small")
        assert answer.status_code == 402
        assert answer.json()["required"] == 12
        assert not any(job.details["remaking"] for job in jobs)
        gate.begun.clear()
        gate.open.clear()
        assert results(remake(service, ids[:1], quality_target="small"))
        assert balance(service) == 0
        assert wait_until(lambda: len(gate.begun) == 1)
        page = service.client.post(
            "/images/remake", json={"images": [{"image_id": ids[1]}]}, headers=service.page_session()
        )
        assert results(page) == [{"image_id": ids[1]}]
        service.client.delete(f"/jobs/{jobs[0].id}").raise_for_status()
        assert balance(service) == 4, "those of what had not started are given back"
        gate.open.set()
        jobs[1].wait()
        assert balance(service) == 4
        assert wait_until(lambda: only_referenced_files(service))


def test_originals_are_needed_and_stay_while_a_remake_waits(tmp_path: Path, gate: Gate) -> None:
    with running(tmp_path, GatedDescriber, codec_threads=1) as service:
        job, retention = Job(service), Retention(service.services.store.database)
        gate.open.clear()
        job.remake(quality_target="small")
        everything = MaxAge(originals=timedelta(microseconds=1))
        service.run(retention.remove(everything))
        assert job.file("original") == PICTURE
        gate.open.set()
        job.wait()
        service.run(retention.remove(everything))
        (result,) = results(remake(service, [job.image_id], quality_target="web"))
        assert result["status"] == 409
        assert "removed because of its age" in result["problem"]


def test_waiting_remakes_are_limited_and_uploads_take_turns_with_them(tmp_path: Path, gate: Gate) -> None:
    with running(tmp_path, GatedDescriber, queue_limit=1, codec_threads=1) as service:
        jobs = [Job(service, picture=pictures.jpeg(64, 48)) for _ in range(11)]
        gate.open.clear()
        gate.begun.clear()
        answer = remake(service, [job.image_id for job in jobs], quality_target="small")
        assert answer.status_code == 503
        assert answer.headers["x-error-code"] == "queue_full"
        assert results(remake(service, [job.image_id for job in jobs[:10]], quality_target="small"))
        uploaded = service.dispatch("optimize", PICTURE)["job_id"]
        waiting = 'imgproc_queue_stages{lane="codecs",state="pending"} 20'
        assert wait_until(lambda: waiting in httpx.get(f"{service.root}/metrics").text)
        gate.open.set()
        service.final(uploaded)
        for job in jobs:
            job.wait()
        names = [work.plan.quality_target for _, work in gate.begun]
        assert names.index(None) <= 2, "an upload waits for at most one remake that is claimed after it"
        assert len(names) == 21
