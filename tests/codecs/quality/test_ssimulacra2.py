"""SSIMULACRA 2.1: scores agree with another implementation, and any size is handled."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from imgproc_local.codecs.quality import _ssimulacra2
from imgproc_local.codecs.quality import score as quality
from tests.codecs import pictures

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
"""Pictures outside the repository. Tests that need them are skipped if they are missing."""


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


def test_only_maps_with_negligible_weights_are_left_out() -> None:
    picture = pictures.scene(256, 256)
    norms = _ssimulacra2.Reference(picture.tobytes(), 256, 256).norms(noisy(picture).tobytes())
    left_out = [weight for weight, norm in zip(quality._WEIGHTS, norms, strict=True) if norm == 0]
    assert 0 < max(left_out) < 0.002


def test_any_buffer_of_bytes_is_accepted() -> None:
    picture = pictures.scene(64, 48)
    data = as_jpeg(picture, 70).tobytes()
    source = quality.Reference(bytearray(picture.tobytes()), 64, 48)
    assert source.score(data) == source.score(bytearray(data)) == source.score(memoryview(data)) < 100


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


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_too_little_memory_is_a_memory_error() -> None:
    code = """
import resource
from imgproc_local.codecs.quality import score as quality
pixels = bytes(3 * 16000 * 16)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**23, used + 2**23))
try:
    quality.Reference(pixels, 16000, 16).score(pixels)
except MemoryError:
    assert quality.Reference(pixels[:30000], 100, 100).score(pixels[:30000]) == 100
    print("memory error")
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("memory error\n", "")


def test_other_threads_run_while_a_picture_is_scored() -> None:
    picture = pictures.scene(1500, 1000)
    source, other = reference(picture), noisy(picture).tobytes()
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.0002)

    def ticks_while_scored() -> bool:
        before = ticks
        source.score(other)
        return ticks > before

    before = sys.getswitchinterval()
    thread = threading.Thread(target=tick)
    sys.setswitchinterval(1000)  # from here on, a thread runs only if another one releases the interpreter lock
    try:
        thread.start()
        assert any(ticks_while_scored() for _attempt in range(50))
    finally:
        done.set()
        sys.setswitchinterval(before)
        thread.join()


def test_several_threads_score_against_one_reference() -> None:
    picture = pictures.scene(400, 300)
    source = reference(picture)
    others = [as_jpeg(picture, q).tobytes() for q in (30, 50, 70, 90)] * 5
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(source.score, others)) == list(map(source.score, others))


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


def oracle(picture: np.ndarray, other: np.ndarray) -> float:
    ssimulacra2 = pytest.importorskip("ssimulacra2")
    files = [io.BytesIO(pictures.saved(each, "PNG")) for each in (picture, other)]
    return float(ssimulacra2.compute_ssimulacra2(*files))


@pytest.mark.parametrize("size", [(8, 8), (15, 17), (33, 64), (255, 257), (16385, 12), (20001, 33), (12, 20001)])
def test_pictures_of_any_size_score_as_by_the_python_package(size: tuple[int, int]) -> None:
    picture = np.random.default_rng(1).integers(60, 200, (*size[::-1], 3), np.uint8)
    other = noisy(picture)
    assert score(picture, other) == pytest.approx(oracle(picture, other), abs=0.01)


@pytest.mark.parametrize("q", [10, 60, 95])
@pytest.mark.parametrize(
    "picture",
    [pictures.scene(), pictures.graphic(301, 203), pictures.scene(90, 41), np.full((200, 300, 3), 140, np.uint8)],
)
def test_scores_are_those_of_the_python_package(picture: np.ndarray, q: int) -> None:
    other = as_jpeg(picture, q)
    assert score(picture, other) == pytest.approx(oracle(picture, other), abs=0.05)


@pytest.mark.parametrize(
    ("number", "file"),
    list(enumerate(sorted([*CORPUS.glob("photo/*"), *CORPUS.glob("graphic/*")])[::5])),
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_scores_are_those_of_the_python_package_on_real_pictures(number: int, file: Path) -> None:
    with Image.open(file) as image:
        left, top = max(0, image.width - 360) // 2, max(0, image.height - 320) // 2
        right, bottom = min(image.width, left + 360), min(image.height, top + 320)
        picture = np.asarray(image.convert("RGB").crop((left, top, right, bottom)))
    other = as_jpeg(picture, (30, 75, 92)[number % 3])
    assert score(picture, other) == pytest.approx(oracle(picture, other), abs=0.1)
