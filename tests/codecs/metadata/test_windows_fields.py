"""The EXIF fields in which Windows stores the words of its properties dialog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from imgproc_local.codecs.embedded import read_embedded
from imgproc_local.codecs.optimize import optimize_file
from imgproc_local.codecs.picture.probe import probe
from tests.codecs import pictures
from tests.codecs.operations import to_avif, to_webp
from tests.codecs.pictures import never_stop

MAX_PIXELS = 10**9
TITLE, KEYWORDS, SUBJECT = 0x9C9B, 0x9C9E, 0x9C9F


@pytest.mark.parametrize("make", [optimize_file, to_webp, to_avif])
def test_title_subject_and_keywords_are_read_and_preserved(tmp_path: Path, make: Callable[..., bytes | None]) -> None:
    exif = Image.Exif()
    for tag, text in {TITLE: "Harbour", SUBJECT: "Two boats at the quay", KEYWORDS: "boat;quay"}.items():
        exif[tag] = f"{text}\0".encode("utf-16-le")
    source = pictures.write(tmp_path, pictures.saved(pictures.scene(), "JPEG", quality=95, exif=exif))
    made = make(source, probe(source, MAX_PIXELS), never_stop)
    assert made is not None
    path = pictures.write(tmp_path, made, "made")
    for file in (source, path):
        embedded = read_embedded(file, probe(file, MAX_PIXELS))
        assert [entry.text for entry in embedded.title] == ["Harbour"]
        assert [entry.text for entry in embedded.headline] == ["Two boats at the quay"]
        assert [entry.text for entry in embedded.keywords] == ["boat", "quay"]
