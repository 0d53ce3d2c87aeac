"""Texts of many pictures are changed by one request, as api/README.md, "Acts on many pictures", says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from imgproc_local.domain.image import EmbeddedText
from imgproc_local.domain.job import Job
from imgproc_local.domain.result import NeedsTextReason, TextSource, Translation
from tests.support import finished, pictures
from tests.support.service import GatedDescriber, Running, running
from tests.support.worker_pool import wait_until

PICTURE = pictures.jpeg()
UNKNOWN = "01arz3ndektsv4rrffq69g5fav"


class NotingDescriber(GatedDescriber):
    """Notes the alt texts that the file of the last picture seems to have."""

    alt_texts: tuple[EmbeddedText, ...] = ()

    def describe(self, image: Any, languages: Any, hints: Any, check_stop: Any) -> tuple[Translation, ...]:
        self.alt_texts = hints.embedded.alt_text
        return super().describe(image, languages, hints, check_stop)


DESCRIBER = NotingDescriber()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that the tests of this file share; each new text is "Text in CODE." of source `facts`."""
    with running(tmp_path_factory.mktemp("data"), lambda: DESCRIBER) as started:
        yield started


def machine(language: str, **fields: Any) -> Translation:
    return Translation(language, "machine-made", f"Machine in {language}.", TextSource.VISION, **fields)


def album(service: Running, pictures: int, *texts: Translation, **fields: Any) -> list[Job]:
    """Analyzed pictures of a project of their own with these texts, by default one in English."""
    project, texts = f"p{time.monotonic_ns()}", texts or (machine("en"),)

    async def stored() -> list[Job]:
        add = finished.add_job
        jobs = [await add(service.services, PICTURE, texts=texts, project=project, **fields) for _ in range(pictures)]
        async with service.services.store.database.transaction() as tx:  # the engine writes their texts anew
            await tx._connection.execute_fetchall("UPDATE stages SET lane = 'vision' WHERE state = 'done'")
        return jobs

    return service.run(stored())


def named(jobs: Sequence[Job], *languages: str, **fields: Any) -> list[dict[str, Any]]:
    codes = languages or ("en",)
    return [{"image_id": job.image_id, "language_code": code, **fields} for job in jobs for code in codes]


def send(service: Running, action: str, texts: Sequence[dict[str, Any]], **body: Any) -> httpx.Response:
    method = "POST" if action else "PATCH"
    return service.client.request(method, f"/translations{action and '/'}{action}", json={"texts": texts, **body})


def results(service: Running, action: str, texts: Sequence[dict[str, Any]], **body: Any) -> list[dict[str, Any]]:
    answer = send(service, action, texts, **body)
    assert answer.status_code in (200, 202), answer.text
    listed: list[dict[str, Any]] = answer.json()["data"]
    assert [text["image_id"].lower() for text in listed] == [text["image_id"].lower() for text in texts]
    return listed


def single(service: Running, text: dict[str, Any], action: str = "", **options: Any) -> httpx.Response:
    path = f"/images/{text['image_id']}/translations/{text['language_code']}{action and '/'}{action}"
    return service.client.request("POST" if action else "PATCH", path, **options)


def test_one_request_edits_many_texts_and_undo_and_redo_restore_them(shared: Running) -> None:
    needed = Translation("en", "photo", "Photograph.", TextSource.PIXELS, NeedsTextReason.NOTHING_KNOWN)
    texts = named(album(shared, 3, needed, machine("de")), "en", "de", seo_alt_text="A red bridge in Budapest.")
    edited = results(shared, "", list(reversed(texts)))
    assert [text["language_code"] for text in edited] == ["de", "en"] * 3
    assert {(text["source"], text["review"], text["version"]) for text in edited} == {("person", "edited", 2)}
    names = [text["seo_filename"] for text in edited if text["language_code"] == "en"]
    assert sorted(names) == ["red-bridge-budapest", "red-bridge-budapest-2", "red-bridge-budapest-3"]
    keys = [{name: text[name] for name in ("image_id", "language_code")} for text in texts]
    undone = results(shared, "undo", keys)
    assert [text["seo_alt_text"] for text in undone] == ["Photograph.", "Machine in de."] * 3
    assert {text["can_redo"] for text in undone} == {True}
    assert {text["seo_alt_text"] for text in results(shared, "redo", keys)} == {"A red bridge in Budapest."}
    one = single(shared, texts[0], json={"seo_filename": "Bridge"}).json()["data"]
    (same,) = results(shared, "", [{**keys[0], "seo_filename": "Bridge"}])
    assert same == {**one, "image_id": texts[0]["image_id"]}, "a result has what the answer for one text has"


def test_an_item_that_can_not_be_changed_has_the_status_of_a_single_request_and_stops_no_other(shared: Running) -> None:
    (job,) = album(shared, 1, machine("en"), machine("de"))
    (other,) = album(shared, 1, account="many-other")
    en, de = named([job], "en", "de")
    refused = [
        (en | {"seo_alt_text": "<b>bold</b>"}, 422),
        (en | {"seo_alt_text": ""}, 422),
        (en, 422),
        (en | {"accept": True, "seo_alt_text": "A pier."}, 422),
        (en | {"language_code": "fr", "accept": True}, 404),
        (en | {"image_id": UNKNOWN, "accept": True}, 404),
        (en | {"image_id": other.image_id, "accept": True}, 404),
        (en | {"image_id": "x" * 100, "accept": True}, 404),
        (en | {"version": 7, "seo_alt_text": "A pier."}, 412),
    ]
    last = {"image_id": de["image_id"].upper(), "language_code": "DE", "seo_alt_text": "Ein Kai."}
    listed = results(shared, "", [*(item for item, _ in refused), last])
    assert [each.get("status") for each in listed] == [*(status for _, status in refused), None]
    assert all(each["problem"] for each in listed[:-1])
    assert listed[-1]["seo_alt_text"] == "Ein Kai."
    (unchanged,) = results(shared, "", [en | {"accept": True}])
    assert (unchanged["seo_alt_text"], unchanged["version"]) == ("Machine in en.", 2), "only this changed it"
    for item in (en, en | {"image_id": UNKNOWN}):
        message = single(shared, item, "redo").json()["message"]
        assert results(shared, "redo", [item])[0]["problem"] == message


def test_many_texts_are_accepted_as_they_are(shared: Running) -> None:
    decorative = Translation("de", "line", "", TextSource.PERSON, long_description="Three lines.")
    empty = Translation("fr", "photo", "", TextSource.PIXELS, NeedsTextReason.NOTHING_KNOWN)
    jobs = album(shared, 2, machine("en", long_description="Sales rose."), decorative, empty)
    accepted = results(shared, "", named(jobs, "en", "de", accept=True))
    assert {(text["source"], text["review"], text["needs_text"]) for text in accepted} == {
        ("person", "accepted", False)
    }
    assert [text["seo_alt_text"] for text in accepted] == ["Machine in en.", ""] * 2
    assert [text["long_description"] for text in accepted] == ["Sales rose.", "Three lines."] * 2
    (refused,) = results(shared, "", named(jobs[:1], "fr", accept=True))
    assert refused["status"] == 422, "there is nothing to accept"


def test_of_two_edits_of_one_version_the_second_is_refused_with_the_text_in_force(shared: Running) -> None:
    (text,) = named(album(shared, 1), version=1)
    first, second = results(shared, "", [text | {"seo_alt_text": "A pier."}, text | {"seo_alt_text": "A boat."}])
    assert (first["seo_alt_text"], first["version"]) == ("A pier.", 2)
    assert second["status"] == 412
    assert (second["data"]["seo_alt_text"], second["data"]["version"]) == ("A pier.", 2)
    assert results(shared, "undo", [text])[0]["status"] == 412
    assert results(shared, "undo", [text | {"version": 2}])[0]["seo_alt_text"] == "Machine in en."


def test_a_text_is_changed_only_if_it_has_the_version_of_if_match(shared: Running) -> None:
    (text,) = named(album(shared, 1))
    edited = single(shared, text, json={"seo_alt_text": "A pier."}, headers={"If-Match": '"1"'})
    assert (edited.status_code, edited.headers["etag"]) == (200, '"2"')
    for action, body in (("", {"seo_alt_text": "A boat."}), ("", {"accept": True}), ("undo", None), ("redo", None)):
        refused = single(shared, text, action, json=body, headers={"If-Match": '"1"'})
        assert (refused.status_code, refused.headers["x-error-code"]) == (412, "text_changed")
        assert refused.json()["data"] == edited.json()["data"], "the text in force"
    assert single(shared, text, "undo", headers={"If-Match": '"2"'}).headers["etag"] == '"1"'
    assert single(shared, text, "redo", headers={"If-Match": "*"}).headers["etag"] == '"2"'
    for tag in ("2", 'W/"2"', '"a"', "", '"1", "2"'):
        refused = single(shared, text, "undo", headers={"If-Match": tag})
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["If-Match"])


def test_each_changed_job_is_published_once(shared: Running) -> None:
    jobs = album(shared, 3, machine("en"), machine("de"))
    published: list[str] = []
    translations = shared.services.translations
    before, translations._publish = translations._publish, lambda job_id, _: published.append(job_id)
    try:
        results(shared, "", named(jobs[:2], "en", "de", accept=True) + named(jobs[2:], seo_alt_text=""))
    finally:
        translations._publish = before
    assert published == [job.id for job in jobs[:2]]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"texts": []}',
        b'{"texts": [{"image_id": "a"}]}',
        b'{"texts": [{"image_id": "a", "language_code": "en", "alt": "a"}]}',
        b'{"texts": [{"image_id": "a", "language_code": "en", "version": "1"}]}',
        b'{"texts": [{"image_id": "a", "language_code": "en"}], "replaces": true}',
        b'{"texts": [' + b",".join([b'{"image_id": "a", "language_code": "en"}'] * 10_001) + b"]}",
    ],
)
def test_a_body_that_is_no_list_of_items_is_refused(shared: Running, body: bytes) -> None:
    for action in ("", "/undo", "/redo", "/regenerate", "/cancel"):
        answer = shared.client.request("POST" if action else "PATCH", f"/translations{action}", content=body)
        assert (answer.status_code, list(answer.json()["errors"])) == (422, ["body"]), body[:99]


def test_ten_thousand_items_are_read_and_more_bytes_than_they_need_refused(shared: Running) -> None:
    item = {"image_id": UNKNOWN, "language_code": "ja", "seo_alt_text": "橋" * 250, "seo_filename": "bridge"}
    assert {each["status"] for each in results(shared, "", [item] * 10_000)} == {404}
    assert shared.client.patch("/translations", content=b" " * (32 * 1024 * 1024 + 1)).status_code == 413


# ---- writing anew ----


@pytest.fixture
def gate(shared: Running) -> Iterator[NotingDescriber]:
    """The describer of `shared`, closed until the test opens it; what the test leaves is written then."""
    DESCRIBER.open.clear()
    yield DESCRIBER
    DESCRIBER.open.set()
    assert wait_until(lambda: set(states_of_requests(shared)) <= {"failed"})


def balance(service: Running) -> int:
    amount: int = service.client.get("/credits/balance").json()["data"]["balance"]
    return amount


def states_of_requests(service: Running) -> list[str]:
    """The states of all requests to write a text anew."""

    async def read() -> list[str]:
        async with service.services.store.database.reading() as read:
            return [row[0] for row in await read._connection.execute_fetchall("SELECT state FROM regenerations")]

    return service.run(read())


def texts_of(service: Running, job: Job, *, wait: bool = False) -> dict[str, dict[str, Any]]:
    """The stored texts of a picture by language; with `wait`, once none is to be written anew."""
    path = f"/jobs/{job.id}?include=details"
    assert not wait or wait_until(lambda: '"regenerating":true' not in service.client.get(path).text)
    image = service.client.get(path).json()["data"]["image"]
    return {
        text["language_code"]: text | image["details"]["texts"][text["language_code"]] for text in image["translations"]
    }


def test_texts_of_many_pictures_are_written_anew_in_one_pass_each(shared: Running, gate: GatedDescriber) -> None:
    jobs, funds, described = album(shared, 2, machine("en"), machine("de")), balance(shared), gate.described
    asked = results(shared, "regenerate", named(jobs, "de", "en"))
    assert {text["regenerating"] for text in asked} == {True}
    assert results(shared, "regenerate", named(jobs, "de", "en")) == asked, "one request waits for each"
    gate.open.set()
    for job in jobs:
        texts = texts_of(shared, job, wait=True)
        assert {code: text["seo_alt_text"] for code, text in texts.items()} == {
            "en": "Text in en.",
            "de": "Text in de.",
        }
    assert (gate.described - described, balance(shared)) == (2, funds - 4)


def test_a_picture_gets_a_language_and_a_text_that_needs_a_person_until_it_is_written(
    shared: Running, gate: GatedDescriber
) -> None:
    (job,) = album(shared, 1)
    (asked,) = results(shared, "regenerate", named([job], "ja"))
    assert (asked["seo_alt_text"], asked["needs_text"], asked["regenerating"]) == ("", True, True)
    body = shared.client.get(f"/jobs/{job.id}?include=details").json()["data"]
    assert (body["status"], body["image"]["details"]["languages"]) == ("completed", ["en", "ja"])
    assert job.id in shared.client.get("/jobs?needs_text=true&limit=500").text
    gate.open.set()
    written = texts_of(shared, job, wait=True)["ja"]
    assert (written["seo_alt_text"], written["needs_text"], written["error"]) == ("Text in ja.", False, None)
    assert single(shared, named([job], "fr")[0], "regenerate").status_code == 404, "one text is not added"


def test_a_text_that_can_not_be_written_anew_stops_no_other(shared: Running, gate: GatedDescriber) -> None:
    person = Translation("de", "mine", "Mein Kai.", TextSource.PERSON)
    (job,) = album(shared, 1, machine("en"), person)
    (open_job,) = album(shared, 1, unfinished=True)
    (full,) = album(shared, 1, *map(machine, ("en", "de", "fr", "it", "es", "nl", "pl", "pt", "sv", "da")))
    funds = balance(shared)
    items = [*named([job], "de", "xx", "en"), *named([open_job], "fr"), *named([full], "ja", "en")]
    asked = results(shared, "regenerate", [*items, *named([job], "en", version=2)])
    assert [text.get("status") for text in asked] == [409, 404, None, 409, 422, None, 412]
    for item, text in zip(items[:2], asked, strict=False):
        message = single(shared, item, "regenerate").json()["message"]
        assert text["problem"] == message
    assert balance(shared) == funds - 2
    assert len(texts_of(shared, full)) == 10
    (replaced,) = results(shared, "regenerate", named([job], "de"), replace=True)
    assert replaced["regenerating"]


def test_what_waits_to_be_written_anew_is_withdrawn_and_costs_nothing(shared: Running, gate: GatedDescriber) -> None:
    running, waiting = album(shared, 2, machine("en"), machine("de"))
    funds = balance(shared)
    results(shared, "regenerate", named([running]))
    assert wait_until(lambda: "running" in states_of_requests(shared))
    results(shared, "regenerate", named([waiting], "en", "de", "fr"))
    withdrawn = results(shared, "cancel", named([running, waiting], "en", "fr"))
    states = [text.get("status", text.get("regenerating")) for text in withdrawn]
    assert states == [True, 404, False, False], "what is being written is not withdrawn"
    assert balance(shared) == funds - 2
    assert texts_of(shared, waiting)["fr"]["needs_text"], "the language was added"
    gate.open.set()
    assert texts_of(shared, waiting, wait=True)["en"]["seo_alt_text"] == "Machine in en."
    assert texts_of(shared, waiting)["de"]["seo_alt_text"] == "Text in de."


@pytest.mark.parametrize("language", ["xx", "", "english"])
def test_a_language_to_translate_from_is_one_of_the_service(shared: Running, language: str) -> None:
    refused = send(shared, "regenerate", named(album(shared, 1), "de"), from_language=language)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["from_language"])


def test_a_text_is_translated_only_from_one_that_can_be(shared: Running, gate: GatedDescriber) -> None:
    needed = Translation("fr", "photo", "Photographie.", TextSource.PIXELS, NeedsTextReason.NOTHING_KNOWN)
    (job,) = album(shared, 1, machine("en"), machine("de"), needed)
    for origin, language, status in (("fr", "de", 422), ("it", "de", 422), ("en", "en", 422), ("en", "de", None)):
        (asked,) = results(shared, "regenerate", named([job], language), from_language=origin)
        assert asked.get("status") == status, asked


def test_the_text_in_force_is_translated_as_if_the_file_had_it(shared: Running, gate: NotingDescriber) -> None:
    (job,) = album(shared, 1, machine("en"), machine("de"), machine("fr"))
    results(shared, "", named([job], seo_alt_text="A pier at noon."))
    assert results(shared, "regenerate", named([job], "de", "fr"), from_language="en")[0]["regenerating"]
    gate.open.set()
    texts = texts_of(shared, job, wait=True)
    assert gate.alt_texts == (EmbeddedText("A pier at noon.", "en"),)
    assert {code: texts[code]["seo_alt_text"] for code in ("de", "fr")} == {"de": "Text in de.", "fr": "Text in fr."}


def test_without_a_model_a_name_is_used_in_all_languages_and_other_words_need_a_person(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        data = service.process("analyze", PICTURE, languages="en,de,fr")
        job = service.run(service.services.jobs.get(data["job_id"]))
        seen = {}
        for words in ("Smooth grey pebbles.", "Sunset", "Photo.", "Notre-Dame"):
            results(service, "", named([job], seo_alt_text=words))
            results(service, "regenerate", named([job], "de", "fr"), from_language="en")
            texts = texts_of(service, job, wait=True)
            seen[words] = [
                (
                    texts[code]["seo_alt_text"],
                    texts[code]["source"],
                    texts[code]["needs_text_reason"],
                    texts[code]["error"],
                )
                for code in ("de", "fr")
            ]
    assert seen["Notre-Dame"] == [("Notre-Dame", "facts", None, None)] * 2
    for words in ("Smooth grey pebbles.", "Sunset"):
        for alt_text, source, reason, _ in seen[words]:
            assert words.rstrip(".") in alt_text
            assert (source, reason) == ("facts", "other_language")
    assert all("could be translated" in error for *_, error in seen["Photo."]), "no person wrote that"
