"""`POST /exports`: archives of finished files over HTTP."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace
from PIL import Image

from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.job import Job, StageName
from imgproc_local.domain.result import NeedsTextReason, TextSource, Translation
from tests.support import pictures
from tests.support.exports import add, archive, content, post
from tests.support.finished import Result, text
from tests.support.service import Running, running

COUNT = 24
ULID = "01arz3ndektsv4rrffq69g5fav"


def csv_rows(files: dict[str, bytes]) -> list[dict[str, str]]:
    """The rows of an archive's alt.csv."""
    return list(csv.DictReader(io.StringIO(files["alt.csv"].decode("utf-8-sig"), newline="")))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, list[Job]]]:
    """A service with `COUNT` images."""
    with running(tmp_path_factory.mktemp("many")) as started:
        yield started, [add(started, f"picture-{number}", name=f"DSC_{number}.JPG") for number in range(COUNT)]


def test_every_picture_is_in_the_archive(many: tuple[Running, list[Job]]) -> None:
    service, jobs = many
    answer = post(service, variants=["optimized", "converted", "original"])
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="API Uploads.zip"'
    files = archive(answer)
    assert len(files) == 3 * COUNT + 2
    for number in range(COUNT):
        label = f"picture-{number}"
        assert files[f"{label}.jpg"] == content(f"{label} optimized")
        assert files[f"{label}.webp"] == content(f"{label} converted")
        assert files[f"{label}-original.jpg"] == content(label)
    assert [row["file"] for row in csv_rows(files)] == [name for name in files if not name.startswith("alt.")]
    listed = json.loads(files["alt.json"])["images"]
    assert [image["job_id"] for image in listed] == [job.id for job in jobs]
    for file in (file for image in listed for file in image["files"]):
        assert file["size"] == len(files[file["file"]])
        assert file["sha256"] == hashlib.sha256(files[file["file"]]).hexdigest()


def test_the_same_request_gives_the_same_bytes_also_after_it_was_broken_off(many: tuple[Running, list[Job]]) -> None:
    service, _ = many
    body = {"variants": ["converted", "original"], "write_texts": False}
    complete = service.client.post("/exports", json=body).content
    with service.client.stream("POST", "/exports", json=body) as broken_off:
        beginning = next(broken_off.iter_raw())
    assert complete.startswith(beginning)
    assert service.client.post("/exports", json=body).content == complete


def test_listed_images_keep_their_order_a_dry_run_counts_and_a_request_without_a_body_exports_everything(
    many: tuple[Running, list[Job]],
) -> None:
    service, jobs = many
    wanted = [jobs[7].image_id, jobs[3].image_id.upper(), jobs[7].image_id]
    files = archive(post(service, images=wanted, variants=["optimized"]))
    assert list(files) == ["picture-7.jpg", "picture-3.jpg", "alt.csv", "alt.json"]
    names = ["picture-0.jpg", "picture-0.webp", "picture-1.jpg", "picture-1.webp", "picture-2.jpg"]
    counted = {"images": COUNT, "files": 2 * COUNT, "bytes": 2 * COUNT * 2000, "names": names, "needs_text": [],
               "missing": []}  # fmt: skip
    assert post(service, dry_run=True).json() == {"data": counted}
    assert archive(service.client.post("/exports")) == archive(service.client.post("/exports", json={}))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *(({"images": images}, "images") for images in ([], ["x"], [ULID] * 10_001)),
        *(({"images": [ULID], "project_id": ULID}, "project_id"), ({"project_id": "x"}, "project_id")),
        *(({"variants": variants}, "body") for variants in ([], ["thumbnail"])),
        *(({"name_template": each}, "name_template") for each in ("", "a", "{date}", "{n}{x}", "{n", "n}", "{n!r}")),
        *(({"name_template": "{n}" * 67}, "body"), ({"tables": ["woocommerce"]}, "body"), ({"folders": 1}, "body")),
        *(({"language": "xx"}, "language"), ({"write_texts": "yes"}, "body"), ({"nothing": 1}, "body")),
    ],
)
def test_an_invalid_field_is_named(many: tuple[Running, list[Job]], body: dict[str, Any], field: str) -> None:
    answer = many[0].client.post("/exports", json=body)
    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == [field]


@pytest.mark.parametrize("body", ['{"variants":["thumb"]}', '{"variants":[]}', '{"variants":'])
def test_a_body_that_is_refused_is_shown_beside_what_was_expected(many: tuple[Running, list[Job]], body: str) -> None:
    (message,) = many[0].client.post("/exports", content=body).json()["errors"]["body"]
    assert "variants of best, optimized, converted and original: " in message
    assert message.endswith(f"; received '{body}'.")


def test_images_and_projects_of_another_account_are_not_found(many: tuple[Running, list[Job]]) -> None:
    service, jobs = many
    with service.client_for(service.make_key("another")) as other:
        answer = other.post("/exports", json={"images": [jobs[0].image_id]})
        assert (answer.status_code, list(answer.json())) == (404, ["message"])
        project = other.post("/exports", json={"project_id": jobs[0].project_id.upper()})
        assert (project.status_code, list(project.json())) == (404, ["message"])
        files = archive(other.post("/exports", json={}))
    assert list(files) == ["alt.csv", "alt.json"]


# ---- what is missing ----


def test_images_that_need_a_text_are_listed_before_the_export_starts(fresh: Running) -> None:
    pixels = text("en", "photo-in-blue", "A photo in blue.", TextSource.PIXELS)
    quoted = Translation("fr", "boot", "“Ein Boot.”", TextSource.EMBEDDED, NeedsTextReason.OTHER_LANGUAGE)
    texts = [pixels, replace(text("de", "boot"), long_description="Ein Boot am Kai."), quoted]
    job = add(fresh, "a", texts=texts, name="a.JPG")
    failed = add(fresh, "b", texts=[], languages=["en", "es"], errors={StageName.ANALYZE: "no"})
    expected = [
        {"image_id": job.image_id, "original_filename": "a.JPG", "languages": ["en", "fr"],
         "reasons": {"en": "nothing_known", "fr": "other_language"}},
        {"image_id": failed.image_id, "original_filename": "DSC_0001.JPG", "languages": ["en", "es"],
         "reasons": {"en": None, "es": None}},
    ]  # fmt: skip
    assert post(fresh, dry_run=True).json()["data"]["needs_text"] == expected
    refused = post(fresh)
    assert refused.status_code == 409
    body = refused.json()
    assert "2 images" in body.pop("message")
    assert body == {"needs_text": expected, "missing": []}

    files = archive(post(fresh, allow_needs_text=True))
    assert "photo-in-blue.jpg" in files
    assert b"photo in blue." not in b"".join(files.values())
    assert "“Ein Boot.”".encode() not in b"".join(files.values())
    described = [list(each.values())[2:] for each in json.loads(files["alt.json"])["images"][0]["translations"]]
    assert described == [
        ["", "pixels", True, "nothing_known", ""],
        ["Text in de.", "embedded", False, None, "Ein Boot am Kai."],
        ["", "embedded", True, "other_language", ""],
    ]
    rows = {(row["language"], row["needs_text"], row["needs_text_reason"]) for row in csv_rows(files)[:6]}
    assert rows == {("en", "true", "nothing_known"), ("de", "false", ""), ("fr", "true", "other_language")}
    assert files["alt.csv"].splitlines()[0].endswith(b",variant,needs_text_reason,folder"), "new columns are at the end"


def test_missing_files_are_listed_with_their_reason(fresh: Running) -> None:
    jobs = [
        add(fresh, "complete"),
        add(fresh, "failed", converted=None, errors={StageName.CONVERT: "no"}),
        add(fresh, "optimized-only", converted=None),
        add(fresh, "texts-only", optimized=None, converted=None),
        add(fresh, "deleted-file", optimized=Result(content("lost"), Format.JPEG)),
        add(fresh, "damaged-file", converted=Result(content("changed"), Format.WEBP)),
    ]
    waiting = add(fresh, "waiting", unfinished=True)
    blobs = fresh.services.blobs
    blobs.path(hashlib.sha256(content("lost")).hexdigest()).unlink()
    blobs.path(hashlib.sha256(content("changed")).hexdigest()).write_bytes(bytes(2000))

    missing = post(fresh, dry_run=True, images=[*(job.image_id for job in jobs), waiting.image_id])
    listed = [(entry["image_id"], entry["variant"], entry["reason"]) for entry in missing.json()["data"]["missing"]]
    assert listed == [
        (jobs[1].image_id, "converted", "failed"),
        (jobs[3].image_id, "optimized", "not_requested"),
        (jobs[3].image_id, "converted", "not_requested"),
        (jobs[4].image_id, "optimized", "missing"),
        (jobs[5].image_id, "converted", "damaged"),
        (waiting.image_id, "optimized", "unfinished"),
        (waiting.image_id, "converted", "unfinished"),
    ]
    refused = post(fresh)
    assert refused.status_code == 409
    assert len(refused.json()["missing"]) == 3, "without images, neither the waiting one nor the one without results"
    files = archive(post(fresh, allow_missing=True))
    assert set(files) == {
        "complete.jpg", "complete.webp", "failed.jpg", "optimized-only.jpg", "deleted-file.webp", "damaged-file.jpg",
        "alt.csv", "alt.json",
    }  # fmt: skip
    assert len(json.loads(files["alt.json"])["missing"]) == 3


def test_files_are_named_in_the_chosen_language_and_projects_are_folders(fresh: Running) -> None:
    job = add(fresh, "a", texts=[text("en", "boat"), text("de", "boot")], project="Hafen")
    add(fresh, "b", texts=[text("en", "boat")], project="Sea")
    add(fresh, "c", texts=[], name="Ärger im Hafen.JPG", project="Sea")
    files = archive(post(fresh, variants=["optimized"], language="de"))
    assert list(files)[:3] == ["Hafen/boot.jpg", "Sea/boat.jpg", "Sea/Ärger im Hafen.jpg"]
    answer = post(fresh, variants=["optimized"], project_id=job.project_id)
    assert list(archive(answer)) == ["boat.jpg", "alt.csv", "alt.json"]
    assert answer.headers["content-disposition"] == 'attachment; filename="Hafen.zip"'


def test_files_lie_in_the_folders_of_their_uploads(fresh: Running) -> None:
    uploads = [("Hafen/Boote", "boat"), ("hafen/Boote", "boat"), ("", "alt"), ("a: b/CON", "boat"), ("a_ b", "kahn")]
    jobs = [add(fresh, str(number), texts=[text("en", name)], folder=folder, converted=None)
            for number, (folder, name) in enumerate(uploads)]  # fmt: skip
    add(fresh, "last", texts=[text("en", "a-2")], folder="alt.csv/hafen-2", converted=None)
    body = {"variants": ["optimized"], "folders": True}
    files = archive(post(fresh, **body))
    assert list(files) == [
        "Hafen/Boote/boat.jpg", "hafen-2/Boote/boat-2.jpg", "alt.jpg", "a_ b/_CON/boat-3.jpg", "a_ b-2/kahn.jpg",
        "alt.csv-2/hafen-2/a-2.jpg", "alt.csv", "alt.json",
    ]  # fmt: skip
    assert [row["folder"] for row in csv_rows(files)] == [*(folder for folder, _ in uploads), "alt.csv/hafen-2"]
    assert [image["folder"] for image in json.loads(files["alt.json"])["images"]][:2] == ["Hafen/Boote", "hafen/Boote"]
    edit = {"images": [{"image_id": jobs[0].image_id, "project_name": "Other"}]}
    assert fresh.client.patch("/images", json=edit).status_code == 200
    assert list(archive(post(fresh, **body)))[:2] == [
        "Other/Hafen/Boote/boat.jpg",
        "API Uploads/hafen/Boote/boat-2.jpg",
    ]
    assert next(iter(archive(post(fresh, variants=["optimized"])))) == "Other/boat.jpg"


def test_files_are_named_by_a_template(fresh: Running) -> None:
    dated = ImageInfo(Format.JPEG, 320, 240, taken_at="2026-05-17T14:03:09")
    for number in range(9):
        add(fresh, f"boat-{number}", name=f"DSC_{number}{{n}}.JPG", info=dated if number else None)
    add(fresh, "none", texts=[], name="Ä b.JPG")
    today = fresh.client.get("/jobs").json()["data"][0]

    def names(template: str) -> list[str]:
        preview = post(fresh, name_template=template, variants=["optimized", "converted"], dry_run=True)
        files = archive(post(fresh, name_template=template))
        assert preview.json()["data"]["names"] == list(files)[:5]
        return [name for name in files if name.endswith(".jpg")]

    day = fresh.client.get(f"/jobs/{today['job_id']}?include=details").json()["data"]["image"]["details"]["created_at"]
    assert names("{date}_{n}-{words}")[:2] == [f"{day[:10]}_01-boat-0.jpg", "2026-05-17_02-boat-1.jpg"]
    assert names("{n}")[-1] == "10.jpg"
    assert names("{original}")[1::8] == ["DSC_1{n}.jpg", "Ä b.jpg"], "what a part says is no template"
    assert names("{words}")[-1] == "Ä b.jpg"
    assert names("../{n}: a/b\x07")[0] == "_01_ a_b.jpg", "a name leads to no other folder"
    assert names("x" * 190 + "{n}")[:2] == ["x" * 120 + ".jpg", "x" * 120 + "-2.jpg"]


def test_a_table_for_shopify_has_one_row_per_picture(fresh: Running) -> None:
    add(fresh, "a", texts=[text("en", "boat", "A boat"), text("de", "boot", "=Boot")])
    add(
        fresh,
        "b",
        texts=[text("en", "photo", "Blue.", TextSource.PIXELS), text("de", "foto", "Blau, grün")],
        converted=None,
    )
    add(fresh, "c", texts=[text("en", "shopify")], converted=None)
    body = {"variants": ["converted", "optimized"], "tables": ["shopify"], "allow_needs_text": True}

    def rows(**more: str) -> list[list[str]]:
        files = archive(post(fresh, **body, **more))
        assert list(files)[-3:] == ["alt.csv", "alt.json", "shopify.csv"]
        return list(csv.reader(io.StringIO(files["shopify.csv"].decode(), newline="")))

    assert rows() == [
        ["URL handle", "Product image URL", "Image position", "Image alt text"],
        ["boat", "boat.jpg", "1", "A boat"], ["photo", "photo.jpg", "1", ""],
        ["shopify", "shopify.jpg", "1", "Text in en."],
    ]  # fmt: skip
    assert rows(language="de")[1:] == [
        ["boot", "boot.jpg", "1", "'=Boot"], ["foto", "foto.jpg", "1", "Blau, grün"],
        ["shopify", "shopify.jpg", "1", ""],
    ]  # fmt: skip


def test_best_is_the_smaller_result(fresh: Running) -> None:
    add(fresh, "a", converted=Result(content("a", 1999), Format.WEBP))
    add(fresh, "b", converted=Result(content("b", 2000), Format.WEBP))
    assert list(archive(post(fresh, variants=["best"]))) == ["a.webp", "b.jpg", "alt.csv", "alt.json"]


# ---- texts in files ----


def alt_texts(file: bytes) -> dict[str, str]:
    """The alt texts in the XMP of a file, by language."""
    with Image.open(io.BytesIO(file)) as picture:
        packet = picture.info.get("xmp") or picture.info["XML:com.adobe.xmp"].encode()
    (texts,) = ET.fromstring(packet).iter("{http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/}AltTextAccessibility")
    items = texts.iter("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li")
    return {item.attrib["{http://www.w3.org/XML/1998/namespace}lang"]: item.text or "" for item in items}


def pixels(file: bytes) -> bytes:
    with Image.open(io.BytesIO(file)) as picture:
        return picture.tobytes()


def test_texts_are_written_into_results_and_not_into_originals(
    fresh: Running, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [text("de", "boot", "Ein rotes Boot – größer."), text("ja", "fune", "赤い船", TextSource.PERSON)]
    needed = [
        text("en", "photo", "A photo in blue.", TextSource.PIXELS),
        Translation("fr", "bateau", "“Ein Boot.”", TextSource.EMBEDDED, NeedsTextReason.OTHER_LANGUAGE),
    ]
    results = {
        "jpg": Result(pictures.jpeg(), Format.JPEG),
        "png": Result(pictures.png(), Format.PNG),
        "webp": Result(pictures.webp(), Format.WEBP),
        "avif": Result(pictures.avif(), Format.AVIF),
    }
    for name, result in results.items():
        add(fresh, name, optimized=result, converted=None, texts=[text("de", name), *texts[1:], *needed])
    add(fresh, "broken", optimized=Result(content("broken"), Format.JPEG), converted=None, texts=texts[:1])

    body = {"variants": ["optimized", "original"], "allow_needs_text": True, "write_texts": True}
    answer = post(fresh, **body)
    files = archive(answer)
    for name, result in results.items():
        written = files[f"{name}.{name}"]
        assert alt_texts(written) == {"x-default": "Text in de.", "de": "Text in de.", "ja": "赤い船"}
        assert pixels(written) == pixels(result.data)
        assert files[f"{name}-original.jpg"] == content(name)
    assert files["boot.jpg"] == content("broken"), "a picture that takes no texts is exported without"
    listed = json.loads(files["alt.json"])
    assert [problem["file"] for problem in listed["problems"]] == ["boot.jpg"]
    written_files = [file for image in listed["images"] for file in image["files"] if file["texts_written"]]
    assert [file["file"] for file in written_files] == [f"{name}.{name}" for name in results]
    for file in written_files:
        assert file["sha256"] == hashlib.sha256(files[file["file"]]).hexdigest()
    assert "No texts were written" in caplog.text

    assert post(fresh, **body).content == answer.content
    assert list(fresh.services.blobs.incoming_folder.iterdir()) == []


def test_words_of_a_person_are_written_into_results_also_where_no_texts_are(fresh: Running) -> None:
    job = add(fresh, "a", optimized=Result(pictures.jpeg(), Format.JPEG), converted=None, texts=[], name="a.JPG")
    plain = add(fresh, "b", converted=None, texts=[], name="b.JPG")
    words = {"caption": "Zwei Boote am Kai", "keywords": ["Boot"], "credit": "Eva Müller"}
    fresh.client.patch("/images", json={"images": [{"image_id": job.image_id, **words}]}).raise_for_status()
    body = {"images": [job.image_id, plain.image_id], "variants": ["optimized", "original"]}
    files = archive(post(fresh, write_texts=True, **body))
    assert all(word.encode() in files["a.jpg"] for word in ("Zwei Boote am Kai", "Boot", "Eva Müller"))
    assert pixels(files["a.jpg"]) == pixels(pictures.jpeg())
    assert (files["a-original.jpg"], files["b.jpg"]) == (content("a"), content("b optimized"))
    listed = json.loads(files["alt.json"])["images"]
    assert [image["words"] for image in listed] == [words, {}]
    assert archive(post(fresh, write_texts=False, **body))["a.jpg"] == pictures.jpeg()
