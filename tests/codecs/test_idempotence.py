"""Optimizing a result again changes nothing, not even if its metadata was removed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import avif as avif_container
from imgproc_local.codecs.container import gif as gif_container
from imgproc_local.codecs.container import jpeg as jpeg_container
from imgproc_local.codecs.container import png as png_container
from imgproc_local.codecs.container import webp as webp_container
from imgproc_local.domain.plan import Effort
from tests.codecs import operations, pictures

CONTAINER = {
    "JPEG": jpeg_container,
    "PNG": png_container,
    "GIF": gif_container,
    "WEBP": webp_container,
    "AVIF": avif_container,
}


def optimized(folder: Path, data: bytes, effort: Effort = "balanced") -> bytes:
    return operations.optimized(folder, data, effort=effort) or data


def sources() -> dict[str, tuple[str, bytes]]:
    photo, graphic = pictures.photo(331, 245), pictures.graphic(317, 203, alpha=True)
    grey = np.ascontiguousarray(photo[..., 1])
    pixel = photo[:1, :1]
    made = {
        "jpeg": ("JPEG", pictures.jpeg_with_metadata(photo)),
        "jpeg coarse": ("JPEG", pictures.jpeg_with_metadata(photo, quality=40)),
        "jpeg turned": ("JPEG", pictures.jpeg_with_metadata(photo, 6)),
        "jpeg grey": ("JPEG", pictures.saved(grey, "JPEG", quality=95)),
        "png": ("PNG", pictures.png_with_metadata(photo)),
        "png with alpha": ("PNG", pictures.saved(graphic, "PNG")),
        "png grey": ("PNG", pictures.saved(grey, "PNG")),
        "gif": ("GIF", pictures.gif_with_metadata()),
        "gif still": ("GIF", pictures.saved(Image.fromarray(photo).quantize(64), "GIF")),
        "webp turned": ("WEBP", pictures.webp_with_metadata(photo, 6, quality=97)),
        "webp with alpha": ("WEBP", pictures.saved(graphic, "WEBP", quality=96)),
        "webp lossless": ("WEBP", pictures.saved(graphic, "WEBP", lossless=True, quality=0, method=0)),
        "webp animated": ("WEBP", pictures.animated("WEBP", [100, 50, 200], exif=pictures.tiff())),
        "webp animated, lossless": ("WEBP", pictures.animated("WEBP", [90, 50], lossless=True, quality=0, method=0)),
        "avif": ("AVIF", pictures.avif_with_metadata(photo)),
        "avif with alpha": ("AVIF", pictures.saved(graphic, "AVIF", quality=95)),
        "avif grey": ("AVIF", pictures.saved(grey, "AVIF", quality=95)),
        "avif animated": ("AVIF", pictures.animated("AVIF", [100, 50], exif=pictures.tiff())),
    }
    for quality in (60, 75, 82, 90, 98):
        made[f"jpeg of quality {quality}"] = "JPEG", pictures.saved(pictures.scene(), "JPEG", quality=quality)
    made["jpeg of 17 × 9 pixels"] = "JPEG", pictures.saved(pictures.scene(17, 9), "JPEG", quality=95)
    for colours in (9, 200):
        indexed = Image.fromarray(pictures.graphic()).quantize(colours)
        made[f"png of {colours} colours"] = "PNG", pictures.saved(indexed, "PNG", exif=pictures.tiff(6))
    for file_format in ("WEBP", "AVIF"):
        for quality in (60, 75, 85, 90, 93, 96, 98, 100):
            made[f"{file_format.lower()} of quality {quality}"] = (
                file_format,
                pictures.saved(photo, file_format, quality=quality),
            )
    for file_format in ("JPEG", "PNG", "GIF", "WEBP", "AVIF"):
        made[f"{file_format.lower()} of one pixel"] = file_format, pictures.saved(pixel, file_format)
    return made


SOURCES = sources()


@pytest.mark.parametrize("name", SOURCES)
def test_optimizing_an_output_again_changes_nothing(tmp_path: Path, name: str) -> None:
    file_format, source = SOURCES[name]
    once = optimized(tmp_path, source)
    assert len(once) <= len(source)
    assert optimized(tmp_path, once) == once
    stripped = CONTAINER[file_format].with_blocks(once, Blocks())  # type: ignore[attr-defined]
    assert optimized(tmp_path, stripped) == stripped


@pytest.mark.parametrize("effort", ["fast", "best"])
@pytest.mark.parametrize("name", ["jpeg", "png", "png with alpha", "webp of quality 98", "avif of quality 96"])
def test_optimizing_an_output_again_changes_nothing_at_any_effort(tmp_path: Path, name: str, effort: Effort) -> None:
    _, source = SOURCES[name]
    once = optimized(tmp_path, source, effort)
    assert len(once) < len(source)
    assert optimized(tmp_path, once, effort) == once


@pytest.mark.parametrize("file_format", ["WEBP", "AVIF"])
@pytest.mark.parametrize("alpha", [False, True])
def test_optimizing_a_converted_picture_twice_changes_nothing_the_second_time(
    tmp_path: Path, file_format: str, *, alpha: bool
) -> None:
    source = pictures.saved(pictures.graphic(203, 117, alpha=True) if alpha else pictures.photo(301, 177), "PNG")
    once = optimized(tmp_path, operations.converted(tmp_path, source, file_format))
    assert optimized(tmp_path, once) == once


@pytest.mark.parametrize("file_format", ["WEBP", "AVIF"])
def test_a_file_of_low_quality_is_not_encoded_again(tmp_path: Path, file_format: str) -> None:
    for quality in (50, 80):
        source = pictures.saved(pictures.photo(400, 300), file_format, quality=quality)
        assert optimized(tmp_path, source) == source
