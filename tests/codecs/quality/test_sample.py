"""A sample of tiles represents its picture."""

from __future__ import annotations

import numpy as np
import pytest
import pyvips

from imgproc_local.codecs.quality import score as sample
from imgproc_local.codecs.quality.score import TILE_PX, TILES, Sample, score
from tests.codecs import pictures


def test_the_sample_of_a_large_picture_has_flat_and_detailed_tiles() -> None:
    calm = np.full((1200, 1600, 3), 128, np.uint8)
    calm[:, 800:] = pictures.scene(800, 1200)
    image = pyvips.Image.new_from_array(calm)
    tiles = Sample(image).image
    assert tiles.width * tiles.height == TILES * TILE_PX * TILE_PX
    flat = np.asarray([tile.std() < 1 for tile in np.split(tiles.numpy().reshape(-1, TILE_PX, tiles.width, 3), 3)])
    assert not flat.all()
    assert (tiles.numpy() == 128).all(axis=2).mean() > 0.3


def test_the_score_in_bands_is_the_score_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for alpha in (False, True):
        pixels = pictures.graphic(500, 1400, alpha=True) if alpha else pictures.scene(500, 1400)
        picture = pyvips.Image.new_from_array(pixels, interpretation="srgb")
        worse = pyvips.Image.webpload_buffer(picture.webpsave_buffer(Q=70))
        whole = score(picture, worse)
        assert 30 < whole < 95
        monkeypatch.setattr(sample, "BAND_PIXELS", 150_000)
        assert score(picture, worse) == pytest.approx(whole, abs=0.1)
        monkeypatch.undo()


@pytest.mark.parametrize("count", [4, 6, 9])
def test_tiles_lie_in_several_rows_so_that_every_scale_of_the_metric_is_used(count: int) -> None:
    image = pyvips.Image.new_from_array(pictures.scene(1600, 1200))
    tiles = Sample(image, count).image
    assert tiles.width * tiles.height == count * TILE_PX * TILE_PX
    assert min(tiles.width, tiles.height) >= 2 * TILE_PX
