"""Posterisation: detailed areas are rounded as far as the target allows; smooth areas and photographs are not."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import pyvips

from imgproc_local.codecs import png
from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import png as container
from imgproc_local.codecs.png import palette
from imgproc_local.codecs.quality import score as search
from imgproc_local.codecs.quality.score import TARGET_SCORE
from tests.codecs import pictures
from tests.codecs.operations import optimized
from tests.codecs.pictures import never_stop


def poster(width: int = 480, height: int = 360, *, alpha: bool = False) -> np.ndarray:
    """A colourful photograph with a flat margin on the left and a gradient on the right.

    It needs more than 256 colours.
    """
    y, x = np.mgrid[0:height, 0:width]
    random = np.random.default_rng(4)
    hue = np.stack([x / width, y / height, (x + y) / (width + height)], axis=-1)
    picture = 128 + 110 * np.sin(12 * hue + np.sin(9 * hue[..., ::-1])) + random.normal(0, 5, hue.shape)
    picture[:, : width // 4] = (250, 251, 252)
    picture[:, 3 * width // 4 :] = np.stack([40 + y // 4, 60 + y // 4, 90 + y // 4], axis=-1)[:, 3 * width // 4 :]
    picture = np.clip(picture, 0, 255)
    if alpha:
        picture = np.concatenate([picture, np.clip(x * 4, 0, 255)[..., None]], axis=-1)
    return picture.astype(np.uint8)


def image_of(picture: np.ndarray) -> pyvips.Image:
    return pyvips.Image.new_from_array(picture, interpretation="srgb")


def stored(out: bytes | None) -> np.ndarray:
    assert out is not None
    return np.asarray(pictures.opened(out)).astype(int)


@pytest.mark.parametrize("alpha", [False, True])
def test_detailed_areas_are_rounded_and_the_target_is_met(tmp_path: Path, alpha: bool) -> None:
    picture = poster(alpha=alpha)
    source = pictures.saved(picture, "PNG")
    out = optimized(tmp_path, source)
    assert out is not None
    assert pictures.opened(out).mode == ("RGBA" if alpha else "RGB")
    assert len(out) < 0.8 * len(source)
    error = np.abs(stored(out) - picture.astype(int))
    if alpha:
        error[picture[..., 3] == 0, :3] = 0
    assert 1 <= error.max() <= max(palette._STEPS) // 2
    assert search.score(image_of(picture), pyvips.Image.pngload_buffer(out)) >= TARGET_SCORE
    if alpha:
        assert error[..., 3].max() == 0


def test_flat_areas_and_gradients_are_preserved(tmp_path: Path) -> None:
    picture = poster()
    out = stored(optimized(tmp_path, pictures.saved(picture, "PNG")))
    for part in (np.s_[2:-2, :118], np.s_[2:-2, 362:]):
        assert np.array_equal(out[part], picture[part])


def test_a_large_picture_meets_the_target_although_its_tiles_mislead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(palette, "_LARGE_SAMPLE_TILES", 4)
    monkeypatch.setattr(search, "BAND_PIXELS", 100_000)
    monkeypatch.setattr(search.Sample, "score", lambda *_: 100.0)  # tiles that mislead
    image = image_of(poster(1000, 900))
    rounded = palette.posterized(image, None, 90.0, never_stop)
    assert rounded is not None
    assert search.score(image, rounded) >= 90


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 7), (2, 2), (5, 3)])
def test_tiny_pictures_can_be_posterized(size: tuple[int, int]) -> None:
    rounded = palette.posterized(image_of(poster(*size)), None, 0.0, never_stop)
    assert rounded is None or (rounded.width, rounded.height) == size


def test_a_posterized_picture_is_recognized_without_its_metadata(tmp_path: Path) -> None:
    source = pictures.with_png_chunks(
        pictures.saved(poster(), "PNG", exif=pictures.tiff()), pictures.chunk(b"pHYs", struct.pack(">IIB", 9, 9, 1))
    )
    once = optimized(tmp_path, source)
    assert once is not None
    assert png.is_marked(once)
    assert not png.is_marked(source)
    assert optimized(tmp_path, once) is None
    assert optimized(tmp_path, container.with_blocks(once, Blocks())) is None
    bare = [data for data in container.chunks(once) if data.kind in (b"IHDR", b"IDAT", b"IEND")]
    packed = container.SIGNATURE + b"".join(once[each.payload - 8 : each.end + 4] for each in bare)
    assert optimized(tmp_path, packed) is None
    data = b"".join(once[each.payload : each.end] for each in bare if each.kind == b"IDAT")
    assert len(zlib.decompress(data)) == 360 * (480 * 3 + 1), "other decoders read no more than this"
    assert np.array_equal(pyvips.Image.pngload_buffer(once).numpy(), stored(once))
