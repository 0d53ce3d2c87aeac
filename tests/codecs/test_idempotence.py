"""Optimizing a result again changes nothing, not even if its metadata was removed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.picture.formats import FORMATS, detect
from imgproc_local.domain.plan import Effort
from tests.codecs import operations, pictures


def optimized(folder: Path, data: bytes, effort: Effort = "balanced") -> bytes:
    return operations.optimized(folder, data, effort=effort) or data


def sources() -> dict[str, bytes]:
    photo, graphic = pictures.photo(331, 245), pictures.graphic(317, 203, alpha=True)
    grey = np.ascontiguousarray(photo[..., 1])
    made = {
        "jpeg": pictures.jpeg_with_metadata(photo),
        "jpeg coarse": pictures.jpeg_with_metadata(photo, quality=40),
        "jpeg turned": pictures.jpeg_with_metadata(photo, 6),
        "jpeg grey": pictures.saved(grey, "JPEG", quality=95),
        "jpeg of 17 × 9 pixels": pictures.saved(pictures.scene(17, 9), "JPEG", quality=95),
        "png": pictures.png_with_metadata(photo),
        "png with alpha": pictures.saved(graphic, "PNG"),
        "png grey": pictures.saved(grey, "PNG"),
        "gif": pictures.gif_with_metadata(),
        "gif still": pictures.saved(Image.fromarray(photo).quantize(64), "GIF"),
        "webp turned": pictures.webp_with_metadata(photo, 6, quality=97),
        "webp with alpha": pictures.saved(graphic, "WEBP", quality=96),
        "webp lossless": pictures.saved(graphic, "WEBP", lossless=True, quality=0, method=0),
        "webp animated": pictures.animated("WEBP", [100, 50, 200], exif=pictures.tiff()),
        "webp animated, lossless": pictures.animated("WEBP", [90, 50], lossless=True, quality=0, method=0),
        "avif": pictures.avif_with_metadata(photo),
        "avif with alpha": pictures.saved(graphic, "AVIF", quality=95),
        "avif grey": pictures.saved(grey, "AVIF", quality=95),
        "avif animated": pictures.animated("AVIF", [100, 50], exif=pictures.tiff()),
    }
    for quality in (60, 82, 90, 96, 98, 100):
        for file_format in ("JPEG", "WEBP", "AVIF"):
            picture = pictures.scene() if file_format == "JPEG" else photo
            made[f"{file_format.lower()} of quality {quality}"] = pictures.saved(picture, file_format, quality=quality)
    for colours in (9, 200):
        indexed = Image.fromarray(pictures.graphic()).quantize(colours)
        made[f"png of {colours} colours"] = pictures.saved(indexed, "PNG", exif=pictures.tiff(6))
    for file_format in ("JPEG", "PNG", "GIF", "WEBP", "AVIF"):
        made[f"{file_format.lower()} of one pixel"] = pictures.saved(photo[:1, :1], file_format)
    return made


SOURCES = sources()
SAMPLE = Path(__file__).parents[1] / "sample" / "IMG_4711.jpg"


@pytest.mark.parametrize("name", SOURCES)
def test_optimizing_an_output_again_changes_nothing(tmp_path: Path, name: str) -> None:
    once = optimized(tmp_path, SOURCES[name])
    assert len(once) <= len(SOURCES[name])
    assert optimized(tmp_path, once) == once
    stripped = FORMATS[detect(once)].container.with_blocks(once, Blocks())
    assert optimized(tmp_path, stripped) == stripped


@pytest.mark.parametrize("effort", ["fast", "best"])
@pytest.mark.parametrize("name", ["jpeg", "png", "png with alpha", "webp of quality 98", "avif of quality 96"])
def test_optimizing_an_output_again_changes_nothing_at_any_effort(tmp_path: Path, name: str, effort: Effort) -> None:
    once = optimized(tmp_path, SOURCES[name], effort)
    assert len(once) < len(SOURCES[name])
    assert optimized(tmp_path, once, effort) == once


@pytest.mark.parametrize("file_format", ["WEBP", "AVIF"])
@pytest.mark.parametrize("alpha", [False, True])
def test_optimizing_a_converted_picture_twice_changes_nothing_the_second_time(
    tmp_path: Path, file_format: str, *, alpha: bool
) -> None:
    source = pictures.saved(pictures.graphic(203, 117, alpha=True) if alpha else pictures.photo(301, 177), "PNG")
    once = optimized(tmp_path, operations.converted(tmp_path, source, file_format))
    assert optimized(tmp_path, once) == once


def test_a_webp_of_a_photograph_that_was_scored_on_a_sample_of_it_remains(tmp_path: Path) -> None:
    webp = operations.converted(tmp_path, SAMPLE.read_bytes(), "WEBP")
    assert optimized(tmp_path, webp) == webp


@pytest.mark.parametrize("file_format", ["WEBP", "AVIF"])
def test_a_file_of_low_quality_is_not_encoded_again(tmp_path: Path, file_format: str) -> None:
    for quality in (50, 80):
        source = pictures.saved(pictures.photo(400, 300), file_format, quality=quality)
        assert optimized(tmp_path, source) == source
