"""Texts through files: what a service exports is uploaded again, before and after a vision model is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from imgproc_local.codecs.alt_texts import texts_to_write, write_alt_texts
from imgproc_local.codecs.metadata import text_sources, xmp
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.result import TextSource, Translation
from tests.codecs import pictures
from tests.codecs.operations import read_blocks
from tests.codecs.pictures import never_stop
from tests.faults.server_process import command_line, make_key, serving
from tests.support import tiny
from tests.support.exports import archive
from tests.support.service import Service

FRENCH, JAPANESE, CZECH = "Des formes peintes par Anna", "手で書いた説明", "Kominík čistí komín na staré střeše."
OLD, OLD_MODEL = "Some shapes that an older model saw", "older-model"
EDITED = "Shapes that my daughter painted"


def picture(folder: Path, alt_text: str = "") -> bytes:
    """A scene of the tiny model with a person's Czech caption and, unless it is empty, French alt text."""
    scene = tiny.scenes().held_out_scenes(1, seed=1234)[0]
    tiny.scenes().draw(scene, 0, (320, 240)).save(folder / "scene.png")
    texts = {xmp.DC + "description": [("cs", CZECH)], xmp.ALT_TEXT: [("fr", alt_text)] if alt_text else []}
    packet = xmp.write([xmp.from_language_items(name, entries) for name, entries in texts.items() if entries]) or b""
    chunk = pictures.chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + packet)
    return pictures.with_png_chunks((folder / "scene.png").read_bytes(), chunk)


@contextmanager
def started(folder: Path, *, with_model: bool) -> Iterator[Service]:
    data = folder / f"data {with_model}"
    if with_model:
        result = command_line("models", "import", str(tiny.TEXT), str(tiny.MMPROJ), "--name", "tiny", data_dir=data)
        assert result.returncode == 0, result.stderr
    key = make_key(data)
    with serving(data) as server, Service(server.root or "", key) as service:
        yield service
        assert server.terminate() == 0


def texts(job: dict[str, Any]) -> dict[str, tuple[str, str]]:
    assert job["status"] == "completed", job
    return {each["language_code"]: (each["source"], each["seo_alt_text"]) for each in job["image"]["translations"]}


def exported(service: Service, job: dict[str, Any]) -> bytes:
    """The optimized file of a job with its texts, as an export has it."""
    answer = service.client.post(
        "/exports", json={"images": [job["image"]["id"]], "variants": ["optimized"], "allow_needs_text": True}
    )
    [file] = [data for name, data in archive(answer).items() if name.endswith(".png")]
    return file


def authors(file: bytes) -> dict[str, str]:
    """The source of each marked alt text."""
    properties = xmp.parse(read_blocks(file, Format.PNG).xmp).properties
    return {text: author.source.value for text, author in text_sources.authors(properties, xmp.ALT_TEXT).items()}


def alt_texts(file: bytes) -> dict[str, str]:
    found = dict(xmp.language_items(xmp.parse(read_blocks(file, Format.PNG).xmp).properties, xmp.ALT_TEXT))
    return {tag: text for tag, text in found.items() if tag != "x-default"}


def test_a_persons_edit_survives_exports_and_uploads_of_the_export(tmp_path: Path) -> None:
    by_persons = {"en": EDITED, "fr": FRENCH, "ja": JAPANESE}
    with started(tmp_path, with_model=True) as service:
        job = service.process("process", picture(tmp_path, FRENCH), "scene.png", languages="de,en,fr,ja")
        assert texts(job)["fr"] == ("embedded", FRENCH)
        for code in ("en", "ja"):
            address = f"/images/{job['image']['id']}/translations/{code}"
            service.client.patch(address, json={"seo_alt_text": by_persons[code]}).raise_for_status()
        for _ in range(2):
            file = exported(service, job)
            assert alt_texts(file).items() >= by_persons.items()
            assert authors(file).items() >= {EDITED: "person", JAPANESE: "person"}.items()
            assert CZECH.encode() in file
            job = service.process("process", file, "scene.png", languages="de,en,fr,ja")
            assert texts(job).items() >= {code: ("embedded", text) for code, text in by_persons.items()}.items()


def test_a_model_replaces_facts_and_an_older_models_text_but_never_a_persons(tmp_path: Path) -> None:
    older = texts_to_write([Translation("de", "x", OLD, TextSource.VISION, model=OLD_MODEL)])
    source = write_alt_texts(
        pictures.write(tmp_path, picture(tmp_path)), ImageInfo(Format.PNG, 0, 0), older, never_stop
    )
    with started(tmp_path, with_model=False) as without:
        job = without.process("process", source, "scene.png", languages="en,de,ja")
        assert [source for source, _ in texts(job).values()] == ["facts", "vision", "facts"]
        file = exported(without, job)
        of_person = exported(
            without, without.process("process", picture(tmp_path, FRENCH), "scene.png", languages="en,fr")
        )
    assert (alt_texts(file), authors(file)) == ({"de": OLD}, {OLD: "vision"})
    assert OLD_MODEL.encode() in file
    assert (alt_texts(of_person), authors(of_person)) == ({"fr": FRENCH}, {})
    with started(tmp_path, with_model=True) as with_model:
        described = with_model.process("process", file, "scene.png", languages="en,de,ja")
        assert {source for source, _ in texts(described).values()} == {"vision"}
        result = exported(with_model, described)
        again = with_model.process("process", of_person, "scene.png", languages="fr,en")
        assert texts(again)["fr"] == ("embedded", FRENCH)
        assert alt_texts(exported(with_model, again))["fr"] == FRENCH
    assert alt_texts(result) == {code: text for code, (_, text) in texts(described).items()}
    assert authors(result) == dict.fromkeys(alt_texts(result).values(), "vision")
    assert OLD_MODEL.encode() not in result
