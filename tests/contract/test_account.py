"""What the local page reads about an account: lists with details, projects, and one stream of all changes."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.result import NeedsTextReason, RoleSuggestion, SuggestedRole, TextSource, Translation
from imgproc_local.storage.jobs import MaxAge, Retention
from tests.support import finished, pictures
from tests.support.events import END, event_stream
from tests.support.service import GatedDescriber, Running, running

UPLOAD = pictures.jpeg()
ULID = "01arz3ndektsv4rrffq69g5fav"
DETAILS = {
    *("created_at", "project", "operation", "languages", "width_px", "height_px", "format"),
    *("pages", "optimized_format", "max_width_px", "max_height_px", "role", "texts", "sha256", "folder", "taken_at"),
    *("quality_target", "optimized_score", "converted_score", "words", "remaking", "remake_error"),
    *("optimized_notes", "converted_notes", "only_smaller", "widths"),
}


@pytest.fixture(scope="module")
def jobs(service: Running) -> dict[str, dict[str, Any]]:
    """Jobs with a final status, named by what distinguishes them."""
    return {
        "german": service.process("process", UPLOAD, project_name="Zoo", languages="de,en"),
        "english": service.process("analyze", pictures.jpeg(seed=2), project_name="Alps"),
        "optimized": service.process("optimize", pictures.jpeg(seed=3)),
    }


def listed(service: Running, **query: Any) -> list[str]:
    answer = service.client.get("/jobs", params=query)
    assert answer.status_code == 200, answer.text
    return [job["job_id"] for job in answer.json()["data"]]


def test_optional_parts_of_a_job_are_sent_only_on_request(service: Running, jobs: dict[str, Any]) -> None:
    job_id = jobs["german"]["job_id"]
    assert service.job(job_id) == jobs["german"]
    assert not {"removed", "details"} & jobs["german"]["image"].keys()
    for include in (["details", "removed"], ["details, removed"], "removed,details"):
        answer = service.client.get(f"/jobs/{job_id}", params={"include": include}).json()["data"]
        assert {"details", "removed"} <= answer["image"].keys()
    assert answer["image"]["removed"] == sorted(answer["image"]["removed"])
    details = answer["image"]["details"]
    assert details.keys() == DETAILS
    assert (details["operation"], details["languages"], details["format"]) == ("process", ["de", "en"], "jpeg")
    assert details["project"]["name"] == "Zoo"
    assert details["texts"]["de"] == {
        "can_undo": False,
        "can_redo": False,
        "regenerating": False,
        "error": None,
        "version": 1,
    }
    page = service.client.get("/jobs", params={"include": "details", "limit": 500}).json()["data"]
    assert all(job["image"]["details"].keys() == DETAILS and "removed" not in job["image"] for job in page)


def test_reasons_and_the_suggested_role_are_sent_and_long_descriptions_on_request(tmp_path: Path) -> None:
    texts = [
        Translation("en", "a-chart", "A chart.", TextSource.VISION, long_description="Sales rose each year."),
        Translation("de", "ein-bild", "„A chart.“", TextSource.FACTS, NeedsTextReason.OTHER_LANGUAGE),
    ]
    suggestion = RoleSuggestion(SuggestedRole.CHART, "It has axes.")
    with running(tmp_path) as service:
        stored = service.run(finished.add_job(service.services, UPLOAD, texts=texts, suggestion=suggestion))
        image = service.job(stored.id)["image"]
        assert (image["suggested_role"], image["suggested_role_reason"]) == ("chart", "It has axes.")
        reasons = [(text["needs_text"], text["needs_text_reason"]) for text in image["translations"]]
        assert reasons == [(False, None), (True, "other_language")]
        assert not any("long_description" in text for text in image["translations"])
        (listed,) = service.client.get("/jobs", params={"include": "details"}).json()["data"]
        described = [text["long_description"] for text in listed["image"]["translations"]]
        assert described == ["Sales rose each year.", ""]
        assert listed["image"]["details"]["role"] == "informative"
        queries: list[dict[str, str]] = [{"needs_text": "true"}, *({"language_missing": code} for code in ("de", "en"))]
        found = [len(service.client.get("/jobs", params=query).json()["data"]) for query in queries]
        assert found == [1, 1, 0], "a text in another language is missing"


@pytest.mark.parametrize(
    ("path", "name", "values"),
    [
        ("/jobs", "limit", ["1", "x"]),
        ("/jobs", "needs_text", ["true", "true"]),
        ("/jobs", "language_missing", ["de", "en"]),
        ("/jobs", "project_id", [ULID, ULID]),
        ("/credits/afford", "images", ["1", "2"]),
        ("/credits/afford", "format", ["webp", "avif"]),
        ("/credits/afford", "format", ["png"]),
        *(("/credits/afford", "images", [value]) for value in ("0", "101", "two", "")),
        *(("/credits/afford", "languages", [value]) for value in ("0", "11", "")),
        *(("/jobs", name, [""]) for name in ("limit", "status", "cursor", "project_id", "needs_text", "include")),
        *(("/jobs", "include", [value]) for value in ("details,", "everything", "details,removed,x")),
        *(("/jobs", "limit", [value]) for value in ("0", "501")),
        *(("/jobs", "needs_text", [value]) for value in ("1", "false")),
        ("/jobs", "status", ["completed", "sleeping"]),
        ("/jobs", "cursor", ["!"]),
        ("/jobs", "language_missing", ["xx"]),
        ("/jobs", "larger_than_optimized", ["yes"]),
        (f"/jobs/{ULID}", "include", ["everything"]),
    ],
)
def test_an_invalid_parameter_and_a_single_value_that_is_sent_twice_are_refused(
    service: Running, path: str, name: str, values: list[str]
) -> None:
    answer = service.client.get(path, params={"images": "1", name: values})
    assert (answer.status_code, list(answer.json()["errors"])) == (422, [name])
    assert f"received {' and '.join(map(repr, values))}." in answer.json()["message"]


def test_lists_are_filtered_by_texts_and_sizes(service: Running, jobs: dict[str, Any]) -> None:
    german, english, optimized = (jobs[name]["job_id"] for name in ("german", "english", "optimized"))
    details = service.client.get(f"/jobs/{german}?include=details").json()["data"]["image"]["details"]
    project_id = details["project"]["id"]
    needing = {job["job_id"] for job in jobs.values() if any(t["needs_text"] for t in job["image"]["translations"])}
    assert {german, english} == needing, "without metadata, every picture needs a text"
    assert listed(service, language_missing="de") == [optimized, english, german]
    assert listed(service, language_missing="DE", needs_text="true") == [english, german]
    assert listed(service, language_missing="de", project_id=project_id) == [german]
    assert listed(service, needs_text="true", status="failed") == []
    for status in (["failed", "completed"], "failed,completed"):
        assert listed(service, status=status) == [optimized, english, german]
    assert listed(service, needs_text="true", status="completed", limit=1) == [english]
    image = jobs["german"]["image"]
    is_larger = image["converted_size"] >= image["optimized_size"]
    assert listed(service, larger_than_optimized="true") == ([german] if is_larger else [])
    total = service.client.get("/jobs", params={"limit": 1, "status": "failed"}).headers["x-total-count"]
    assert int(total) == len(listed(service, limit=500))


def test_projects_are_listed_with_the_number_of_their_pictures(service: Running, jobs: dict[str, Any]) -> None:
    projects = service.client.get("/projects").json()["data"]
    assert {project["name"]: project["pictures"] for project in projects} == {"API Uploads": 1, "Alps": 1, "Zoo": 1}
    with service.client_for(service.make_key("another")) as other:
        assert other.get("/projects").json() == {"data": []}
        assert other.get("/jobs").headers["x-total-count"] == "0"


# ---- the stream ----


def test_the_stream_begins_with_a_snapshot_and_reports_every_change(gated: Running, describer: GatedDescriber) -> None:
    describer.open.clear()
    with event_stream(gated) as stream:
        assert stream.next() == ("snapshot", {})
        job_id = gated.dispatch("analyze", pictures.jpeg(seed=2))["job_id"]
        assert stream.until("job")["data"]["job_id"] == job_id
        describer.open.set()
        while (job := stream.until("job")["data"])["status"] != "completed":
            pass
        same = gated.client.get(f"/jobs/{job_id}?include=removed,details").json()["data"]
        assert job == same
        gated.client.delete(f"/jobs/{job_id}").raise_for_status()
        assert stream.until("deleted") == {"job_id": job_id}


def test_a_stream_is_of_one_account_and_asks_to_read_the_list_again_after_old_jobs_were_removed(
    gated: Running,
) -> None:
    gated.process("optimize", pictures.jpeg())
    with event_stream(gated, key=gated.make_key("another")) as others, event_stream(gated) as stream:
        assert others.next() == ("snapshot", {})
        stream.until("snapshot")
        gated.run(Retention(gated.services.store.database).remove(MaxAge(jobs=timedelta(0))))
        gated.services.engine.updates.reset()
        assert stream.until("reset") == {}
        gated.process("optimize", pictures.jpeg())
        with gated.as_account("another") as another:
            own = another.dispatch("optimize", pictures.jpeg(seed=2))
        assert others.until("job")["data"]["job_id"] == own["job_id"]


def test_a_stopped_service_ends_the_stream_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ExitStack() as stack:
        service = stack.enter_context(running(tmp_path))
        stop = stack.pop_all().close
        with event_stream(service) as stream:
            stream.until("snapshot")
            stop()
            assert stream.next() == END
    assert "graceful shutdown exceeded" not in caplog.text, "uvicorn did not have to end the request"


def test_a_comment_keeps_a_quiet_stream_open(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("imgproc_local.api.events.KEEP_ALIVE_S", 0.05)
    monkeypatch.setattr("imgproc_local.api.events.CHECK_KEY_EVERY_S", 0.05)
    with service.client.stream("GET", "/events") as answer:
        lines = (line for line in answer.iter_lines() if line.startswith(":"))
        assert [next(lines), next(lines)] == [": no changes"] * 2


@pytest.mark.parametrize("path", ["/events", "/jobs/{job}/events"])
def test_a_stream_ends_when_its_key_is_revoked(gated: Running, describer: GatedDescriber, path: str) -> None:
    describer.open.clear()
    job_id = gated.dispatch("analyze", pictures.jpeg())["job_id"]
    key, secret = gated.run(gated.services.store.keys.create("revoked soon"))
    with event_stream(gated, path.format(job=job_id), secret) as stream:
        stream.next()
        gated.run(gated.services.store.keys.revoke(key.id))
        assert stream.next() == END


def test_the_streams_of_an_account_and_its_jobs_are_limited_together(gated: Running, describer: GatedDescriber) -> None:
    describer.open.clear()
    job_id = gated.dispatch("analyze", pictures.jpeg())["job_id"]
    paths = ["/events", *[f"/jobs/{job_id}/events"] * 63]
    with ExitStack() as streams:
        opened = [streams.enter_context(gated.client.stream("GET", path)) for path in paths]
        assert {answer.status_code for answer in opened} == {200}
        for path in paths[:2]:
            with gated.client.stream("GET", path) as answer:
                assert (answer.status_code, answer.headers.get("retry-after")) == (503, "30")
                assert "64 open event streams" in json.loads(answer.read())["message"]
        with event_stream(gated, "/events", gated.make_key("another")) as other:
            assert other.next()[0] == "snapshot"
    deadline_s = time.monotonic() + 60
    while gated.client.head("/events").status_code != 200:  # until the service has noticed that they were closed
        assert time.monotonic() < deadline_s, "closed streams still count"
