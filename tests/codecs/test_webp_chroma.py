"""Pictures are prepared for WebP, which stores chroma at half the resolution."""

from __future__ import annotations

import random

import pytest

from imgproc_local.codecs import _webp_chroma, webp
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.quality import score as sample


def coloured_stripes(width_px: int = 256, height_px: int = 256) -> bytes:
    """RGB rows of saturated stripes three pixels wide, which chroma of half the resolution blurs."""
    colours = ((200, 30, 40), (30, 60, 190), (240, 220, 40), (20, 20, 20))
    row = b"".join(bytes(colours[x // 3 % 4]) for x in range(width_px))
    return row * height_px


@pytest.mark.parametrize("bands", [3, 4])
@pytest.mark.parametrize("colour", [(0, 0, 0), (255, 255, 255), (200, 30, 60), (0, 0, 255), (255, 255, 0)])
def test_flat_colours_are_unchanged(colour: tuple[int, int, int], bands: int) -> None:
    pixels = bytes((*colour, 128)[:bands]) * (17 * 12)
    assert _webp_chroma.adjusted(pixels, 17, 12, bands) == pixels


def test_alpha_and_the_last_row_and_column_of_odd_sizes_are_unchanged() -> None:
    pixels = random.Random(1).randbytes(7 * 5 * 4)
    adjusted = _webp_chroma.adjusted(pixels, 7, 5, 4)
    assert adjusted != pixels
    assert adjusted[3::4] == pixels[3::4]
    assert adjusted[4 * 7 * 4 :] == pixels[4 * 7 * 4 :]
    assert [adjusted[y * 28 + 24 : y * 28 + 28] for y in range(5)] == [
        pixels[y * 28 + 24 : y * 28 + 28] for y in range(5)
    ]


@pytest.mark.parametrize(("width_px", "height_px"), [(1, 1), (1, 9), (9, 1), (2, 2), (3, 2)])
def test_small_pictures_have_the_same_size_afterwards(width_px: int, height_px: int) -> None:
    pixels = random.Random(2).randbytes(width_px * height_px * 3)
    assert len(_webp_chroma.adjusted(pixels, width_px, height_px, 3)) == len(pixels)


@pytest.mark.parametrize(
    ("length", "width_px", "height_px", "bands"),
    [(11, 2, 2, 3), (12, 0, 2, 3), (12, 2, -1, 3), (12, 2, 3, 2), (13, 2, 2, 3), (24, 2, 2, 3)],
)
def test_pixels_that_do_not_match_the_size_and_bands_are_refused(
    length: int, width_px: int, height_px: int, bands: int
) -> None:
    with pytest.raises(ValueError, match="expected"):
        _webp_chroma.adjusted(bytes(length), width_px, height_px, bands)


def test_a_prepared_picture_scores_higher_at_the_same_quality() -> None:
    original = pyvips.Image.new_from_memory(coloured_stripes(), 256, 256, 3, "uchar").copy(interpretation="srgb")
    prepared = webp.with_sharp_chroma(original)
    scores = [
        sample.score(original, pyvips.Image.webpload_buffer(picture.webpsave_buffer(Q=90)).copy_memory())
        for picture in (original, prepared)
    ]
    assert scores[1] > scores[0] + 5


def test_grey_pictures_are_encoded_as_they_are() -> None:
    grey = pyvips.Image.black(16, 16).cast("uchar").copy_memory()
    assert webp.with_sharp_chroma(grey) is grey
