"""Results that are scaled down: their size, their sharpness, and what of the original they preserve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image

from imgproc_local.codecs import files
from imgproc_local.codecs.container import png as png_container
from imgproc_local.codecs.container import webp as webp_container
from imgproc_local.codecs.files import working_copy
from imgproc_local.codecs.picture.decode import open_upright, scaled, to_srgb
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.codecs.picture.source import ResultOptions, Source, open_source
from imgproc_local.codecs.quality.score import WHOLE, Sample
from imgproc_local.domain.errors import StageFailed
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.result import Note
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
    "JPEG with a profile": lambda: pictures.saved(
        pictures.photo(), "JPEG", quality=95, icc_profile=pictures.wide_profile()
    ),
    "grey JPEG": lambda: pictures.saved(pictures.photo()[..., 0], "JPEG", quality=95),
    "CMYK JPEG": lambda: pictures.saved(Image.fromarray(pictures.photo()).convert("CMYK"), "JPEG", quality=95),
    "PNG": lambda: pictures.png_with_metadata(pictures.photo()),
    "PNG with a palette": lambda: pictures.saved(Image.fromarray(pictures.graphic()).quantize(16), "PNG"),
    "PNG with alpha": lambda: pictures.saved(cut_out(), "PNG"),
    "PNG of 16 bits": sixteen_bit_png,
    "PNG with a gamma": lambda: pictures.with_png_chunks(
        pictures.saved(pictures.photo(), "PNG"), pictures.chunk(b"gAMA", (100_000).to_bytes(4, "big"))
    ),
    "animated PNG": lambda: pictures.animated("PNG", DELAYS_MS, loop=3),
    "WebP": lambda: pictures.webp_with_metadata(pictures.photo(), orientation=8),
    "lossless WebP": lambda: pictures.webp_with_metadata(pictures.graphic(), lossless=True),
    "animated WebP": lambda: pictures.animated("WEBP", DELAYS_MS, loop=3, quality=90),
    "GIF": lambda: pictures.saved(pictures.graphic(), "GIF"),
    "animated GIF": lambda: pictures.gif_with_metadata(DELAYS_MS, loop=3),
    "AVIF": lambda: pictures.avif_with_metadata(pictures.photo()),
}


def scaled_result(folder: Path, data: bytes, side_px: int = SIDE_PX) -> tuple[ImageInfo, bytes]:
    """The properties of an original, and its optimized file with sides of at most `side_px`."""
    path = pictures.write(folder, data)
    info = probe(path)
    size = info.scaled_within(side_px, side_px)
    encoded, encoded_format = encode_file(path, info, never_stop, ResultOptions(effort="fast"), size)
    assert encoded_format is info.format
    return info, encoded


@pytest.mark.parametrize("name", ORIGINALS)
def test_a_scaled_result_is_what_the_original_was_but_for_its_size(tmp_path: Path, name: str) -> None:
    """It has the same format, depth, frames, losslessness, profile or chunks of colour, and public metadata."""
    side_px = 60 if "animated" in name else SIDE_PX
    original = ORIGINALS[name]()
    info, out = scaled_result(tmp_path, original, side_px)
    result = probe(pictures.write(tmp_path, out, "result"))
    scale = side_px / max(info.display_size_px)
    assert result.display_size_px == tuple(round(side * scale) for side in info.display_size_px)
    assert (result.format, result.frames) == (info.format, info.frames)
    assert (result.bits_per_sample > 8) is (info.bits_per_sample > 8)
    timing = FORMATS[info.format].read_timing
    if info.frames > 1 and timing is not None:
        assert timing(out) == timing(original)
    if name == "lossless WebP":
        assert webp_container.is_lossless(out)
    if info.format is Format.PNG:
        assert png_container.has_own_colours(out) == png_container.has_own_colours(original)
    before, after = (read_blocks(data, info.format) for data in (original, out))
    assert after.icc == before.icc
    assert not [secret for secret in pictures.SECRETS.values() if secret in out]
    if before.xmp is not None:
        assert pictures.ALT_TEXT["de"].encode() in (after.xmp or b"")


@pytest.mark.parametrize(
    ("name", "target", "expected"),
    [
        ("rotated JPEG", Format.WEBP, (36, 48)),
        ("PNG of 16 bits", Format.AVIF, (64, 48)),
        ("animated GIF", Format.WEBP, (64, 43)),
        ("animated PNG", Format.AVIF, (64, 43)),
    ],
)
def test_a_conversion_is_scaled(tmp_path: Path, name: str, target: Format, expected: tuple[int, int]) -> None:
    path = pictures.write(tmp_path, ORIGINALS[name]())
    info = probe(path)
    out = convert_file(path, info, target, never_stop, ResultOptions(effort="fast"), info.scaled_within(64, 48))
    result = probe(pictures.write(tmp_path, out, "result"))
    assert (result.format, result.display_size_px, result.frames) == (target, expected, info.frames)


@pytest.mark.parametrize("name", [*(name for name in ORIGINALS if "animated" not in name), "CMYK JPEG with a profile"])
def test_every_format_is_scaled_as_by_libvips_thumbnail(tmp_path: Path, name: str) -> None:
    """Before a lossy encoder changes it. CMYK is converted first: `thumbnail` would convert it by another profile."""
    path = pictures.write(tmp_path, ORIGINALS[name]() if name in ORIGINALS else cmyk_with_profile())
    info = probe(path)
    size = info.scaled_within(97, 97)
    assert size is not None
    decoded = to_srgb(open_upright(path, info)).copy_memory()
    expected = decoded.thumbnail_image(size.width_px, height=size.height_px, size="force")
    with (
        open_source(path, picture(path), never_stop, ResultOptions()) as source,
        working_copy(source, size, Format.PNG) as copy,
    ):
        ours = to_srgb(open_upright(copy.path, copy.info)).copy_memory()
    assert (ours.width, ours.height) == (expected.width, expected.height)
    assert Sample(expected.copy_memory(), WHOLE).score(ours) >= 90


def test_colours_of_transparent_pixels_do_not_spread(tmp_path: Path) -> None:
    _, out = scaled_result(tmp_path, ORIGINALS["PNG with alpha"]())
    shown = np.asarray(pictures.opened(out).convert("RGBA"))
    visible = shown[shown[..., 3] > 32]
    assert len(visible) > 1000
    assert visible[:, 1].max() < 32


@pytest.mark.parametrize(
    ("size", "limits", "expected"),
    [
        ((400, 300), (100, None), (100, 75)),
        ((400, 300), (None, 100), (133, 100)),
        ((400, 300), (200, 30), (40, 30)),
        ((400, 300), (400, 300), None),
        ((400, 300), (4000, None), None),
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
        assert pictures.opened(out).size == (1, 1)


def test_an_animated_avif_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="animated"):
        scaled_result(tmp_path, pictures.animated("AVIF", DELAYS_MS), 40)


def test_a_file_has_its_own_notes_and_not_those_of_its_variants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(source: Source) -> bytes:
        if source.info.width_px < 160:
            source.notes.add(Note.GAIN_MAP_DROPPED)
        return f"{source.info.width_px} wide".encode()

    monkeypatch.setitem(files._CONVERTERS, Format.WEBP, convert)
    path = pictures.write(tmp_path, pictures.saved(pictures.scene(160, 120), "PNG"))
    read = picture(path)
    sizes = [size for width in (80, 40) if (size := read.info.scaled_within(width, None))]
    made = files.convert_file(path, read, Format.WEBP, never_stop, variant_sizes=sizes)
    assert (made.data, made.variants, made.notes) == (b"160 wide", (b"80 wide", b"40 wide"), ())


def test_each_of_several_sizes_meets_the_target_by_its_own_score(tmp_path: Path) -> None:
    """Although the search starts at the quality found for the smaller size: that one scores 4 points more here."""
    photo = Image.fromarray(pictures.photo(240, 180)).resize((320, 240), Image.Resampling.BICUBIC)
    path = pictures.write(tmp_path, pictures.saved(photo, "PNG"))
    read = picture(path)
    sizes = [size for width in (300, 200) if (size := read.info.scaled_within(width, None))]
    made = files.convert_file(path, read, Format.AVIF, never_stop, ResultOptions(target=80), sizes[0], sizes[1:])
    for size, data in zip(sizes, (made.data, *made.variants), strict=True):
        result = pictures.write(tmp_path, data, "result")
        expected = scaled(open_upright(path, read.info), size.factor).copy_memory()
        score = Sample(expected, WHOLE).score(to_srgb(open_upright(result, probe(result))).copy_memory())
        assert 78.5 <= score <= 82, size
