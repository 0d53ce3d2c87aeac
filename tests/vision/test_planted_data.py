"""No personal data planted in captions, keywords, file names or the text in a picture is published or logged.

`planted_data.toml` has 288 data of 12 kinds in 26 languages. The texts, names and long descriptions of the results,
the notes to a model, the metadata of the files and the log are searched for them.
"""

from __future__ import annotations

import logging
import re
import struct
import tomllib
from collections import defaultdict
from datetime import date
from pathlib import Path

import pytest
from msgspec import Struct

from imgproc_local.codecs.metadata import xmp
from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText
from imgproc_local.vision.describer import Hints, ReadLine, TextInPicture
from imgproc_local.vision.facts.describer import describe_from_facts
from imgproc_local.vision.facts.texts import collect_texts
from imgproc_local.vision.llm.prompt import picture_notes
from imgproc_local.vision.ocr.lines import text_in_picture
from tests.codecs import pictures
from tests.support.service import running

TABLES = tomllib.loads(Path(__file__).with_name("planted_data.toml").read_text(encoding="utf-8"))


class Planted(Struct, frozen=True):
    """A caption with personal data, which `secrets` are the words and numbers of."""

    kind: str
    language: str
    caption: str
    secrets: frozenset[str]

    @property
    def name(self) -> str:
        return re.sub(r'[/:?"<>|]', "-", re.sub(r"\s+", "_", self.caption)) + ".jpg"


def planted(table: str) -> list[Planted]:
    found = []
    for row in TABLES[table].strip().split("\n"):
        kind, language, text = row.split(" | ")
        secret = words(" ".join(re.findall(r"\[\[(.*?)\]\]", text)))
        secrets = {word for word in secret if any(map(str.isdigit, word))} or secret
        caption = text.replace("[[", "").replace("]]", "")
        found.append(Planted(kind, language, caption, frozenset(word for word in secrets if len(word) > 1)))
    return found


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.casefold()))


def published(data: Planted, embedded: EmbeddedMetadata, name: str, read: TextInPicture, context: str = "") -> set[str]:
    """The words of the translations and of the notes to a model."""
    hints = Hints(embedded, name, project_name=context, context=context, text_in_picture=read)
    described = describe_from_facts((data.language, "sk"), hints, lambda: date(2026, 1, 1))
    texts = collect_texts(embedded, name, (data.language,))
    return words(f"{described} {picture_notes(texts, context, context, read)}")


def leaking_places(data: Planted) -> list[str]:
    """The places from which a part of the data is published."""
    text, no_text = (EmbeddedText(data.caption, data.language),), TextInPicture()
    embedded = {
        field: EmbeddedMetadata(**{field: text})
        for field in ("alt_text", "extended_description", "description", "headline", "title", "keywords", "event")
    }
    found = {field: published(data, each, "IMG_1.jpg", no_text) for field, each in embedded.items()}
    nothing = EmbeddedMetadata()
    for name in (data.name, data.name.replace("_", " ")):
        found[f"name {name}"] = published(data, nothing, name, no_text)
    found["context"] = published(data, nothing, "IMG_1.jpg", no_text, data.caption)
    for line in (data.caption, data.caption.upper()):
        lines = [ReadLine(each, 0.99, 6, 0.1, (0, 0, 1, 0.2), 0.3) for each in ("SPRING SALE", line, "OPEN DAILY")]
        found[f"read {line}"] = published(data, nothing, "IMG_1.jpg", text_in_picture(lines, "graphic"))
    return [place for place, remaining in found.items() if remaining & data.secrets]


@pytest.mark.parametrize("data", planted("found"), ids=lambda data: f"{data.kind}-{data.language}")
def test_personal_data_is_in_no_text_name_or_note(data: Planted) -> None:
    assert leaking_places(data) == []


def test_a_form_that_is_recognised_stands_among_those() -> None:
    assert [data for data in planted("missed") if not leaking_places(data)] == []


def test_the_planted_data_is_of_many_kinds_and_languages() -> None:
    found = planted("found")
    languages = defaultdict(set)
    for data in found:
        languages[data.kind].add(data.language)
    assert len(found) >= 280
    assert len(languages) == 12
    assert {kind: len(each) for kind, each in languages.items() if len(each) < 6} == {}


def test_personal_data_of_an_upload_is_in_no_result_file_or_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    by_language: dict[str, list[Planted]] = defaultdict(list)
    for data in planted("found"):
        by_language[data.language].append(data)
    leaks = []
    with running(tmp_path / "data") as service:
        for language, group in list(by_language.items())[::4]:
            picture, name = with_captions(group), group[-1].name
            job = service.process("process", picture, name, languages=f"{language},sk", format="webp")
            assert job["status"] == "completed"
            identifier = job["image"]["id"]
            details = service.client.get(f"/jobs/{job['job_id']}", params={"include": "details,removed"}).json()
            image = details["data"]["image"]
            published = f"{image['translations']} {image['removed']} {image['suggested_role_reason']}"
            for variant in ("optimized", "converted"):
                published += service.client.get(f"/images/{identifier}/{variant}").content.decode("latin-1")
                published += service.client.get(f"/images/{identifier}/{variant}").content.decode("utf-8", "ignore")
            leaks += [data for data in group if long_secrets(data) & words(published)]
    # at the level DEBUG, the libraries log what they send and store
    logged = words(
        " ".join(each.getMessage() for each in caplog.records if is_own(each) or each.levelno > logging.DEBUG)
    )
    assert leaks == []
    assert [data for group in by_language.values() for data in group if long_secrets(data) & logged] == []
    assert any(map(is_own, caplog.records))


def is_own(record: logging.LogRecord) -> bool:
    return record.name.startswith("imgproc_local")


def long_secrets(data: Planted) -> set[str]:
    """Those that are hardly in a compressed picture or a time by chance."""
    return {secret for secret in data.secrets if len(secret) > 5}


def with_captions(group: list[Planted]) -> bytes:
    """A JPEG with the captions in EXIF, IPTC and XMP, and as keywords."""
    text = "\n".join(data.caption for data in group)
    properties = [
        xmp.from_language_items(name, [(group[0].language, text)])
        for name in (xmp.DC + "description", xmp.ALT_TEXT, xmp.DC + "title")
    ]
    properties.append(xmp.array(xmp.DC + "subject", "Bag", [data.caption for data in group]))
    datasets = b"\x1c\x01\x5a\0\x03\x1b%G"
    for number, value in ((120, text), *((25, data.caption) for data in group)):
        datasets += struct.pack(">BBBH", 0x1C, 2, number, len(value.encode())) + value.encode()
    blocks = pictures.segment(0xE1, b"Exif\0\0" + pictures.compact_tiff({0x010E: text.encode()}, 1, {}))
    blocks += pictures.segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + (xmp.write(properties) or b""))
    blocks += pictures.segment(0xED, b"Photoshop 3.0\0" + pictures.photoshop(datasets))
    plain = pictures.saved(pictures.scene(64, 48), "JPEG")
    return plain[:2] + blocks + plain[2:]
