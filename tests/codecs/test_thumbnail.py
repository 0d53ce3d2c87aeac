"""Thumbnails look as Pillow and LittleCMS display the picture: colours, orientation, alpha and first frame."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps

from imgproc_local.domain.errors import BrokenImage
from imgproc_local.engine.thumbnails import MAX_SIDE_PX, ThumbnailSource, make_thumbnail
from tests.codecs import pictures
from tests.support.reading import probe

SCENE = pictures.scene(1040, 520)
GREY = np.asarray(Image.fromarray(SCENE).convert("L"))
OPACITY = Image.linear_gradient("L").resize((1040, 520))
TRANSPARENT = np.dstack([SCENE, np.asarray(OPACITY)])

FILES = {
    "JPEG": pictures.saved(SCENE, "JPEG", quality=97),
    "JPEG, rotated": pictures.jpeg_with_metadata(SCENE, orientation=6, quality=97),
    "JPEG, Display P3": pictures.saved(SCENE, "JPEG", quality=97, icc_profile=pictures.wide_profile()),
    "PNG, Display P3": pictures.saved(SCENE, "PNG", icc_profile=pictures.wide_profile()),
    "PNG of 16 bits": pictures.saved(Image.fromarray(GREY.astype(np.uint16) * 257), "PNG"),
    "PNG, alpha": pictures.saved(TRANSPARENT, "PNG"),
    "PNG, palette": pictures.saved(Image.fromarray(SCENE).quantize(64), "PNG"),
    "WebP, rotated": pictures.webp_with_metadata(SCENE, orientation=8, quality=97),
    "AVIF": pictures.saved(SCENE, "AVIF", quality=95, speed=10),
    "GIF, animated": pictures.animated("GIF", [100, 100, 100]),
    "WebP, animated": pictures.animated("WEBP", [100, 100], lossless=True),
    "TIFF, Display P3": pictures.saved(SCENE, "TIFF", icc_profile=pictures.wide_profile()),
    "TIFF, alpha": pictures.saved(TRANSPARENT, "TIFF"),
    "PNG, one pixel high": pictures.saved(SCENE[:1], "PNG"),
}


def thumbnail(folder: Path, data: bytes) -> Image.Image:
    path = pictures.write(folder, data)
    info = probe(path, 10**9)
    made = Image.open(io.BytesIO(make_thumbnail(ThumbnailSource(path, info), pictures.never_stop)))
    assert (made.format, getattr(made, "n_frames", 1)) == ("WEBP", 1)
    assert not {"exif", "icc_profile", "xmp"} & made.info.keys()
    return made


def expected(data: bytes, size: tuple[int, int]) -> Image.Image:
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if profile := picture.info.get("icc_profile"):
        srgb = ImageCms.createProfile("sRGB")
        picture = ImageCms.profileToProfile(picture, io.BytesIO(profile), srgb, outputMode="RGB")
    if picture.mode.startswith("I"):
        picture = Image.fromarray((np.asarray(picture) // 257).astype(np.uint8))
    return picture.convert("RGBA").resize(size, Image.Resampling.LANCZOS)


@pytest.mark.parametrize("name", FILES)
def test_a_thumbnail_looks_like_the_picture(tmp_path: Path, name: str) -> None:
    made = thumbnail(tmp_path, FILES[name])
    shown = ImageOps.exif_transpose(Image.open(io.BytesIO(FILES[name])))
    scale = min(1.0, MAX_SIDE_PX / max(shown.size))
    assert made.size == tuple(max(1, round(side * scale)) for side in shown.size)
    assert (made.mode == "RGBA") == ("alpha" in name)
    want, got = expected(FILES[name], made.size), made.convert("RGBA")
    assert abs(np.asarray(got)[:, :, 3].astype(float) - np.asarray(want)[:, :, 3]).mean() < 2
    white = Image.new("RGBA", made.size, "white")
    difference = np.asarray(Image.alpha_composite(white, got)).astype(float)
    difference = difference - np.asarray(Image.alpha_composite(white, want))
    assert abs(difference).mean() < 4, "about the noise of the scene, which WebP does not preserve"
    assert abs(difference.mean(axis=(0, 1))).max() < 1.5, "no cast of colour"


def test_a_damaged_picture_has_none(tmp_path: Path) -> None:
    with pytest.raises(BrokenImage, match="No thumbnail can be made of this picture: its data is damaged"):
        thumbnail(tmp_path, FILES["JPEG"][: len(FILES["JPEG"]) // 2])
