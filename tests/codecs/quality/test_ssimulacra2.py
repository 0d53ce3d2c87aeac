"""SSIMULACRA 2.1: scores agree with another implementation, and any size is handled."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from imgproc_local.codecs.quality import score as quality
from tests.codecs import pictures


def reference(picture: np.ndarray) -> quality.Reference:
    height, width, bands = picture.shape
    return quality.Reference(picture.tobytes(), width, height, bands)


def score(first: np.ndarray, second: np.ndarray) -> float:
    return reference(first).score(second.tobytes())


def as_jpeg(picture: np.ndarray, q: int) -> np.ndarray:
    return np.asarray(pictures.opened(pictures.saved(picture, "JPEG", quality=q)).convert("RGB"))


def noisy(picture: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(2).integers(-9, 10, picture.shape)
    return np.clip(picture.astype(int) + noise, 0, 255).astype(np.uint8)


def test_the_same_picture_scores_100_and_a_jpeg_of_higher_quality_more_than_one_of_lower() -> None:
    picture = pictures.scene(640, 480)
    scores = [score(picture, as_jpeg(picture, q)) for q in (5, 20, 40, 60, 80, 90, 97)]
    assert scores == sorted(scores)
    assert scores[0] < 30
    assert scores[-1] > 70
    for same in (picture, pictures.graphic(alpha=True), np.zeros((20, 30, 3), np.uint8)):
        assert score(same, same) == 100


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 9), (7, 3), (300, 5), (16385, 1)])
def test_sides_below_8_pixels_are_padded_by_repeating_the_edge(width: int, height: int) -> None:
    picture = np.random.default_rng(1).integers(60, 200, (height, width, 3), np.uint8)
    padding = ((0, max(0, 8 - height)), (0, max(0, 8 - width)), (0, 0))
    padded = [np.pad(each, padding, "edge") for each in (picture, noisy(picture))]
    assert score(picture, noisy(picture)) == pytest.approx(score(*padded), abs=0.01)


def test_a_size_that_does_not_fit_the_pixels_is_refused() -> None:
    for size in ((2**40, 2**40), (2**62, 1), (1, 2**62)):
        with pytest.raises(MemoryError):
            quality.Reference(bytes(48), *size)
    for arguments in ((4, 5), (0, 4), (-4, -4), (4, 4, 5)):
        with pytest.raises(ValueError, match="expected"):
            quality.Reference(bytes(48), *arguments)
    source = quality.Reference(bytes(48), 4, 4)
    for length in (0, 47, 49, 64):
        with pytest.raises(ValueError, match=f"expected 48 bytes for 4 x 4 pixels of 3 bands, got {length}"):
            source.score(bytes(length))


def over(picture: np.ndarray, grey: int) -> np.ndarray:
    below = Image.new("RGBA", (picture.shape[1], picture.shape[0]), (grey, grey, grey, 255))
    return np.asarray(Image.alpha_composite(below, Image.fromarray(picture)).convert("RGB"))


@pytest.mark.parametrize("worse_over", [0, 255])
def test_the_score_of_a_transparent_picture_is_that_over_the_worse_background(worse_over: int) -> None:
    picture = pictures.graphic(alpha=True)
    other = picture.copy()
    see_through = picture[..., 3] < 128
    other[see_through, :3] = 255 - worse_over  # visible only over the opposite grey
    other[see_through, 3] = np.maximum(other[see_through, 3], 40)
    picture[see_through, :3] = 255 - worse_over
    expected = [score(over(picture, grey), over(other, grey)) for grey in (0, 255)]
    assert score(picture, other) == pytest.approx(min(expected), abs=1.0)  # Pillow rounds differently
    assert abs(expected[0] - expected[1]) > 5
    assert (expected[0] < expected[1]) == (worse_over == 0)


def test_colours_of_invisible_pixels_do_not_count() -> None:
    picture = pictures.graphic(alpha=True)
    picture[:, :100, 3] = 0
    other = picture.copy()
    other[:, :100, :3] = 77
    assert score(picture, other) == 100


@pytest.mark.parametrize(
    "picture",
    [
        pictures.scene(),
        pictures.graphic(301, 203),
        np.full((200, 300, 3), 140, np.uint8),
        *(pictures.scene(*size) for size in [(8, 8), (15, 17), (16385, 12), (20001, 33), (12, 20001)]),
    ],
    ids=lambda picture: "×".join(map(str, picture.shape[1::-1])),
)
def test_scores_are_those_of_the_python_package(picture: np.ndarray) -> None:
    ssimulacra2 = pytest.importorskip("ssimulacra2")
    for other in (as_jpeg(picture, 10), as_jpeg(picture, 95), noisy(picture)):
        files = [io.BytesIO(pictures.saved(each, "PNG")) for each in (picture, other)]
        assert score(picture, other) == pytest.approx(ssimulacra2.compute_ssimulacra2(*files), abs=0.05)
