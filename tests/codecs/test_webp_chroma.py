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


def test_flat_colours_alpha_and_the_last_row_and_column_of_odd_sizes_are_unchanged() -> None:
    for colour in ((0, 0, 0), (255, 255, 255), (200, 30, 60), (0, 0, 255)):
        for bands in (3, 4):
            pixels = bytes((*colour, 128)[:bands]) * (17 * 12)
            assert _webp_chroma.adjusted(pixels, 17, 12, bands) == pixels
    for width_px, height_px in ((7, 5), (1, 9), (9, 1), (1, 1)):
        pixels = random.Random(1).randbytes(width_px * height_px * 4)
        adjusted = _webp_chroma.adjusted(pixels, width_px, height_px, 4)
        assert (adjusted != pixels) is (min(width_px, height_px) > 1)
        assert adjusted[3::4] == pixels[3::4]
        rows = [
            each[at : at + 4 * width_px] for each in (adjusted, pixels) for at in range(0, len(pixels), 4 * width_px)
        ]
        assert [row[-4:] for row in rows[:height_px]] == [row[-4:] for row in rows[height_px:]]
        assert rows[height_px - 1] == rows[-1]


@pytest.mark.parametrize(
    ("length", "width_px", "height_px", "bands"), [(11, 2, 2, 3), (12, 0, 2, 3), (12, 2, -1, 3), (12, 2, 3, 2)]
)
def test_pixels_that_do_not_match_the_size_and_bands_are_refused(
    length: int, width_px: int, height_px: int, bands: int
) -> None:
    with pytest.raises(ValueError, match="expected"):
        _webp_chroma.adjusted(bytes(length), width_px, height_px, bands)


def test_a_prepared_picture_scores_higher_at_the_same_quality_and_grey_is_not_prepared() -> None:
    original = pyvips.Image.new_from_memory(coloured_stripes(), 256, 256, 3, "uchar").copy(interpretation="srgb")
    prepared = webp._with_sharp_chroma(original)
    scores = [
        sample.score(original, pyvips.Image.webpload_buffer(picture.webpsave_buffer(Q=90)).copy_memory())
        for picture in (original, prepared)
    ]
    assert scores[1] > scores[0] + 5
    grey = pyvips.Image.black(16, 16).cast("uchar").copy_memory()
    assert webp._with_sharp_chroma(grey) is grey
