"""SSIMULACRA 2.1: scores agree with another implementation and between both backends, and any size is handled."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from imgproc_local.codecs.quality import ssimulacra2 as quality
from tests.codecs import pictures

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
"""Pictures outside the repository. Tests that need them are skipped if they are missing."""

needs_c = pytest.mark.skipif(quality.backend() != "c", reason="the C extension was not built here")


def reference(picture: np.ndarray, using: quality.Backend | None = None) -> quality.Reference:
    height, width, _bands = picture.shape
    return quality.Reference(picture.tobytes(), width, height, using=using)


def score(first: np.ndarray, second: np.ndarray, using: quality.Backend | None = None) -> float:
    return reference(first, using).score(second.tobytes())


def as_jpeg(picture: np.ndarray, q: int) -> np.ndarray:
    return np.asarray(pictures.opened(pictures.saved(picture, "JPEG", quality=q)).convert("RGB"))


def noisy(picture: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(2).integers(-9, 10, picture.shape)
    return np.clip(picture.astype(int) + noise, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("using", quality.BACKENDS)
@pytest.mark.parametrize("picture", [pictures.scene(), pictures.graphic(), np.zeros((20, 30, 3), np.uint8)])
def test_the_same_picture_scores_100(picture: np.ndarray, using: quality.Backend) -> None:
    assert score(picture, picture, using) == 100


@pytest.mark.parametrize("using", quality.BACKENDS)
def test_a_jpeg_of_higher_quality_scores_higher(using: quality.Backend) -> None:
    picture = pictures.scene(640, 480)
    source = reference(picture, using)
    scores = [source.score(as_jpeg(picture, q).tobytes()) for q in (5, 20, 40, 60, 80, 90, 97)]
    assert scores == sorted(scores)
    assert scores[0] < 30
    assert scores[-1] > 70


@needs_c
@pytest.mark.parametrize(
    ("width", "height"),
    [(1, 1), (1, 9), (7, 3), (8, 8), (9, 8), (15, 17), (16, 16), (33, 64), (255, 257), (300, 5), (5, 300), (511, 130)],
)
def test_both_backends_agree_on_any_size(width: int, height: int) -> None:
    picture = pictures.scene(width, height)
    other = noisy(picture)
    assert score(picture, other, "c") == pytest.approx(score(picture, other, "libvips"), abs=0.01)


@needs_c
def test_only_maps_with_negligible_weights_are_left_out() -> None:
    from imgproc_local.codecs.quality import _ssimulacra2

    picture = pictures.scene(256, 256)
    norms = _ssimulacra2.Reference(picture.tobytes(), 256, 256).norms(noisy(picture).tobytes())
    left_out = [weight for weight, norm in zip(quality._WEIGHTS, norms, strict=True) if norm == 0]
    assert 0 < max(left_out) < 0.002


@needs_c
@pytest.mark.parametrize(("width", "height"), [(16384, 12), (16385, 1), (16385, 12), (20001, 33), (12, 20001)])
def test_very_wide_and_very_tall_pictures_are_scored_like_others(width: int, height: int) -> None:
    picture = np.random.default_rng(1).integers(60, 200, (height, width, 3), np.uint8)
    other = noisy(picture)
    assert score(picture, other, "c") == pytest.approx(score(picture, other, "libvips"), abs=0.01)


def test_without_the_c_extension_libvips_scores_and_one_warning_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pixels = bytes(16 * 16 * 3)
    quality._log_fallback.cache_clear()
    monkeypatch.setattr(quality, "_compiled", None)
    monkeypatch.setattr(quality, "BACKENDS", ("libvips",))
    for _ in range(2):
        assert quality.Reference(pixels, 16, 16).score(pixels) == 100
    assert ["Install a C compiler" in record.message for record in caplog.records] == [True]


@pytest.mark.parametrize("using", quality.BACKENDS)
def test_mirrored_pictures_score_the_same(using: quality.Backend) -> None:
    picture = pictures.scene(256, 256)
    other = as_jpeg(picture, 50)
    upright = score(picture, other, using)
    assert score(picture[::-1].copy(), other[::-1].copy(), using) == pytest.approx(upright, abs=0.01)
    assert score(picture[:, ::-1].copy(), other[:, ::-1].copy(), using) == pytest.approx(upright, abs=0.01)


def test_any_buffer_of_bytes_is_accepted() -> None:
    picture = pictures.scene(64, 48)
    data = as_jpeg(picture, 70).tobytes()
    source = quality.Reference(bytearray(picture.tobytes()), 64, 48)
    assert source.score(data) == source.score(bytearray(data)) == source.score(memoryview(data)) < 100


@pytest.mark.parametrize("using", quality.BACKENDS)
@pytest.mark.parametrize("size", [(0, 0), (0, 5), (-4, -4), (4, 5), (2**40, 2**40), (2**63, 2**63), (2**31, 2**31)])
def test_a_size_that_does_not_fit_the_pixels_is_refused(size: tuple[int, int], using: quality.Backend) -> None:
    with pytest.raises(ValueError, match="expected"):
        quality.Reference(bytes(48), *size, using=using)
    with pytest.raises(ValueError, match="expected"):
        quality.TransparentReference(bytes(48), *size, using=using)


@pytest.mark.parametrize("using", quality.BACKENDS)
def test_a_picture_of_another_size_is_refused(using: quality.Backend) -> None:
    source = quality.Reference(bytes(48), 4, 4, using=using)
    for size in (0, 47, 49, 64):
        with pytest.raises(ValueError, match=f"expected 48 bytes for 4×4 pixels of 3 bands, got {size}"):
            source.score(bytes(size))


@needs_c
def test_the_extension_checks_sizes_itself() -> None:
    from imgproc_local.codecs.quality import _ssimulacra2

    for size in ((2**40, 2**40), (2**62, 1), (1, 2**62)):
        with pytest.raises(MemoryError):
            _ssimulacra2.Reference(bytes(48), *size)
    for arguments in ((4, 5), (0, 4), (-4, -4), (4, 4, 5), (4, 3, 4, 256)):
        with pytest.raises(ValueError, match="expected"):
            _ssimulacra2.Reference(bytes(48), *arguments)
    with pytest.raises(ValueError, match="expected 48 bytes"):
        _ssimulacra2.Reference(bytes(48), 4, 4).norms(bytes(47))


@needs_c
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_too_little_memory_is_a_memory_error() -> None:
    code = """
import resource
from imgproc_local.codecs.quality import ssimulacra2 as quality
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


@needs_c
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

    before = sys.getswitchinterval()
    thread = threading.Thread(target=tick)
    sys.setswitchinterval(1000)  # from here on, a thread runs only if another one releases the interpreter lock
    try:
        thread.start()
        ticked = False
        for _attempt in range(50):
            ticks_before = ticks
            source.score(other)
            ticked = ticked or ticks > ticks_before
            if ticked:
                break
    finally:
        done.set()
        sys.setswitchinterval(before)
        thread.join()
    assert ticked


def test_several_threads_score_against_one_reference() -> None:
    picture = pictures.scene(400, 300)
    source = reference(picture)
    others = [as_jpeg(picture, q).tobytes() for q in (30, 50, 70, 90)]
    alone = [source.score(other) for other in others]
    scores: list[list[float]] = [[] for _ in others]

    def work(number: int) -> None:
        scores[number] = [source.score(others[number]) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(others))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # libvips adds up rows in the order in which its threads finish them
    assert np.array(scores) == pytest.approx(np.array([[expected] * 5 for expected in alone]), abs=1e-3)


def over(picture: np.ndarray, grey: int) -> np.ndarray:
    below = Image.new("RGBA", (picture.shape[1], picture.shape[0]), (grey, grey, grey, 255))
    return np.asarray(Image.alpha_composite(below, Image.fromarray(picture)).convert("RGB"))


@pytest.mark.parametrize("using", quality.BACKENDS)
@pytest.mark.parametrize("worse_over", [0, 255])
def test_the_score_of_a_transparent_picture_is_that_over_the_worse_background(
    worse_over: int, using: quality.Backend
) -> None:
    picture = pictures.graphic(alpha=True)
    other = picture.copy()
    see_through = picture[..., 3] < 128
    other[see_through, :3] = 255 - worse_over  # visible only over the opposite grey
    other[see_through, 3] = np.maximum(other[see_through, 3], 40)
    picture[see_through, :3] = 255 - worse_over
    expected = [score(over(picture, grey), over(other, grey), using) for grey in (0, 255)]
    source = quality.TransparentReference(picture.tobytes(), picture.shape[1], picture.shape[0], using=using)
    assert source.score(other.tobytes()) == pytest.approx(min(expected), abs=1.0)  # Pillow rounds differently
    assert abs(expected[0] - expected[1]) > 5
    assert (expected[0] < expected[1]) == (worse_over == 0)
    assert source.score(picture.tobytes()) == 100


def test_colours_of_invisible_pixels_do_not_count() -> None:
    picture = pictures.graphic(alpha=True)
    picture[:, :100, 3] = 0
    other = picture.copy()
    other[:, :100, :3] = 77
    source = quality.TransparentReference(picture.tobytes(), picture.shape[1], picture.shape[0])
    assert source.score(other.tobytes()) == 100


def oracle(picture: np.ndarray, other: np.ndarray) -> float:
    ssimulacra2 = pytest.importorskip("ssimulacra2")
    files = [io.BytesIO(pictures.saved(each, "PNG")) for each in (picture, other)]
    return float(ssimulacra2.compute_ssimulacra2(*files))


@pytest.mark.parametrize("using", quality.BACKENDS)
@pytest.mark.parametrize("q", [10, 60, 95])
@pytest.mark.parametrize(
    "picture",
    [pictures.scene(), pictures.graphic(301, 203), pictures.scene(90, 41), np.full((200, 300, 3), 140, np.uint8)],
    ids=["scene", "graphic", "small", "flat"],
)
def test_scores_are_those_of_the_python_package(picture: np.ndarray, q: int, using: quality.Backend) -> None:
    other = as_jpeg(picture, q)
    assert score(picture, other, using) == pytest.approx(oracle(picture, other), abs=0.05)


@pytest.mark.parametrize(
    ("number", "file"),
    list(enumerate(sorted([*CORPUS.glob("photo/*"), *CORPUS.glob("graphic/*")]))),
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_scores_are_those_of_the_python_package_on_real_pictures(number: int, file: Path) -> None:
    with Image.open(file) as image:
        left, top = max(0, image.width - 360) // 2, max(0, image.height - 320) // 2
        right, bottom = min(image.width, left + 360), min(image.height, top + 320)
        picture = np.asarray(image.convert("RGB").crop((left, top, right, bottom)))
    other = as_jpeg(picture, (30, 75, 92)[number % 3])
    assert score(picture, other) == pytest.approx(oracle(picture, other), abs=0.1)
