"""Texts are edited, restored and written anew as api/README.md, "Editing texts", says.

This is one long file because its tests share one service.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from imgproc_local.domain.errors import StageFailed
from imgproc_local.domain.result import NeedsTextReason, TextSource, Translation
from imgproc_local.storage.jobs import MaxAge, Retention
from tests.support import finished, pictures
from tests.support.service import GatedDescriber, Running, running
from tests.support.worker_pool import wait_until

PICTURE = pictures.jpeg()
UNKNOWN = "01arz3ndektsv4rrffq69g5fav"
STATE = {"can_undo": False, "can_redo": False, "regenerating": False, "error": None, "version": 1}


class NotingDescriber(GatedDescriber):
    """Notes the names of the files that it begins to describe."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def describe(self, image: Any, languages: Any, hints: Any, check_stop: Any) -> tuple[Translation, ...]:
        self.names.append(hints.original_filename)
        return super().describe(image, languages, hints, check_stop)


DESCRIBER = NotingDescriber()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that the tests of this file share; each text is "Text in CODE." of source `facts`."""
    with running(tmp_path_factory.mktemp("data"), lambda: DESCRIBER) as started:
        yield started


@pytest.fixture
def describer() -> Iterator[NotingDescriber]:
    """The describer of `shared`, as it was after the test."""
    yield DESCRIBER
    DESCRIBER.slug, DESCRIBER.error = "a-test-picture", None
    DESCRIBER.open.set()


class Picture:
    """An analyzed picture of a project of its own, unless `project_name` is given."""

    def __init__(self, service: Running, *languages: str, project_name: str = "") -> None:
        self.service = service
        job = service.process(
            "analyze",
            pictures.jpeg(),
            languages=",".join(languages or ("en",)),
            project_name=project_name or f"p{time.monotonic_ns()}",
        )
        self.job_id, self.image_id = job["job_id"], job["image"]["id"]

    def path(self, language: str = "en", action: str = "") -> str:
        return f"/images/{self.image_id}/translations/{language}{action and '/'}{action}"

    def patch(self, language: str = "en", **fields: Any) -> httpx.Response:
        return self.service.client.patch(self.path(language), json=fields)

    def edit(self, language: str = "en", **fields: Any) -> dict[str, Any]:
        return data(self.patch(language, **fields))

    def regenerate(self, language: str = "en", wait_s: int = 20, **query: str) -> httpx.Response:
        return self.post("regenerate", language, params=query, headers={"Prefer": f"wait={wait_s}"})

    def post(self, action: str, language: str = "en", **options: Any) -> httpx.Response:
        return self.service.client.post(self.path(language, action), **options)

    def wait_until_written(self) -> None:
        """Wait until no text is to be written anew. A request for that could come too late, and begin it again."""
        path = f"/jobs/{self.job_id}?include=details"
        assert wait_until(lambda: '"regenerating":true' not in self.service.client.get(path).text)

    def stored(self, language: str = "en") -> dict[str, Any]:
        """The translation as `GET /jobs/{id}` has it."""
        texts = self.service.job(self.job_id)["image"]["translations"]
        return next(text for text in texts if text["language_code"] == language)


@pytest.fixture(scope="module")
def unchanged(shared: Running) -> Picture:
    """A picture that no test changes."""
    return Picture(shared)


@pytest.fixture(scope="module")
def edited(shared: Running) -> Picture:
    """A picture whose present text no test relies on."""
    return Picture(shared)


def data(answer: httpx.Response, status: int = 200) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()["data"]
    return body


def balance(service: Running) -> int:
    amount: int = service.client.get("/credits/balance").json()["data"]["balance"]
    return amount


# ---- edits ----


def test_an_edited_text_is_of_a_person(shared: Running) -> None:
    picture = Picture(shared, "en", "de")
    text = picture.edit("de", seo_alt_text="  Bru\u0308cke über die Donau. ", seo_filename="Rote Brücke")
    words = {
        "language_code": "de",
        "seo_filename": "rote-bruecke",
        "seo_alt_text": "Brücke über die Donau.",
        "source": "person",
        "needs_text": False,
        "needs_text_reason": None,
    }
    assert text == {
        **words,
        **STATE,
        "can_undo": True,
        "version": 2,
        "long_description": "",
        "review": "edited",
        "model": "",
    }
    assert unicodedata.is_normalized("NFC", text["seo_alt_text"])
    assert picture.stored("de") == words
    assert picture.stored("en")["source"] == "facts"
    assert shared.job(picture.job_id)["status"] == "completed"


@pytest.mark.parametrize("pixel_texts", [True, False])
def test_a_text_that_says_nothing_needs_words_and_credits(tmp_path: Path, pixel_texts: bool) -> None:
    with running(tmp_path, pixel_texts=pixel_texts, first_balance=5, prices="3,1,1") as service:
        picture = Picture(service)
        assert (picture.stored()["seo_alt_text"] != "", picture.stored()["needs_text"]) == (pixel_texts, True)
        named = picture.edit(seo_filename="two boats.JPG")
        assert (named["seo_filename"], named["source"], named["needs_text"]) == ("two-boats", "pixels", True)
        assert not picture.edit(seo_alt_text="Two red boats.")["needs_text"]
        assert picture.stored()["seo_filename"] == "two-boats", "a person wrote it"
        assert data(picture.post("undo"))["needs_text"]
        refused = picture.post("regenerate")
        assert refused.status_code == 402
        asked = {name: refused.json()[name] for name in ("required", "balance", "shortfall")}
        assert asked == {"required": 3, "balance": 2, "shortfall": 1}


@pytest.mark.parametrize(
    ("reason", "language", "edits", "name"),
    [
        ("nothing_known", "en", [{"seo_alt_text": "The lighthouse at the end of a pier."}], "lighthouse-end-pier"),
        ("other_language", "de", [{"seo_alt_text": "Der Leuchtturm über dem Meer."}], "leuchtturm-meer"),
        ("place_or_date_only", "es", [{"seo_alt_text": "El puente viejo de Ronda."}], "puente-viejo-ronda"),
        ("unread_text", "en", [{"seo_alt_text": "A pier.", "seo_filename": "Old pier"}], "old-pier"),
        ("nothing_known", "en", [{"long_description": "A pier at noon."}, {"seo_alt_text": "A pier."}], "pier"),
        (
            "nothing_known",
            "en",
            [{"seo_filename": "Mine"}, {"long_description": "A pier at noon."}, {"seo_alt_text": "A pier."}],
            "mine",
        ),
        ("nothing_known", "en", [{"seo_alt_text": "🚀"}], "machine-made"),
        ("nothing_known", "en", [{"seo_alt_text": "Photograph."}], "machine-made"),
        ("nothing_known", "en", [{"decorative": True}], "machine-made"),
        (None, "en", [{"seo_alt_text": "A pier."}], "machine-made"),
    ],
)
def test_the_file_name_follows_the_words_that_a_text_needed(
    shared: Running, reason: str | None, language: str, edits: list[dict[str, Any]], name: str
) -> None:
    source = TextSource.PIXELS if reason else TextSource.VISION
    needed = NeedsTextReason(reason) if reason else None
    text = Translation(language, "machine-made", "Photograph.", source, needed)
    job = shared.run(finished.add_job(shared.services, PICTURE, texts=[text], project=f"p{time.monotonic_ns()}"))
    path = f"/images/{job.image_id}/translations/{language}"
    for edit in edits:
        stored = data(shared.client.patch(path, json=edit))
    assert (stored["seo_filename"], stored["source"], stored["needs_text_reason"]) == (name, "person", None)
    for _ in edits:
        stored = data(shared.client.post(f"{path}/undo"))
    assert (stored["seo_filename"], stored["needs_text_reason"]) == ("machine-made", reason)


# ---- long descriptions, decorative pictures ----


def test_a_long_description_is_edited_and_restored_without_the_alt_text(shared: Running) -> None:
    picture = Picture(shared)
    before = picture.stored()
    edited = picture.edit(long_description=f"  Sales rose.{' ' * 8}{'x' * 1980}\n")
    assert len(edited["long_description"]) == 1999
    assert picture.stored() == before, "it is sent on request only"
    assert picture.edit(long_description="")["long_description"] == ""
    assert len(data(picture.post("undo"))["long_description"]) == 1999
    assert picture.edit(seo_alt_text="A chart.")["long_description"] == edited["long_description"]
    for words, expected in (("x" * 2001, "1 to 2000"), ("One.\nTwo.", "U+000A"), ("<p>One.</p>", "<p>"), ("…", "…")):
        answer = picture.patch(long_description=words)
        assert (answer.status_code, list(answer.json()["errors"])) == (422, ["long_description"])
        assert expected in answer.json()["message"]


def test_only_a_person_who_says_so_leaves_an_alt_text_empty(shared: Running) -> None:
    picture = Picture(shared)
    picture.edit(long_description="A pier at noon.")
    for edit in ({"decorative": True}, {"decorative": True, "seo_alt_text": " "}):
        text = picture.edit(**edit)
        assert (text["seo_alt_text"], text["source"], text["needs_text"]) == ("", "person", False)
        assert text["long_description"] == ""
        restored = data(picture.post("undo"))
        assert (restored["seo_alt_text"], restored["long_description"]) == ("Text in en.", "A pier at noon.")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"seo_alt_text": ""}, "seo_alt_text"),
        ({"decorative": False, "seo_alt_text": " "}, "seo_alt_text"),
        ({"decorative": True, "seo_alt_text": "A boat."}, "decorative"),
        ({"decorative": True, "long_description": "A boat."}, "decorative"),
        ({"decorative": False}, "body"),
    ]
    for edit, field in refused:
        assert list(picture.patch(**edit).json()["errors"]) == [field]
    assert picture.stored()["source"] == "facts"


ALT = {
    "": "1 to 250 characters",
    "x" * 251: "received 251",
    "two\nlines": "U+000A",
    "\u202eabc": "U+202E",
    "\ue000 private": "U+E000",
    "…!": "letters",
    "<b>bold</b>": "<b>",
    "a boat <img src=x onerror=alert(1)": "<img src=x",
    "a boat <A HREF = x": "<A HREF = x",
    "fish &amp; chips": "&amp;",
}


def test_an_alt_text_that_can_not_be_stored_is_refused_and_an_unusual_one_stored_as_it_is(
    unchanged: Picture, edited: Picture
) -> None:
    for alt, expected in ALT.items():
        answer = unchanged.patch(seo_alt_text=alt)
        assert answer.status_code == 422
        assert list(answer.json()["errors"]) == ["seo_alt_text"]
        assert expected in answer.json()["message"]
    assert unchanged.stored()["source"] == "facts"
    for alt in ("Tom & Jerry < 5 > 3", "é" * 250, "👩‍🚀 ☕", "可愛い猫", "1/2", "I <3 x<y = 5, a<b c"):
        assert edited.edit(seo_alt_text=alt)["seo_alt_text"] == alt


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *((body, "body") for body in (b"{}", b"", b"[]", b'{"seo_alt_text": null}', b'{"seo_alt_text": 1}')),
        *((body, "body") for body in (b'{"alt": "a"}', b'{"seo_alt_text": "\\ud800"}', b'{"seo_alt_text": "\xff"}')),
        *((body, "seo_filename") for body in (b'{"seo_filename": "!?"}', b'{"seo_filename": ""}')),
    ],
)
def test_an_invalid_body_is_refused(unchanged: Picture, body: bytes, field: str) -> None:
    answer = unchanged.service.client.patch(unchanged.path(), content=body)
    assert answer.status_code == 422, answer.text
    assert list(answer.json()["errors"]) == [field]


def test_a_text_that_does_not_exist_is_not_found(shared: Running) -> None:
    picture, deleted = Picture(shared), Picture(shared)
    assert shared.client.delete(f"/jobs/{deleted.job_id}").status_code == 204
    assert picture.patch(seo_alt_text="x" * 20_000).status_code == 413
    paths = [picture.path("fr"), picture.path("xx"), deleted.path(), f"/images/{UNKNOWN}/translations/en"]
    other = shared.client_for(shared.make_key("another"))
    with other:
        for client, path in [*((shared.client, path) for path in paths), (other, picture.path())]:
            assert client.patch(path, json={"seo_alt_text": "A boat."}).status_code == 404
            for action in ("undo", "redo", "regenerate"):
                answer = client.post(f"{path}/{action}")
                assert (answer.status_code, list(answer.json())) == (404, ["message"])
    assert httpx.patch(f"{shared.url}{picture.path()}", json={"seo_alt_text": "A boat."}).status_code == 401


def test_a_text_is_not_edited_before_it_is_written(shared: Running, describer: NotingDescriber) -> None:
    describer.open.clear()
    job = shared.dispatch("analyze", pictures.jpeg())
    path = f"/images/{shared.job(job['job_id'])['image']['id']}/translations/en"
    assert shared.client.patch(path, json={"seo_alt_text": "A boat."}).status_code == 404
    describer.open.set()
    shared.final(job["job_id"])
    assert shared.client.patch(path, json={"seo_alt_text": "A boat."}).status_code == 200


# ---- file names ----


def test_a_name_that_another_picture_has_is_numbered(shared: Running) -> None:
    first, second = Picture(shared, project_name="names"), Picture(shared, project_name="names")
    assert second.stored()["seo_filename"] == "a-test-picture-2"
    assert first.edit(seo_filename="Harbour")["seo_filename"] == "harbour"
    assert second.edit(seo_filename="harbour")["seo_filename"] == "harbour-2"
    assert second.edit(seo_filename="harbour")["seo_filename"] == "harbour-2", "it has a number of this name already"
    assert second.edit(seo_filename="harbour-2", seo_alt_text="A boat.")["seo_filename"] == "harbour-2"
    assert first.edit(seo_filename="a test picture")["seo_filename"] == "a-test-picture"
    assert second.edit(seo_filename="harbour")["seo_filename"] == "harbour"


def test_a_restored_name_that_was_taken_meanwhile_is_numbered(shared: Running) -> None:
    first, second = Picture(shared, project_name="taken"), Picture(shared, project_name="taken")
    first.edit(seo_filename="harbour")
    assert second.edit(seo_filename="a test picture")["seo_filename"] == "a-test-picture"
    restored = [data(first.post(action))["seo_filename"] for action in ("undo", "redo", "undo")]
    assert restored == ["a-test-picture-2", "harbour", "a-test-picture-2"]


def test_names_are_unique_under_parallel_edits(shared: Running) -> None:
    album = [Picture(shared, project_name="parallel") for _ in range(5)]

    edits = [(picture, number) for number in range(10) for picture in album]
    with ThreadPoolExecutor(len(edits)) as pool:
        answers = pool.map(lambda edit: edit[0].patch(seo_filename="the same", seo_alt_text=f"Text {edit[1]}."), edits)
        assert {answer.status_code for answer in answers} == {200}
    expected = {"the-same", *(f"the-same-{number}" for number in range(2, 6))}
    assert {picture.stored()["seo_filename"] for picture in album} == expected
    undone = 0
    while album[0].post("undo").status_code == 200:
        undone += 1
    assert undone == 10, "every edit is a version"


# ---- undo and redo ----


def test_versions_are_restored_in_order(shared: Running) -> None:
    picture = Picture(shared)
    for number in range(3):
        picture.edit(seo_alt_text=f"Text {number}.")
    texts = []
    for action in ("undo", "undo", "undo", "redo"):
        text = data(picture.post(action))
        texts.append((text["seo_alt_text"], text["source"], text["can_undo"], text["can_redo"]))
    assert texts == [
        ("Text 1.", "person", True, True),
        ("Text 0.", "person", True, True),
        ("Text in en.", "facts", False, True),
        ("Text 0.", "person", True, True),
    ]
    new = picture.edit(seo_alt_text="Another.")
    assert (new["can_undo"], new["can_redo"]) == (True, False), "a change replaces what was undone"
    refused = picture.post("redo")
    assert (refused.status_code, list(refused.json())) == (409, ["message"])
    assert picture.stored()["seo_alt_text"] == "Another."


# ---- writing anew ----


def test_a_text_is_written_anew_for_a_credit(shared: Running, describer: NotingDescriber) -> None:
    picture = Picture(shared, "en", "de")
    picture.edit("de", seo_alt_text="Ein Boot.")
    refused = picture.post("regenerate", "de")
    assert (refused.status_code, refused.headers["x-error-code"]) == (409, "text_of_person")
    assert "replace=true" in refused.json()["message"]
    funds, described = balance(shared), describer.described
    describer.slug = "another-name"
    describer.open.clear()
    first = data(picture.post("regenerate", "de", params={"replace": "true"}), 202)
    assert first["regenerating"]
    assert first["seo_alt_text"] == "Ein Boot."
    assert data(picture.post("regenerate", "de"), 202) == first, "one request waits"
    assert balance(shared) == funds - 1
    details = shared.client.get(f"/jobs/{picture.job_id}?include=details").json()["data"]
    assert details["status"] == "completed"
    assert details["image"]["details"]["texts"]["de"]["regenerating"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(picture.post, "regenerate", "de", headers={"Prefer": "wait=60"})
        # a request that came after the text was written would begin it again
        assert wait_until(lambda: bool(shared.services.engine.updates._subscriptions))
        describer.open.set()
        answer = waiting.result()
    assert answer.headers["preference-applied"] == "wait=60"
    text = data(answer, 202)
    assert (text["seo_alt_text"], text["seo_filename"]) == ("Text in de.", "another-name")
    assert (text["source"], text["regenerating"], text["error"]) == ("facts", False, None)
    assert (describer.described - described, balance(shared)) == (1, funds - 1)
    assert picture.stored("en")["seo_filename"] == "a-test-picture"
    assert data(picture.post("undo", "de"))["seo_alt_text"] == "Ein Boot."


class StatedDescriber(GatedDescriber):
    """Answers with `text`, in its language."""

    text = Translation("en", "machine-made", "Text of the machine.", TextSource.VISION)

    def describe(self, image: Any, languages: Any, hints: Any, check_stop: Any) -> tuple[Translation, ...]:
        super().describe(image, languages, hints, check_stop)
        return (self.text,)


STATED = StatedDescriber()
MACHINE = StatedDescriber.text
NOTHING = Translation("en", "a-photo", "Photograph.", TextSource.PIXELS, NeedsTextReason.NOTHING_KNOWN)
FOREIGN = Translation("en", "ein-kai", "“Ein Kai.”", TextSource.FACTS, NeedsTextReason.OTHER_LANGUAGE)
IN_FILE = Translation("en", "a-pier", "A pier at noon.", TextSource.EMBEDDED)
LONG = replace(MACHINE, seo_alt_text="A chart.", long_description="Sales rose.")
MINE = {"seo_alt_text": "My pier."}


@pytest.fixture(scope="module")
def stated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("data"), lambda: STATED, prices="3,1,1", first_balance=1000) as started:
        yield started


@pytest.mark.parametrize(
    ("stored", "edits", "query", "new", "expected"),
    [
        # a text that needs words never replaces another
        (MACHINE, [], {}, NOTHING, "kept"),
        (MACHINE, [], {}, FOREIGN, "kept"),
        (IN_FILE, [], {"replace": "true"}, NOTHING, "kept"),
        (MACHINE, [MINE], {"replace": "true"}, FOREIGN, "kept"),
        (MACHINE, [{"decorative": True}], {"replace": "true"}, NOTHING, "kept"),
        (NOTHING, [], {}, FOREIGN, "“Ein Kai.” ein-kai"),
        # neither does one that is the same
        (MACHINE, [], {}, MACHINE, "kept"),
        (NOTHING, [], {}, NOTHING, "kept"),
        (FOREIGN, [], {}, MACHINE, "Text of the machine. machine-made"),
        # words of persons
        (IN_FILE, [], {}, MACHINE, "refused"),
        (MACHINE, [MINE], {}, MACHINE, "refused"),
        (MACHINE, [{"decorative": True}], {}, MACHINE, "refused"),
        (MACHINE, [{"seo_filename": "Mine"}], {}, MACHINE, "refused"),
        (IN_FILE, [], {"replace": "true"}, MACHINE, "Text of the machine. machine-made"),
        (MACHINE, [MINE], {"replace": "TRUE"}, LONG, "A chart. machine-made Sales rose."),
        # names and long descriptions that a person wrote alone
        (NOTHING, [{"seo_filename": "Mine"}], {}, LONG, "A chart. mine Sales rose."),
        (NOTHING, [{"seo_filename": "Mine"}], {"replace": "true"}, LONG, "A chart. machine-made Sales rose."),
        (MACHINE, [{"long_description": "Mine."}], {}, LONG, "A chart. machine-made Mine."),
        (LONG, [{"long_description": ""}], {}, replace(LONG, seo_alt_text="B."), "B. machine-made"),
        (LONG, [], {}, replace(MACHINE, long_description="New."), "Text of the machine. machine-made New."),
    ],
)
def test_a_new_text_is_never_worse_and_replaces_words_of_a_person_only_on_request(
    stated: Running,
    stored: Translation,
    edits: list[dict[str, Any]],
    query: dict[str, str],
    new: Translation,
    expected: str,
) -> None:
    STATED.text = stored
    picture = Picture(stated)
    for edit in edits:
        picture.edit(**edit)
    STATED.text = new
    before, funds = picture.stored(), balance(stated)
    answer = picture.regenerate(**query)
    if expected == "refused":
        assert (answer.status_code, answer.headers["x-error-code"]) == (409, "text_of_person")
    else:
        text = data(answer, 202)
        words = f"{text['seo_alt_text']} {text['seo_filename']} {text['long_description']}".strip()
        assert expected in ("kept", words)
        assert (text["error"] is not None, text["regenerating"]) == (expected == "kept", False)
    if expected in ("kept", "refused"):
        assert (picture.stored(), balance(stated)) == (before, funds)
    else:
        assert balance(stated) == funds - 3


@pytest.mark.parametrize("query", [{}, {"replace": "true"}])
def test_what_a_person_writes_while_a_new_text_is_written_is_kept(stated: Running, query: dict[str, str]) -> None:
    STATED.text = MACHINE
    picture = Picture(stated)
    funds = balance(stated)
    STATED.text = LONG
    STATED.open.clear()
    assert data(picture.post("regenerate", params=query), 202)["regenerating"]
    picture.edit(**MINE)
    STATED.open.set()
    picture.wait_until_written()
    text = data(stated.client.patch(picture.path(), json={"long_description": ""}))
    assert (text["seo_alt_text"], text["source"]) == ("My pier.", "person")
    assert "kept" in text["error"]
    assert balance(stated) == funds


def test_replace_is_true_or_not_sent(unchanged: Picture) -> None:
    for value in ("false", "1", ""):
        refused = unchanged.regenerate(replace=value)
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["replace"])


def test_a_failure_is_reported_and_costs_nothing_and_nothing_is_written_without_the_upload(
    shared: Running, describer: NotingDescriber
) -> None:
    picture = Picture(shared)
    funds, before = balance(shared), picture.stored()
    describer.error = StageFailed("The model is tired.")
    failed = data(picture.post("regenerate", headers={"Prefer": "wait=20"}), 202)
    assert (failed["error"], failed["regenerating"]) == ("The model is tired.", False)
    assert shared.job(picture.job_id)["status"] == "completed"
    shared.run(Retention(shared.services.store.database).remove(MaxAge(originals=timedelta(seconds=-1))))
    refused = picture.post("regenerate")
    assert refused.status_code == 409
    assert "removed because of its age" in refused.json()["message"]
    assert (picture.stored(), balance(shared)) == (before, funds)
    assert picture.edit(seo_alt_text="A boat.")["source"] == "person"


def test_a_deleted_job_takes_its_requests_along(shared: Running, describer: NotingDescriber) -> None:
    picture = Picture(shared, "en", "de")
    funds = balance(shared)
    describer.open.clear()
    describer.names.clear()
    with ThreadPoolExecutor() as pool:
        waits = [pool.submit(picture.post, "regenerate", "en", headers={"Prefer": "wait=60"})]
        assert wait_until(lambda: bool(describer.names))
        waits.append(pool.submit(picture.post, "regenerate", "de", headers={"Prefer": "wait=60"}))
        assert wait_until(lambda: balance(shared) <= funds - 2)
        assert shared.client.delete(f"/jobs/{picture.job_id}").status_code == 204
        assert {wait.result(30).status_code for wait in waits} == {202}, "the deletion ends the waits"
    assert balance(shared) == funds - 1, "only what had not started is given back"
    describer.open.set()
    assert Picture(shared).stored()["source"] == "facts"


def test_a_text_that_is_being_written_when_the_service_stops_is_written_after_the_next_start(tmp_path: Path) -> None:
    describer = GatedDescriber()
    with running(tmp_path, lambda: describer) as service:
        picture = Picture(service, "en", "de")
        picture.edit(seo_alt_text="A boat.")
        describer.open.clear()
        for language in ("en", "de"):
            data(picture.post("regenerate", language, params={"replace": "true"}), 202)
        funds = balance(service)
    describer.open.set()
    with running(tmp_path, lambda: describer) as service:
        picture.service = service
        picture.wait_until_written()
        assert picture.stored()["source"] == "facts"
        assert balance(service) == funds + 1, "the new text in German is the same"
        assert data(picture.post("undo"))["seo_alt_text"] == "A boat."


def test_texts_take_turns_with_pictures(shared: Running, describer: NotingDescriber) -> None:
    edited = [Picture(shared) for _ in range(2)]
    describer.open.clear()
    jobs = [shared.dispatch("analyze", pictures.jpeg(), f"waiting-{number}.jpg")["job_id"] for number in range(3)]
    for picture in edited:
        data(picture.post("regenerate"), 202)
    assert wait_until(lambda: "waiting-0.jpg" in describer.names)
    describer.names.clear()
    describer.open.set()
    for picture in edited:
        picture.wait_until_written()
    for job_id in jobs:
        shared.final(job_id)
    assert describer.names == ["picture.jpg", "waiting-1.jpg", "picture.jpg", "waiting-2.jpg"]
