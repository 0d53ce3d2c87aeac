"""Colours of the results, compared in CIEDE2000 with the original as viewers show it."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image, ImageCms

from imgproc_local.codecs.picture.decode import thumbnail, to_srgb
from tests.codecs import pictures
from tests.codecs.operations import converted, optimized
from tests.codecs.pictures import never_stop
from tests.support.reading import probe

MEDIAN, P99 = 1.0, 4.0


def all_hues() -> np.ndarray:
    """All hues in smooth gradients, which encoders change little."""
    x, y = np.meshgrid(np.linspace(0, 1, 320), np.linspace(0, 1, 240))
    bands = [127 + 90 * np.sin(2 * np.pi * (x + shift)) * (0.3 + 0.7 * y) for shift in (0, 1 / 3, 2 / 3)]
    return np.stack(bands, axis=2).astype(np.uint8)


def browsers_rgb(cmyk: pyvips.Image) -> pyvips.Image:
    """CMYK without a profile as Chromium and Firefox convert it: (255 - C)(255 - K) / 255, rounded down."""
    light = 255 - cmyk.numpy().astype(int)
    rgb = light[..., :3] * light[..., 3:] // 255
    return pyvips.Image.new_from_array(rgb.astype(np.uint8), interpretation="srgb")


def lab(data: bytes) -> pyvips.Image:
    """The colours of a picture whose profile is ignored if it is of another colour space."""
    image = pyvips.Image.new_from_buffer(data, "").copy_memory()
    if image.get_typeof("icc-profile-data"):
        space = {"cmyk": b"CMYK", "b-w": b"GRAY"}.get(image.interpretation, b"RGB ")
        if image.get("icc-profile-data")[16:20] == space:
            return image.icc_import(embedded=True, pcs="lab", intent="perceptual")
        image = image.copy()
        image.remove("icc-profile-data")
    if image.interpretation == "cmyk":
        image = browsers_rgb(image)
    return to_srgb(image).icc_import(input_profile="srgb", embedded=False, pcs="lab", intent="perceptual")


def deep() -> bytes:
    return bytes(pyvips.Image.new_from_array(HUES.astype(np.uint16) * 257, interpretation="rgb16").pngsave_buffer())


def jpeg(picture: np.ndarray | Image.Image, profile: bytes | None = None) -> bytes:
    return pictures.saved(picture, "JPEG", quality=97, icc_profile=profile)


HUES = all_hues()
GREY = np.ascontiguousarray(HUES[..., 1])
CMYK = Image.fromarray(HUES).convert("CMYK")
XYZ = ImageCms.ImageCmsProfile(ImageCms.createProfile("XYZ")).tobytes()
"""A profile of a colour space in which no picture stores its samples."""
SOURCES = {
    "Display P3, JPEG": jpeg(HUES, pictures.wide_profile()),
    "Display P3, PNG": pictures.saved(HUES, "PNG", icc_profile=pictures.wide_profile()),
    "narrow, JPEG": jpeg(HUES, pictures.narrow_profile()),
    "lifted sRGB, PNG": pictures.saved(HUES, "PNG", icc_profile=pictures.lifted_srgb_profile()),
    "sRGB, PNG": pictures.saved(HUES, "PNG", icc_profile=pictures.srgb_profile()),
    "CMYK": jpeg(CMYK),
    "16 bits": deep(),
    "RGB profile, grey JPEG": jpeg(GREY, pictures.narrow_profile()),
    "RGB profile, grey PNG": pictures.saved(GREY // 64 * 64, "PNG", icc_profile=pictures.narrow_profile()),
    "grey profile, JPEG": jpeg(HUES, pictures.wide_profile(b"GRAY")),
    "XYZ profile, JPEG": jpeg(HUES, XYZ),
    "XYZ profile, WebP": pictures.saved(HUES, "WEBP", lossless=True, icc_profile=XYZ),
    "RGB profile, CMYK": jpeg(CMYK, pictures.narrow_profile()),
}


def result_of(folder: Path, source: bytes, operation: str) -> bytes:
    return (optimized(folder, source) or source) if operation == "optimize" else converted(folder, source, operation)


@pytest.mark.parametrize("operation", ["optimize", "WEBP", "AVIF"])
@pytest.mark.parametrize("name", SOURCES)
def test_colours_are_preserved_and_profiles_of_another_colour_space_ignored(
    tmp_path: Path, name: str, operation: str
) -> None:
    error = lab(SOURCES[name]).dE00(lab(result_of(tmp_path, SOURCES[name], operation))).numpy()
    assert np.median(error) <= MEDIAN
    assert np.percentile(error, 99) <= P99


def inks() -> np.ndarray:
    """All 65,536 pairs of one ink and black; the other two inks decrease while the first increases."""
    ink, black = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    return np.stack([ink, 255 - ink, ink // 2, black], axis=2)


def without_adobe_marker(data: bytes) -> bytes:
    at = data.index(b"\xff\xee")
    (length,) = struct.unpack(">H", data[at + 2 : at + 4])
    return data[:at] + data[at + 2 + length :]


def press_profile(size: int | None = None) -> bytes:
    """The CMYK profile that libvips contains, or its first `size` bytes."""
    return bytes(pyvips.Image.profile_load("cmyk"))[:size]


def test_every_mix_of_inks_without_a_profile_is_converted_as_in_browsers() -> None:
    cmyk = pyvips.Image.new_from_array(inks(), interpretation="cmyk")
    assert np.array_equal(to_srgb(cmyk).numpy(), browsers_rgb(cmyk).numpy())


@pytest.mark.parametrize("source", ["Adobe marker", "no Adobe marker", "unreadable profile"])
def test_a_cmyk_jpeg_without_a_usable_profile_has_the_colours_of_browsers(tmp_path: Path, source: str) -> None:
    data = jpeg(CMYK, press_profile(4096) if source == "unreadable profile" else None)
    data = without_adobe_marker(data) if source == "no Adobe marker" else data
    expected = browsers_rgb(pyvips.Image.jpegload_buffer(data)).numpy()
    path = pictures.write(tmp_path, data)
    pixels = thumbnail(path, probe(path), 4096, never_stop)
    assert np.array_equal(np.frombuffer(pixels.rgb, np.uint8).reshape(expected.shape), expected)
    for operation in ("optimize", "WEBP", "AVIF"):
        shown = np.asarray(pictures.opened(result_of(tmp_path, data, operation)).convert("RGB"))
        assert np.abs(shown.astype(int) - expected).mean() < 2


def test_a_cmyk_jpeg_with_a_profile_has_the_colours_of_its_profile(tmp_path: Path) -> None:
    data = jpeg(CMYK, press_profile())
    through_profile, without = lab(data), lab(jpeg(CMYK))
    result = lab(result_of(tmp_path, data, "WEBP"))
    assert through_profile.dE00(result).avg() < MEDIAN
    assert through_profile.dE00(without).avg() > 4
