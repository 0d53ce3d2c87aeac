"""Stages are plain functions of data: what goes in and what comes out can be sent to another process."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import ExifTags, Image

from imgproc_local.codecs import files as codecs
from imgproc_local.domain.image import Format
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.domain.privacy import Removed
from imgproc_local.engine import results
from imgproc_local.engine.stage import Options, WorkItem
from tests.support import pictures
from tests.support.reading import probe


def never_stop() -> None:
    """The work is always wanted."""


@pytest.fixture
def work(tmp_path: Path) -> WorkItem:
    path = tmp_path / "picture.jpg"
    path.write_bytes(pictures.jpeg(320, 240, quality=97))
    return WorkItem(
        original=path,
        info=probe(path, 10**6),
        plan=Plan(Operation.PROCESS, languages=("en", "de"), project_name="A project"),
        original_filename="picture.jpg",
        options=Options(target_score=75.0),
    )


def test_optimize_never_returns_a_file_with_private_data_even_if_the_cleaned_one_is_larger(
    work: WorkItem, monkeypatch: pytest.MonkeyPatch
) -> None:
    exif = Image.Exif()
    exif.get_ifd(ExifTags.IFD.GPSInfo)[ExifTags.GPS.GPSLatitude] = (52.0, 30.0, 59.0)
    work.original.write_bytes(pictures.encoded(pictures.photo(), exif=exif.tobytes()))
    monkeypatch.setitem(codecs.CANDIDATES, Format.JPEG, lambda source: iter([source.clean_copy() + bytes(9999)]))
    output = results.optimize(work, never_stop)
    assert output.data is not None
    assert len(output.data) > work.original.stat().st_size
    assert output.removed == (Removed.GPS,)
    assert not Image.open(io.BytesIO(output.data)).getexif()
    work.original.write_bytes(pictures.jpeg())
    assert results.optimize(work, never_stop).keeps_original, "without private data, the original is the result"
