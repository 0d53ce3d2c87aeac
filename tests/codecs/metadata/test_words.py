"""A person's caption, keywords and credit, written into results: the same in XMP, EXIF and IPTC; nothing else changes.

Where exiftool is installed, it compares everything that the files say.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imgproc_local.codecs.alt_texts import FileText, FileTexts, write_alt_texts
from imgproc_local.codecs.container import jpeg as jpeg_container
from imgproc_local.codecs.metadata import exif, iptc, xmp
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.codecs.metadata.text_sources import Author
from imgproc_local.domain.image import Disclosure, ImageInfo, Kept
from imgproc_local.domain.result import TextSource, Words
from tests.codecs import pictures
from tests.codecs.metadata import test_kept
from tests.codecs.metadata.test_odd_places import ultra_hdr
from tests.codecs.operations import converted, frames_of, optimized, read_blocks, whole
from tests.codecs.pictures import never_stop
from tests.support.reading import probe

WORDS = Words("Zwei Boote\nam Kai – „grün“ & <blau>", ("Boot", "Hafen; Kai"), "Eva Müller")
NOTHING = Words("", (), "")
PROPERTIES = {"caption": xmp.DC + "description", "keywords": xmp.DC + "subject", "credit": xmp.PHOTOSHOP + "Credit"}
NO_TEXTS = FileTexts()
ALT = FileTexts({"de": FileText("Zwei Boote.", Author(TextSource.PERSON))})
PLAIN = pictures.saved(pictures.scene(), "JPEG", quality=97)

RESULTS: dict[str, Callable[[Path], bytes]] = {
    "jpg": lambda folder: whole(optimized(folder, pictures.jpeg_with_metadata(orientation=6, quality=60))),
    "png": lambda folder: whole(optimized(folder, pictures.png_with_metadata())),
    "gif": lambda folder: whole(optimized(folder, pictures.gif_with_metadata())),
    "webp": lambda folder: converted(folder, pictures.jpeg_with_metadata(), "WEBP"),
    "avif": lambda folder: converted(folder, pictures.jpeg_with_metadata(), "AVIF"),
    "plain.jpg": lambda folder: whole(optimized(folder, PLAIN)),
    "plain.webp": lambda folder: converted(folder, PLAIN, "WEBP"),
    "gain map.jpg": lambda folder: whole(optimized(folder, ultra_hdr("attributes"))),
}


def written(folder: Path, data: bytes, words: Words, texts: FileTexts = NO_TEXTS) -> tuple[bytes, Blocks, ImageInfo]:
    """The file with the words, its blocks, and its properties."""
    path = pictures.write(folder, data)
    info = probe(path)
    out = write_alt_texts(path, info, texts, never_stop, words=words)
    return out, read_blocks(out, info.format), probe(pictures.write(folder, out))


@pytest.mark.parametrize("name", RESULTS)
def test_words_are_the_same_in_all_blocks_and_the_rest_of_the_file_is_as_before(tmp_path: Path, name: str) -> None:
    result = RESULTS[name](tmp_path)
    info = probe(pictures.write(tmp_path, result))
    out, blocks, after = written(tmp_path, result, WORDS, ALT)
    assert after == info
    assert all(np.array_equal(one, other) for one, other in zip(frames_of(result), frames_of(out), strict=True))
    before = read_blocks(result, info.format)
    found, others = (xmp.parse(packet).properties for packet in (blocks.xmp, before.xmp))
    assert xmp.language_items(found, PROPERTIES["caption"]) == [("x-default", WORDS.caption)]
    assert xmp.texts(found, PROPERTIES["keywords"]) == list(WORDS.keywords or ())
    assert xmp.texts(found, PROPERTIES["credit"]) == [WORDS.credit]
    assert xmp.language_items(found, xmp.ALT_TEXT)[0] == ("x-default", "Zwei Boote.")
    kept = set(others) - {*PROPERTIES.values(), xmp.ALT_TEXT}
    assert {each: xmp.texts(found, each) for each in kept} == {each: xmp.texts(others, each) for each in kept}
    assert blocks.icc == before.icc
    if name != "gif":
        fields = exif.read_ifd(blocks.exif)
        assert fields.text(exif.IMAGE_DESCRIPTION) == WORDS.caption
        assert fields.text(exif.COPYRIGHT) == exif.read_ifd(before.exif).text(exif.COPYRIGHT)
    if name.endswith("jpg"):
        datasets = iptc.read(blocks.iptc).texts
        assert (datasets[120], datasets[25], datasets[110]) == ([WORDS.caption], ["Boot", "Hafen; Kai"], [WORDS.credit])
        assert jpeg_container.gain_map(out) == jpeg_container.gain_map(result)
        assert (jpeg_container.gain_map(out) is not None) is (name == "gain map.jpg")


@pytest.mark.parametrize("name", RESULTS)
def test_empty_words_remove_those_of_the_file_and_words_that_are_not_set_leave_them(tmp_path: Path, name: str) -> None:
    result = RESULTS[name](tmp_path)
    path = pictures.write(tmp_path, result)
    assert write_alt_texts(path, probe(path), NO_TEXTS, never_stop, words=Words()) == result
    full, before, _ = written(tmp_path, result, WORDS)
    _, blocks, _ = written(tmp_path, full, Words(credit="Other"))
    stored, found = (xmp.parse(each.xmp).properties for each in (before, blocks))
    assert xmp.texts(found, PROPERTIES["credit"]) == ["Other"]
    assert {each: xmp.texts(found, each) for each in set(found) - {PROPERTIES["credit"]}} == {
        each: xmp.texts(stored, each) for each in set(stored) - {PROPERTIES["credit"]}
    }
    emptied, blocks, _ = written(tmp_path, full, NOTHING)
    assert not set(PROPERTIES.values()) & set(xmp.parse(blocks.xmp).properties)
    assert not exif.read_ifd(blocks.exif).text(exif.IMAGE_DESCRIPTION)
    assert not {25, 110, 120} & set(iptc.read(blocks.iptc).texts)
    assert b"Boote" not in emptied


def everything_said(path: Path) -> dict[str, Any]:
    """All tags that exiftool reads from a file, without those of the file system and of offsets."""
    command = ["exiftool", "-j", "-a", "-struct", "-G1", "-charset", "iptc=UTF8", str(path)]
    (found,) = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    outside = ("SourceFile", "System:", "ExifTool:ExifToolVersion", "QuickTime:MediaData", "File:CurrentIPTCDigest")
    return {tag: value for tag, value in found.items() if not tag.startswith((*outside, "MPF0:", "MPImage"))}


@pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool is not installed")
@pytest.mark.parametrize("name", [name for name in RESULTS if not name.startswith("plain")])
def test_exiftool_finds_no_other_change(tmp_path: Path, name: str) -> None:
    before, after = tmp_path / f"before {name}", tmp_path / f"after {name}"
    before.write_bytes(written(tmp_path, RESULTS[name](tmp_path), Words("A", ("B",), "C"))[0])
    after.write_bytes(written(tmp_path, before.read_bytes(), WORDS)[0])
    said, says = everything_said(before), everything_said(after)
    changed = {tag for tag in {*said, *says} if said.get(tag) != says.get(tag)}
    own = {"XMP-dc:Description", "XMP-dc:Subject", "XMP-photoshop:Credit", "IFD0:ImageDescription"}
    own |= {"IPTC:Caption-Abstract", "IPTC:Keywords", "IPTC:Credit"}
    assert changed == {tag for tag in own if tag in said}
    assert says["XMP-dc:Description"] == WORDS.caption


@pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool is not installed")
@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP", "AVIF"])
def test_dates_camera_and_rating_that_a_result_has_remain(tmp_path: Path, name: str) -> None:
    for result in test_kept.results(test_kept.from_camera(tmp_path, name), name, Disclosure(kept=frozenset(Kept))):
        before = result.read_bytes()
        out, _, _ = written(tmp_path, before, WORDS)
        both = [pictures.write(tmp_path, data, f"{number}") for number, data in enumerate((before, out))]
        stored, found = test_kept.tags_of(*both)
        assert len(found) > 20
        assert found == stored
