"""Quantising the coefficients of a JPEG with other steps: exactly these coefficients without any, or an error."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from imgproc_local.codecs import jpeg
from imgproc_local.codecs.container import jpeg as container
from imgproc_local.codecs.jpeg import _requantize
from tests.codecs import pictures
from tests.codecs.operations import optimized, whole

COARSE = bytes([40] * 64)


def planes(data: bytes) -> np.ndarray:
    """The decoded Y, Cb and Cr planes."""
    picture = Image.open(io.BytesIO(data))
    picture.draft("YCbCr", picture.size)
    assert picture.mode == "YCbCr"
    return np.asarray(picture)


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize(
    "options",
    [{}, {"optimize": True}, {"restart_marker_blocks": 3}, {"progressive": True, "quality": 99}],
    ids=["sequential", "own codes", "restarts", "progressive"],
)
def test_coefficients_without_new_steps_are_copied(subsampling: int, options: dict[str, object]) -> None:
    for size in ((320, 240), (161, 97), (17, 9), (1, 1), (8, 33)):
        source = pictures.saved(pictures.scene(*size), "JPEG", subsampling=subsampling, **{"quality": 88, **options})
        assert np.array_equal(planes(_requantize.requantized(source)), planes(source))
        coarse = _requantize.requantized(source, COARSE)
        assert np.array_equal(planes(coarse)[..., 1:], planes(source)[..., 1:])
        assert container.quantization(coarse) == tuple(COARSE)


@pytest.mark.parametrize("subsampling", [0, 2])
def test_coarser_steps_make_a_smaller_file_that_is_still_close(subsampling: int) -> None:
    source = pictures.saved(pictures.scene(320, 240), "JPEG", quality=95, subsampling=subsampling)
    before = _requantize.requantized(source)
    steps = bytes([12] * 64)
    sizes = [len(_requantize.requantized(source, *each)) for each in ((steps,), (steps, steps), (COARSE, COARSE))]
    assert len(before) > sizes[0] > sizes[1] > sizes[2]
    out = planes(_requantize.requantized(source, steps, steps)).astype(int)
    assert np.abs(out - planes(source)).mean() < 4


def test_chroma_steps_never_become_finer() -> None:
    source = pictures.saved(pictures.scene(), "JPEG", quality=50)
    out = _requantize.requantized(source, bytes([1] * 64), bytes([1] * 64))
    assert container.quantization(out, 1) == container.quantization(source, 1)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_the_picture_is_turned_upright(orientation: int, subsampling: int) -> None:
    stored = pictures.oriented(pictures.scene(320, 240), orientation)
    source = pictures.saved(stored, "JPEG", quality=80, subsampling=subsampling)
    out = planes(_requantize.requantized(source, b"", b"", orientation)).astype(int)
    # turning a quarter to the left undoes turning a quarter to the right, and all other turns undo themselves
    wanted = pictures.oriented(planes(source), {6: 8, 8: 6}.get(orientation, orientation))
    # decoders round up or down in one direction when they enlarge chroma
    assert np.abs(out - wanted.astype(int)).max() <= 2


@pytest.mark.parametrize(("orientation", "size"), [(2, (161, 96)), (4, (160, 97)), (6, (160, 97)), (8, (161, 96))])
def test_a_partial_block_that_would_be_inside_the_picture_is_refused(orientation: int, size: tuple[int, int]) -> None:
    stored = pictures.saved(pictures.scene(*size), "JPEG", subsampling=2)
    with pytest.raises(ValueError, match="partial block"):
        _requantize.requantized(stored, b"", b"", orientation)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (pictures.saved(Image.fromarray(pictures.scene()).convert("L"), "JPEG"), "three components"),
        (pictures.saved(Image.fromarray(pictures.scene()).convert("CMYK"), "JPEG"), "not"),
        (pictures.saved(pictures.scene(), "JPEG", keep_rgb=True, subsampling=0), "YCbCr"),
        (pictures.saved(pictures.scene(), "JPEG")[:-2000] + b"\xff\xd9", "truncated scan"),
        (pictures.saved(pictures.scene(), "JPEG", progressive=True)[:300], "truncated scan"),
        (b"", "not a JPEG"),
    ],
)
def test_other_files_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        _requantize.requantized(data)


@pytest.mark.parametrize("progressive", [False, True])
def test_coefficients_out_of_range_are_refused(progressive: bool) -> None:
    # make the DC differences between blocks as large as codes can express
    data = bytearray(pictures.saved(pictures.scene(), "JPEG", quality=100, progressive=progressive))
    for at in range(len(data) - 30):
        if data[at : at + 2] == b"\xff\xc4" and data[at + 4] >> 4 == 0:
            symbols = at + 5 + 16
            data[symbols : symbols + sum(data[at + 5 : symbols])] = bytes([11]) * sum(data[at + 5 : symbols])
    with pytest.raises(ValueError, match=r"out of range|truncated scan"):
        _requantize.requantized(bytes(data))


def test_too_many_scans_are_refused() -> None:
    data = pictures.saved(pictures.scene(), "JPEG", progressive=True)
    first = data.index(b"\xff\xda")
    second = data.index(b"\xff\xc4", first)
    with pytest.raises(ValueError, match="too many scans"):
        _requantize.requantized(data[:first] + data[first:second] * 200 + data[second:])


def test_more_symbols_than_mozjpeg_can_encode_are_refused() -> None:
    # every block has its last coefficient only, so three symbols for the zeros before it
    luma_blocks, bits_of_8_blocks = 4 * 1_000 * 460, int("0000101" * 8, 2)
    tiny = pictures.saved(np.zeros((16, 16, 3), np.uint8), "JPEG", subsampling=2)
    frame = tiny.index(b"\xff\xc0")
    head = tiny[: frame + 5] + (7_360).to_bytes(2, "big") + (16_000).to_bytes(2, "big") + tiny[frame + 9 : frame + 19]
    codes = bytes([0, 1, *bytes(15), 0]) + bytes([0x10, 1, 1, *bytes(14), 0xF0, 0xE1])
    scan = bytes([3, 1, 0, 2, 0, 3, 0, 0, 63, 0])
    segments = b"\xff\xc4" + (len(codes) + 2).to_bytes(2, "big") + codes + b"\xff\xda\0\x0c" + scan
    data = head + segments + bits_of_8_blocks.to_bytes(7, "big") * (luma_blocks * 3 // 2 // 8) + b"\xff\xd9"
    with pytest.raises(ValueError, match="too many coefficients"):
        _requantize.requantized(data)


@pytest.mark.parametrize("steps", [(b"short",), (COARSE, b"short"), (bytes(64),), (COARSE, bytes(64))])
def test_invalid_steps_are_refused(steps: tuple[bytes, ...]) -> None:
    source = pictures.saved(pictures.scene(), "JPEG", quality=90)
    if steps == (COARSE, bytes(64)):  # chroma keeps its own steps
        assert container.quantization(_requantize.requantized(source, *steps), 1) == container.quantization(source, 1)
        return
    with pytest.raises(ValueError, match=r"steps|step of 0"):
        _requantize.requantized(source, *steps)


def test_the_coefficients_of_chroma_in_half_the_resolution_are_preserved(tmp_path: Path) -> None:
    source = pictures.saved(pictures.scene(900, 700), "JPEG", quality=90, subsampling=2)
    out = whole(optimized(tmp_path, source))
    assert np.array_equal(planes(out)[..., 1:], planes(source)[..., 1:])
    assert not np.array_equal(planes(out)[..., 0], planes(source)[..., 0])
    assert optimized(tmp_path, out) is None


@pytest.mark.parametrize("orientation", [1, 6])
def test_the_coefficients_of_the_original_make_a_smaller_file_than_its_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orientation: int
) -> None:
    exif = b"Exif\0\0" + pictures.tiff(orientation)
    source = pictures.saved(pictures.scene(640, 480), "JPEG", quality=85, exif=exif)
    of_coefficients = whole(optimized(tmp_path, source))
    encoders = jpeg._encoders
    monkeypatch.setattr(jpeg, "_encoders", lambda image, _, check_stop: encoders(image, None, check_stop))
    assert len(of_coefficients) < 0.97 * len(optimized(tmp_path, source) or source)
