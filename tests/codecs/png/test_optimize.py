"""Optimized PNG files have a palette if that meets the target; otherwise every sample is preserved."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image

from imgproc_local.codecs.container import png as container
from imgproc_local.codecs.picture.decode import to_srgb
from imgproc_local.codecs.quality import score as search
from imgproc_local.codecs.quality.score import TARGET_SCORE, Reference
from tests.codecs import pictures
from tests.codecs.operations import frames_of, optimized, whole
from tests.support.reading import probe


def textured(width: int = 480, height: int = 300) -> np.ndarray:
    """Far more than 256 colours, but a palette is close enough to all of them."""
    shade = np.random.default_rng(2).normal(0, 4, (height, width, 1)) + np.zeros(3)
    shade[..., 2] *= 0.7
    return np.clip(pictures.graphic(width, height) + shade, 0, 255).astype(np.uint8)


def score(picture: Image.Image, other: Image.Image) -> float:
    pixels = [each.convert("RGBA").tobytes() for each in (picture, other)]
    return Reference(pixels[0], *picture.size, 4).score(pixels[1])


def stored(data: bytes) -> list[bytes]:
    return [data[each.payload : each.end] for each in container.chunks(data) if each.kind in (b"IHDR", b"IDAT")]


def poorly_compressed(picture: np.ndarray | Image.Image, **options: object) -> bytes:
    """A poorly compressed PNG, as many programs write."""
    return pictures.saved(picture, "PNG", compress_level=1, **options)


@pytest.mark.parametrize("alpha", [False, True])
def test_a_graphic_gets_a_palette_that_meets_the_target(tmp_path: Path, alpha: bool) -> None:
    picture = pictures.graphic(640, 480, alpha=alpha)
    source = poorly_compressed(picture)
    out = whole(optimized(tmp_path, source))
    assert pictures.opened(out).mode == "P"
    assert len(out) < 0.5 * len(source)
    assert score(Image.fromarray(picture), pictures.opened(out)) >= TARGET_SCORE
    assert probe(pictures.write(tmp_path, out)).has_alpha is alpha


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_a_png_of_every_mode_meets_the_target(tmp_path: Path, mode: str) -> None:
    picture = Image.fromarray(pictures.graphic(200, 150, alpha=mode in ("LA", "RGBA"))).convert(mode)
    out = optimized(tmp_path, poorly_compressed(picture))
    shown = pictures.opened(out) if out else picture
    assert score(picture, shown) >= TARGET_SCORE
    if mode in ("1", "P"):
        assert np.array_equal(np.asarray(shown.convert("RGB")), np.asarray(picture.convert("RGB")))


def test_a_lower_target_gives_a_smaller_file(tmp_path: Path) -> None:
    picture = textured()
    source, sizes = poorly_compressed(picture), []
    for target in (95.0, 85.0, 70.0):
        out = whole(optimized(tmp_path, source, target))
        assert score(Image.fromarray(picture), pictures.opened(out)) >= target
        sizes.append(len(out))
    assert sizes[0] > sizes[1] > sizes[2]


def test_the_colours_of_large_areas_are_preserved_exactly(tmp_path: Path) -> None:
    picture = textured()
    for place, grey in enumerate((255, 252, 249, 128, 125, 0, 3)):
        picture[100:, 60 * place : 60 * place + 60] = grey
    out = pictures.opened(whole(optimized(tmp_path, poorly_compressed(picture))))
    assert out.mode == "P"
    assert np.array_equal(np.asarray(out.convert("RGB"))[100:, :420], picture[100:, :420])


@pytest.mark.parametrize("alpha", [False, True])
def test_the_flat_colours_of_a_logo_are_preserved_exactly(tmp_path: Path, alpha: bool) -> None:
    """Also that of a dot of 300 pixels, which hardly counts in the score."""
    y, x = np.mgrid[0:400, 0:600]
    brand = [(20, 60, 120), (0, 150, 94), (220, 30, 60), (110, 60, 140), (232, 119, 34), (255, 173, 3), (240, 130, 40)]
    discs = [(150 * number + 90, 120, 60) for number in range(4)] + [(200, 300, 40), (320, 300, 10), (400, 300, 10)]
    picture = np.zeros((400, 600, 4)) if alpha else np.full((400, 600, 4), 255.0)
    for colour, (left, top, radius) in zip(brand, discs, strict=True):
        cover = np.clip(radius - np.hypot(x - left, y - top), 0, 1)[..., None]
        colours = picture[..., :3] * (1 - cover) + np.array(colour) * cover
        picture[..., :3] = np.where(cover > 0, colour, picture[..., :3]) if alpha else colours
        picture[..., 3:] = np.maximum(picture[..., 3:], 255 * cover)
    source = picture.astype(np.uint8)[..., : 4 if alpha else 3]
    out = pictures.opened(whole(optimized(tmp_path, poorly_compressed(source))))
    assert out.mode == "P"
    shown = np.asarray(out.convert("RGBA"))
    assert [tuple(shown[top, left].tolist()) for left, top, _ in discs] == [(*colour, 255) for colour in brand]


def test_redundant_bits_alpha_and_colour_are_removed(tmp_path: Path) -> None:
    scene = pictures.scene(200, 150)
    grey = scene[..., :1]
    for plain, redundant in (
        (scene, np.dstack([scene, np.full_like(grey, 255)])),
        (grey[..., 0], np.repeat(grey, 3, axis=2)),
        (scene, scene.astype(np.uint16) * 257),
    ):
        interpretation = "rgb16" if redundant.dtype == np.uint16 else "srgb"
        source = pyvips.Image.new_from_array(redundant, interpretation=interpretation).pngsave_buffer()
        out, expected = (whole(optimized(tmp_path, data, 100.0)) for data in (source, poorly_compressed(plain)))
        assert np.array_equal(np.asarray(pictures.opened(out)), plain)
        assert stored(out) == stored(expected)


def test_a_picture_of_few_colours_is_indexed_losslessly_at_any_target(tmp_path: Path) -> None:
    picture = pictures.graphic(300, 200) & 0xE0
    out = pictures.opened(whole(optimized(tmp_path, poorly_compressed(picture), 100.0)))
    assert out.mode == "P"
    assert np.array_equal(np.asarray(out.convert("RGB")), picture)


def test_colours_are_scored_through_a_wide_gamut_profile_when_they_are_reduced(tmp_path: Path) -> None:
    picture = textured()
    source = poorly_compressed(picture, icc_profile=pictures.wide_profile())
    out = pictures.opened(whole(optimized(tmp_path, source)))
    assert out.mode == "P"
    assert out.info["icc_profile"] == pictures.wide_profile()
    pair = [pyvips.Image.new_from_buffer(each, "") for each in (source, pictures.saved(out, "PNG"))]
    pair[1].set_type(pyvips.GValue.blob_type, "icc-profile-data", pictures.wide_profile())
    shown = [to_srgb(each) for each in pair]
    assert search.score(*shown) >= TARGET_SCORE


def test_the_pixel_density_is_preserved_and_rotated_with_the_picture(tmp_path: Path) -> None:
    density = pictures.chunk(b"pHYs", struct.pack(">IIB", 1000, 2000, 1))
    for picture in (pictures.scene(), textured()):
        for orientation, expected in ((1, (1000, 2000)), (6, (2000, 1000))):
            source = pictures.with_png_chunks(poorly_compressed(picture, exif=pictures.tiff(orientation)), density)
            out = whole(optimized(tmp_path, source))
            assert struct.unpack(">II", out[out.index(b"pHYs") + 4 :][:8]) == expected


def test_the_palette_of_an_indexed_file_is_preserved(tmp_path: Path) -> None:
    indexed = Image.fromarray(pictures.graphic(400, 300)).quantize(64)
    out = whole(optimized(tmp_path, poorly_compressed(indexed)))
    assert pictures.opened(out).mode == "P"
    assert pictures.opened(out).getpalette() == pictures.opened(poorly_compressed(indexed)).getpalette()


@pytest.mark.parametrize(
    "chunks",
    [
        (),
        (pictures.chunk(b"gAMA", struct.pack(">I", 100000)),),
        (pictures.chunk(b"iCCP", b"icc\0\0" + zlib.compress(b"\0" * 60_000_000, 9)),),
    ],
    ids=["photograph", "colours by a chunk", "profile that is a decompression bomb"],
)
def test_every_sample_is_preserved(tmp_path: Path, chunks: tuple[bytes, ...]) -> None:
    scene = pictures.scene()
    out = whole(optimized(tmp_path, pictures.with_png_chunks(poorly_compressed(scene), *chunks)))
    assert np.array_equal(np.asarray(pictures.opened(out)), scene)
    assert container.has_chunk(out, b"gAMA") is any(b"gAMA" in chunk for chunk in chunks)


def test_the_frames_of_an_apng_are_preserved(tmp_path: Path) -> None:
    source = pictures.animated("PNG", [100, 250, 300, 50], loop=3, compress_level=1)
    source = pictures.with_png_chunks(source, pictures.chunk(b"tEXt", b"Comment\0COMMENT-PRIVATE"))
    out = whole(optimized(tmp_path, source))
    assert b"COMMENT-PRIVATE" not in out
    assert container.read_timing(out) == ([100, 250, 300, 50], 3)
    assert np.array_equal(frames_of(source), frames_of(out))
