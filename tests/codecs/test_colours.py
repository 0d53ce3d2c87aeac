"""Colours after the codecs, in CIEDE2000 from what a viewer shows of the original."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image, ImageCms

from imgproc_local.codecs import avif, webp
from imgproc_local.codecs.decode import to_srgb
from imgproc_local.codecs.jpeg import optimize as jpeg
from imgproc_local.codecs.png import optimize as png
from imgproc_local.codecs.probe import probe
from imgproc_local.domain.image import Format
from tests.codecs import pictures
from tests.codecs.pictures import never_stop

MANY = 10**9
MEDIAN, P99 = 1.0, 4.0


def sweep() -> np.ndarray:
    """All hues in calm gradients, so that what an encoder leaves out shows little."""
    x, y = np.meshgrid(np.linspace(0, 1, 320), np.linspace(0, 1, 240))
    bands = [127 + 90 * np.sin(2 * np.pi * (x + shift)) * (0.3 + 0.7 * y) for shift in (0, 1 / 3, 2 / 3)]
    return np.stack(bands, axis=2).astype(np.uint8)


def lab(data: bytes) -> pyvips.Image:
    image = pyvips.Image.new_from_buffer(data, "").copy_memory()
    if image.get_typeof("icc-profile-data"):
        return image.icc_import(embedded=True, pcs="lab", intent="perceptual")
    if image.interpretation == "cmyk":
        return image.icc_import(input_profile="cmyk", embedded=False, pcs="lab", intent="perceptual")
    return to_srgb(image).icc_import(input_profile="srgb", embedded=False, pcs="lab", intent="perceptual")


def deep() -> bytes:
    bands = np.repeat(sweep().astype(np.uint16) * 257, 1, axis=0)
    return bytes(pyvips.Image.new_from_array(bands, interpretation="rgb16").pngsave_buffer())


SOURCES = {
    "Display P3, JPEG": pictures.saved(sweep(), "JPEG", quality=97, icc_profile=pictures.wide_profile()),
    "Display P3, PNG": pictures.saved(sweep(), "PNG", icc_profile=pictures.wide_profile()),
    "narrow, JPEG": pictures.saved(sweep(), "JPEG", quality=97, icc_profile=pictures.narrow_profile()),
    "sRGB, PNG": pictures.saved(sweep(), "PNG", icc_profile=pictures.srgb_profile()),
    "CMYK": pictures.saved(Image.fromarray(sweep()).convert("CMYK"), "JPEG", quality=97),
    "16 bits": deep(),
}


def grey() -> np.ndarray:
    return np.ascontiguousarray(sweep()[..., 1])


def xyz_profile() -> bytes:
    """One that speaks of other numbers than a picture's samples."""
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("XYZ")).tobytes()


def made(folder: Path, source: bytes, door: str) -> bytes:
    path = pictures.write(folder, source)
    info = probe(path, MANY)
    if door == "optimize":
        optimize = {Format.JPEG: jpeg.optimize, Format.PNG: png.optimize, Format.WEBP: webp.optimize}[info.format]
        return optimize(path, info, never_stop) or source
    return (webp if door == "webp" else avif).convert(path, info, never_stop)


MISFITS = {
    "RGB profile, grey JPEG": pictures.saved(grey(), "JPEG", quality=97, icc_profile=pictures.narrow_profile()),
    "RGB profile, grey PNG": pictures.saved(grey() // 64 * 64, "PNG", icc_profile=pictures.narrow_profile()),
    "grey profile, JPEG": pictures.saved(sweep(), "JPEG", quality=97, icc_profile=pictures.wide_profile(b"GRAY")),
    "XYZ profile, JPEG": pictures.saved(sweep(), "JPEG", quality=97, icc_profile=xyz_profile()),
    "XYZ profile, WebP": pictures.saved(sweep(), "WEBP", lossless=True, icc_profile=xyz_profile()),
    "RGB profile, CMYK": pictures.saved(
        Image.fromarray(sweep()).convert("CMYK"), "JPEG", quality=97, icc_profile=pictures.narrow_profile()
    ),
}


def lab_as_shown(data: bytes) -> pyvips.Image:
    """A profile that does not fit is passed over."""
    image = pyvips.Image.new_from_buffer(data, "").copy_memory()
    space = {"cmyk": b"CMYK", "b-w": b"GRAY"}.get(image.interpretation, b"RGB ")
    if image.get_typeof("icc-profile-data") and image.get("icc-profile-data")[16:20] != space:
        image = image.copy()
        image.remove("icc-profile-data")
    return lab(bytes(image.tiffsave_buffer()))


@pytest.mark.parametrize("door", ["optimize", "webp", "avif"])
@pytest.mark.parametrize("name", MISFITS)
def test_a_profile_that_does_not_fit_changes_no_colour(tmp_path: Path, name: str, door: str) -> None:
    source = MISFITS[name]
    error = lab_as_shown(source).dE00(lab_as_shown(made(tmp_path, source, door))).numpy().ravel()
    assert np.median(error) <= MEDIAN
    assert np.percentile(error, 99) <= P99


@pytest.mark.parametrize("door", ["optimize", "webp", "avif"])
@pytest.mark.parametrize("name", SOURCES)
def test_colours_stay(tmp_path: Path, name: str, door: str) -> None:
    source = SOURCES[name]
    error = lab(source).dE00(lab(made(tmp_path, source, door))).numpy().ravel()
    assert np.median(error) <= MEDIAN
    assert np.percentile(error, 99) <= P99
