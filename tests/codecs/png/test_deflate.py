"""PNG encoding is lossless, and encoding a result again gives the same bytes."""

from __future__ import annotations

import io

import numpy as np
import pytest
import pyvips
from PIL import Image

from imgproc_local.codecs import png
from imgproc_local.codecs.png.palette import Indexed, read_indexed
from tests.codecs.pictures import never_stop


def indexed(width: int, height: int, colours: int) -> Indexed:
    """Waves of colour, with the colours in random order in the palette."""
    random = np.random.default_rng(colours)
    y, x = np.mgrid[0:height, 0:width]
    shade = (np.sin(x / 9) * 3 + y / 3 + random.normal(0, 0.7, x.shape)).astype(int) % colours
    numbers = random.permutation(256)[:colours]
    palette = [bytes(random.integers(0, 256, 4).astype(np.uint8)) for _ in range(256)]
    for step, number in enumerate(numbers):
        palette[number] = bytes([step * 255 // max(1, colours - 1), 7, 9, 255 if step % 3 else step * 5 % 256])
    return Indexed(width, height, bytes(numbers[shade].astype(np.uint8)), tuple(palette))


def shown(picture: Indexed) -> bytes:
    return b"".join(picture.colours[index] if picture.colours[index][3] else bytes(4) for index in picture.indices)


@pytest.mark.parametrize("colours", [1, 2, 3, 4, 5, 16, 17, 200, 256])
@pytest.mark.parametrize("width", [1, 7, 64])
def test_an_indexed_picture_has_the_same_pixels_and_encoding_it_again_gives_the_same_bytes(
    colours: int, width: int
) -> None:
    picture = indexed(width, 40, colours)
    packed = png.indexed_layout(picture, never_stop).packed()
    with Image.open(io.BytesIO(packed)) as opened:
        assert opened.convert("RGBA").tobytes() == shown(picture)
    assert pyvips.Image.pngload_buffer(packed).width == width
    again = read_indexed(packed)
    assert png.indexed_layout(again, never_stop).packed() == packed


@pytest.mark.parametrize("shape", [(40, 30), (40, 30, 2), (40, 30, 3), (40, 30, 4)])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_every_sample_is_preserved(shape: tuple[int, ...], kind: type) -> None:
    samples = np.random.default_rng(5).integers(0, np.iinfo(kind).max, shape).astype(kind)
    bands = shape[2] if len(shape) > 2 else 1
    name = ("b-w" if bands < 3 else "srgb") if kind is np.uint8 else ("grey16" if bands < 3 else "rgb16")
    packed = png.layout(pyvips.Image.new_from_array(samples, interpretation=name), never_stop).packed()
    assert np.array_equal(pyvips.Image.pngload_buffer(packed).numpy(), samples)
