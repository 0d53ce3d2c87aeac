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
from tests.codecs.operations import CONVERT
from tests.codecs.pictures import never_stop
from tests.support.reading import optimize_file, probe

MAX_PIXELS = 10**9
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
    image = pyvips.Image.new_from_buffer(data, "").copy_memory()
    if image.get_typeof("icc-profile-data"):
        return image.icc_import(embedded=True, pcs="lab", intent="perceptual")
    if image.interpretation == "cmyk":
        image = browsers_rgb(image)
    return to_srgb(image).icc_import(input_profile="srgb", embedded=False, pcs="lab", intent="perceptual")


def deep() -> bytes:
    bands = np.repeat(all_hues().astype(np.uint16) * 257, 1, axis=0)
    return bytes(pyvips.Image.new_from_array(bands, interpretation="rgb16").pngsave_buffer())


SOURCES = {
    "Display P3, JPEG": pictures.saved(all_hues(), "JPEG", quality=97, icc_profile=pictures.wide_profile()),
    "Display P3, PNG": pictures.saved(all_hues(), "PNG", icc_profile=pictures.wide_profile()),
    "narrow, JPEG": pictures.saved(all_hues(), "JPEG", quality=97, icc_profile=pictures.narrow_profile()),
    "lifted sRGB, PNG": pictures.saved(all_hues(), "PNG", icc_profile=pictures.lifted_srgb_profile()),
    "sRGB, PNG": pictures.saved(all_hues(), "PNG", icc_profile=pictures.srgb_profile()),
    "CMYK": pictures.saved(Image.fromarray(all_hues()).convert("CMYK"), "JPEG", quality=97),
    "16 bits": deep(),
}


def grey() -> np.ndarray:
    return np.ascontiguousarray(all_hues()[..., 1])


def xyz_profile() -> bytes:
    """A profile of a colour space in which no picture stores its samples."""
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("XYZ")).tobytes()


def result_of(folder: Path, source: bytes, operation: str) -> bytes:
    path = pictures.write(folder, source)
    info = probe(path, MAX_PIXELS)
    if operation == "optimize":
        return optimize_file(path, info, never_stop) or source
    return CONVERT[operation.upper()](path, info, never_stop)


MISMATCHED_PROFILES = {
    "RGB profile, grey JPEG": pictures.saved(grey(), "JPEG", quality=97, icc_profile=pictures.narrow_profile()),
    "RGB profile, grey PNG": pictures.saved(grey() // 64 * 64, "PNG", icc_profile=pictures.narrow_profile()),
    "grey profile, JPEG": pictures.saved(all_hues(), "JPEG", quality=97, icc_profile=pictures.wide_profile(b"GRAY")),
    "XYZ profile, JPEG": pictures.saved(all_hues(), "JPEG", quality=97, icc_profile=xyz_profile()),
    "XYZ profile, WebP": pictures.saved(all_hues(), "WEBP", lossless=True, icc_profile=xyz_profile()),
    "RGB profile, CMYK": pictures.saved(
        Image.fromarray(all_hues()).convert("CMYK"), "JPEG", quality=97, icc_profile=pictures.narrow_profile()
    ),
}


def lab_as_shown(data: bytes) -> pyvips.Image:
    """The colours of a picture whose profile is ignored if it is of another colour space."""
    image = pyvips.Image.new_from_buffer(data, "").copy_memory()
    space = {"cmyk": b"CMYK", "b-w": b"GRAY"}.get(image.interpretation, b"RGB ")
    if image.get_typeof("icc-profile-data") and image.get("icc-profile-data")[16:20] != space:
        image = image.copy()
        image.remove("icc-profile-data")
    return lab(bytes(image.tiffsave_buffer()))


@pytest.mark.parametrize("operation", ["optimize", "webp", "avif"])
@pytest.mark.parametrize("name", [*SOURCES, *MISMATCHED_PROFILES])
def test_colours_are_preserved_and_profiles_of_another_colour_space_ignored(
    tmp_path: Path, name: str, operation: str
) -> None:
    show, source = (lab, SOURCES[name]) if name in SOURCES else (lab_as_shown, MISMATCHED_PROFILES[name])
    error = show(source).dE00(show(result_of(tmp_path, source, operation))).numpy().ravel()
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


@pytest.mark.parametrize("operation", ["optimize", "webp", "avif", "sample"])
@pytest.mark.parametrize("source", ["Adobe marker", "no Adobe marker", "unreadable profile"])
def test_a_cmyk_jpeg_without_a_usable_profile_has_the_colours_of_browsers(
    tmp_path: Path, source: str, operation: str
) -> None:
    profile = {"icc_profile": press_profile(4096)} if source == "unreadable profile" else {}
    data = pictures.saved(Image.fromarray(all_hues()).convert("CMYK"), "JPEG", quality=97, **profile)
    data = without_adobe_marker(data) if source == "no Adobe marker" else data
    expected = browsers_rgb(pyvips.Image.jpegload_buffer(data)).numpy()
    path = pictures.write(tmp_path, data)
    if operation == "sample":
        pixels = thumbnail(path, probe(path, MAX_PIXELS), 4096, never_stop)
        shown = np.frombuffer(pixels.rgb, np.uint8).reshape(expected.shape)
        assert np.array_equal(shown, expected)
    else:
        shown = np.asarray(pictures.opened(result_of(tmp_path, data, operation)).convert("RGB"))
        assert np.abs(shown.astype(int) - expected).mean() < 2


def test_a_cmyk_jpeg_with_a_profile_has_the_colours_of_its_profile(tmp_path: Path) -> None:
    cmyk = Image.fromarray(all_hues()).convert("CMYK")
    data = pictures.saved(cmyk, "JPEG", quality=97, icc_profile=press_profile())
    through_profile, without = (lab(each) for each in (data, pictures.saved(cmyk, "JPEG", quality=97)))
    result = lab(result_of(tmp_path, data, "webp"))
    assert through_profile.dE00(result).avg() < MEDIAN
    assert through_profile.dE00(without).avg() > 4
