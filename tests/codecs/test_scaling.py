"""Results that are scaled down: their size, their sharpness, and what of the original they preserve."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image

from imgproc_local.codecs.container import png as png_container
from imgproc_local.codecs.container import webp as webp_container
from imgproc_local.codecs.files import working_copy
from imgproc_local.codecs.picture.decode import open_upright, to_srgb
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.codecs.picture.source import ResultOptions, open_source
from imgproc_local.codecs.quality.score import WHOLE, Sample
from imgproc_local.domain.errors import StageFailed
from imgproc_local.domain.image import Format, ImageInfo
from tests.codecs import pictures
from tests.codecs.operations import read_blocks
from tests.codecs.pictures import never_stop
from tests.support.reading import convert_file, encode_file, picture, probe

SIDE_PX = 120
DELAYS_MS = [100, 200, 50, 1000]


def sixteen_bit_png() -> bytes:
    image = pyvips.Image.new_from_array(pictures.photo(), interpretation="srgb")
    return bytes((image * 257).cast("ushort").copy(interpretation="rgb16").pngsave_buffer(bitdepth=16))


def cut_out() -> np.ndarray:
    """Red inside a soft-edged circle; the transparent pixels around it are green, which must never be seen."""
    y, x = np.mgrid[0:240, 0:320]
    alpha = np.clip(100 - np.hypot(x - 160, y - 120), 0, 1) * 255
    picture = np.zeros((240, 320, 4), np.uint8)
    picture[..., 0], picture[..., 1], picture[..., 3] = 255 * (alpha > 0), 255 * (alpha == 0), alpha
    return picture


def cmyk_with_profile() -> bytes:
    image = pyvips.Image.new_from_array(pictures.photo(), interpretation="srgb")
    return bytes(image.icc_export(output_profile="cmyk", depth=8).jpegsave_buffer(Q=95))


ORIGINALS: dict[str, Callable[[], bytes]] = {
    "JPEG": lambda: pictures.jpeg_with_metadata(pictures.photo()),
    "rotated JPEG": lambda: pictures.jpeg_with_metadata(pictures.photo(), orientation=6),
    "grey JPEG": lambda: pictures.saved(pictures.photo()[..., 0], "JPEG", quality=95),
    "CMYK JPEG": lambda: pictures.saved(Image.fromarray(pictures.photo()).convert("CMYK"), "JPEG", quality=95),
    "PNG": lambda: pictures.png_with_metadata(pictures.photo()),
    "PNG with a palette": lambda: pictures.saved(Image.fromarray(pictures.graphic()).quantize(16), "PNG"),
    "PNG with alpha": lambda: pictures.saved(cut_out(), "PNG"),
    "PNG of 16 bits": sixteen_bit_png,
    "animated PNG": lambda: pictures.animated("PNG", DELAYS_MS, loop=3),
    "WebP": lambda: pictures.webp_with_metadata(pictures.photo(), orientation=8),
    "lossless WebP": lambda: pictures.webp_with_metadata(pictures.graphic(), lossless=True),
    "animated WebP": lambda: pictures.animated("WEBP", DELAYS_MS, loop=3, quality=90),
    "GIF": lambda: pictures.saved(pictures.graphic(), "GIF"),
    "animated GIF": lambda: pictures.gif_with_metadata(DELAYS_MS, loop=3),
    "AVIF": lambda: pictures.avif_with_metadata(pictures.photo()),
}


def scaled_result(folder: Path, data: bytes, side_px: int = SIDE_PX, **options: float) -> tuple[ImageInfo, bytes]:
    """The properties of an original, and its optimized file with sides of at most `side_px`."""
    path = pictures.write(folder, data)
    info = probe(path, 10**9)
    size = info.scaled_within(side_px, side_px)
    assert size is not None
    encoded, encoded_format = encode_file(path, info, never_stop, ResultOptions(effort="fast", **options), size)
    assert encoded_format is info.format
    return info, encoded


@pytest.mark.parametrize("name", ORIGINALS)
def test_a_scaled_result_has_the_size_format_frames_and_metadata(tmp_path: Path, name: str) -> None:
    side_px = 60 if "animated" in name else SIDE_PX
    original = ORIGINALS[name]()
    info, out = scaled_result(tmp_path, original, side_px)
    result = probe(pictures.write(tmp_path, out, "result"), 10**9)
    width_px, height_px = info.display_size_px
    assert result.format is info.format
    assert max(result.display_size_px) == side_px
    assert result.display_size_px == (
        round(side_px * min(1, width_px / height_px)),
        round(side_px * min(1, height_px / width_px)),
    )
    assert result.frames == info.frames
    timing = FORMATS[info.format].read_timing
    if info.frames > 1 and timing is not None:
        assert timing(out) == timing(original)
    blocks = read_blocks(original, info.format)
    assert not [secret for secret in pictures.SECRETS.values() if secret in out]
    if blocks.xmp is not None:
        assert pictures.ALT_TEXT["de"].encode() in (read_blocks(out, info.format).xmp or b"")


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("rotated JPEG", Format.WEBP),
        ("PNG of 16 bits", Format.AVIF),
        ("animated GIF", Format.WEBP),
        ("animated PNG", Format.AVIF),
    ],
)
def test_a_conversion_is_scaled(tmp_path: Path, name: str, target: Format) -> None:
    path = pictures.write(tmp_path, ORIGINALS[name]())
    info = probe(path, 10**9)
    size = info.scaled_within(64, 48)
    assert size is not None
    out = convert_file(path, info, target, never_stop, ResultOptions(effort="fast"), size)
    result = probe(pictures.write(tmp_path, out, "result"), 10**9)
    assert (result.format, result.display_size_px, result.frames) == (
        target,
        (size.width_px, size.height_px),
        info.frames,
    )
    assert (size.width_px, size.height_px) == (
        (36, 48) if name == "rotated JPEG" else (64, 48) if info.frames == 1 else (64, 43)
    )


@pytest.mark.parametrize("side_px", [200, 97])
@pytest.mark.parametrize("name", [*(name for name in ORIGINALS if "animated" not in name), "CMYK JPEG with a profile"])
def test_every_format_is_scaled_as_by_libvips_thumbnail(tmp_path: Path, name: str, side_px: int) -> None:
    """Before a lossy encoder changes it. CMYK is converted first: `thumbnail` would convert it by another profile."""
    data = ORIGINALS[name]() if name in ORIGINALS else cmyk_with_profile()
    path = pictures.write(tmp_path, data)
    info = probe(path, 10**9)
    size = info.scaled_within(side_px, side_px)
    assert size is not None
    decoded = to_srgb(open_upright(path, info)).copy_memory()
    expected = decoded.thumbnail_image(size.width_px, height=size.height_px, size="force")
    with (
        open_source(path, picture(path), never_stop, ResultOptions()) as source,
        working_copy(source, size) as copy,
    ):
        ours = to_srgb(open_upright(copy.path, copy.info)).copy_memory()
    assert (ours.width, ours.height) == (expected.width, expected.height)
    assert Sample(expected.copy_memory(), WHOLE).score(ours) >= 90


def test_colours_of_transparent_pixels_do_not_spread(tmp_path: Path) -> None:
    _, out = scaled_result(tmp_path, ORIGINALS["PNG with alpha"]())
    shown = np.asarray(Image.open(io.BytesIO(out)).convert("RGBA"))
    visible = shown[shown[..., 3] > 32]
    assert len(visible) > 1000
    assert visible[:, 1].max() < 32


def test_depth_and_losslessness_are_preserved(tmp_path: Path) -> None:
    _, out = scaled_result(tmp_path, ORIGINALS["PNG of 16 bits"]())
    assert probe(pictures.write(tmp_path, out), 10**9).bits_per_sample == 16
    _, out = scaled_result(tmp_path, ORIGINALS["lossless WebP"]())
    assert webp_container.is_lossless(out)


def test_colours_defined_by_chunks_are_preserved(tmp_path: Path) -> None:
    gamma = pictures.chunk(b"gAMA", (100_000).to_bytes(4, "big"))
    _, out = scaled_result(tmp_path, pictures.with_png_chunks(pictures.saved(pictures.photo(), "PNG"), gamma))
    assert gamma in out
    assert png_container.has_own_colours(out)


def test_a_profile_is_preserved(tmp_path: Path) -> None:
    profile = pictures.wide_profile()
    data = pictures.saved(pictures.photo(), "JPEG", quality=95, icc_profile=profile)
    _, out = scaled_result(tmp_path, data)
    assert read_blocks(out, Format.JPEG).icc == profile


@pytest.mark.parametrize(
    ("size", "limits", "expected"),
    [
        ((400, 300), (100, None), (100, 75)),
        ((400, 300), (None, 100), (133, 100)),
        ((400, 300), (200, 30), (40, 30)),
        ((400, 300), (400, 300), None),
        ((400, 300), (4000, None), None),
        ((400, 300), (None, None), None),
        ((3000, 1), (10, 10), (10, 1)),
        ((300, 400), (1, 1), (1, 1)),
    ],
)
def test_the_size_fits_inside_both_limits_and_is_never_larger(
    size: tuple[int, int], limits: tuple[int | None, int | None], expected: tuple[int, int] | None
) -> None:
    for info in (ImageInfo(Format.JPEG, *size), ImageInfo(Format.JPEG, size[1], size[0], orientation=6)):
        scaled_size = info.scaled_within(*limits)
        assert (scaled_size and (scaled_size.width_px, scaled_size.height_px)) == expected


def test_a_picture_of_one_pixel_remains(tmp_path: Path) -> None:
    for file_format in ("JPEG", "PNG", "WEBP", "AVIF", "GIF"):
        _, out = scaled_result(tmp_path, pictures.saved(pictures.photo(40, 30), file_format), 1)
        assert Image.open(io.BytesIO(out)).size == (1, 1)


def test_an_animated_avif_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="animated"):
        scaled_result(tmp_path, pictures.animated("AVIF", DELAYS_MS), 40)
