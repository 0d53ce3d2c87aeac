"""The search for the lowest quality that looks as asked."""

from __future__ import annotations

import numpy as np
import pytest
import pyvips

from imgproc_local.codecs.quality import sample as search
from imgproc_local.codecs.quality.sample import MAX_PROBES, TILE_PX, TILES, Sample, lowest_quality, score
from tests.codecs import pictures


@pytest.mark.parametrize("steepness", [0.2, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("needed", [30, 31, 47, 82, 96, 97])
def test_the_number_found_reaches_the_target_closely_in_few_probes(needed: int, steepness: float) -> None:
    asked: list[int] = []

    def scored(quality: int) -> float:
        asked.append(quality)
        return 85 + steepness * (quality - needed)

    found = lowest_quality(scored, 85.0, lowest=30, highest=97, start=82)
    assert found is not None
    assert found >= needed
    assert steepness * (found - needed) <= max(0.35, steepness * 2)
    assert len(asked) <= MAX_PROBES
    assert len(set(asked)) == len(asked)


def test_a_target_out_of_reach_is_told() -> None:
    assert lowest_quality(lambda _: 60.0, 85.0, lowest=30, highest=97, start=82) is None


def test_a_target_that_the_lowest_number_reaches_is_found() -> None:
    assert lowest_quality(lambda _: 99.0, 85.0, lowest=30, highest=97, start=82) == 30


def test_a_large_picture_is_stood_for_by_calm_and_busy_tiles() -> None:
    calm = np.full((1200, 1600, 3), 128, np.uint8)
    calm[:, 800:] = pictures.scene(800, 1200)
    image = pyvips.Image.new_from_array(calm)
    tiles = Sample(image).image
    assert tiles.width * tiles.height == TILES * TILE_PX * TILE_PX
    flat = np.asarray([tile.std() < 1 for tile in np.split(tiles.numpy().reshape(-1, TILE_PX, tiles.width, 3), 3)])
    assert not flat.all()
    assert (tiles.numpy() == 128).all(axis=2).mean() > 0.3


def test_a_small_picture_is_searched_whole() -> None:
    image = pyvips.Image.new_from_array(pictures.scene(500, 400))
    assert Sample(image).image is image


def test_a_picture_scored_in_bands_scores_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for alpha in (False, True):
        pixels = pictures.graphic(500, 1400, alpha=True) if alpha else pictures.scene(500, 1400)
        picture = pyvips.Image.new_from_array(pixels, interpretation="srgb")
        worse = pyvips.Image.webpload_buffer(picture.webpsave_buffer(Q=70))
        whole = score(picture, worse)
        assert 30 < whole < 95
        monkeypatch.setattr(search, "BAND_PIXELS", 150_000)
        assert score(picture, worse) == pytest.approx(whole, abs=0.1)
        monkeypatch.undo()


def test_the_same_tiles_are_taken_from_another_picture_of_the_size() -> None:
    image = pyvips.Image.new_from_array(pictures.scene(1600, 1200))
    sample = Sample(image)
    assert (sample.part_of(image) - sample.image).abs().max() == 0
    assert (sample.part_of(255 - image) - (255 - sample.image)).abs().max() == 0
