"""GIF: the same frames, delays and loop count in fewer bytes."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from imgproc_local.codecs import gif
from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import gif as container
from tests.codecs import pictures
from tests.codecs.operations import frames_of, optimized, whole
from tests.codecs.test_animation import WHOLE
from tests.codecs.test_animation import gif as drawn


def gif_of_whole_frames(delays_ms: list[int], loop: int = 0) -> bytes:
    """A GIF in which every frame is stored whole, as simple programs do."""
    made = [frame.quantize(32) for frame in pictures.frames(len(delays_ms), 320, 240)]
    out = io.BytesIO()
    options = {"duration": delays_ms, "loop": loop, "disposal": 1, "optimize": False}
    noise = np.random.default_rng(3).integers(0, 32, (240, 320)).astype(np.uint8)
    for frame in made:
        pixels = np.asarray(frame).copy()
        pixels[100:] = noise[100:]
        pixels[0, 0] = 1
        frame.frombytes(pixels.tobytes())
    made[0].save(out, "GIF", save_all=True, append_images=made[1:], **options)
    return out.getvalue()


def once() -> bytes:
    """An animation without a loop count."""
    first, *rest = pictures.frames(3)
    return pictures.saved(first, "GIF", save_all=True, append_images=rest, duration=100, comment=b"c" * 200)


def see_through() -> bytes:
    rgba = np.zeros((64, 96, 4), np.uint8)
    rgba[10:50, 20:60] = (200, 40, 40, 255)
    return pictures.saved(Image.fromarray(rgba), "GIF", comment=b"c" * 300)


@pytest.mark.parametrize(
    ("source", "timing", "max_share"),
    [
        (pictures.gif_with_metadata([100, 200, 50, 1000], 0), ([100, 200, 50, 1000], 0), 1),
        (pictures.gif_with_metadata([100, 200, 50, 1000], 5), ([100, 200, 50, 1000], 6), 1),
        (once(), ([100, 100, 100], 1), 1),
        (gif_of_whole_frames([100] * 6), ([100] * 6, 0), 0.9),
        (see_through(), None, 1),
        (drawn(*((number // 2, WHOLE, 1, 10 + number) for number in range(6))), ([100, 110, 120, 130, 140, 150], 3), 1),
    ],
    ids=["endless", "six plays", "one play", "frames stored whole", "transparent", "equal frames"],
)
def test_frames_delays_and_plays_are_preserved_in_fewer_bytes(
    tmp_path: Path, source: bytes, timing: tuple[list[int], int] | None, max_share: float
) -> None:
    out = whole(optimized(tmp_path, source))
    assert len(out) < max_share * len(source)
    if timing is not None:
        assert container.read_timing(out) == container.read_timing(source) == timing
    for old, new in zip(frames_of(source), frames_of(out), strict=True):
        assert np.array_equal(new[..., 3], old[..., 3])
        visible = old[..., 3:] > 0
        assert np.abs((old.astype(int) - new) * visible).max() <= gif._MAX_WORST_ERROR


def test_a_loop_count_whose_identifier_has_another_length_is_dropped_and_no_frame_with_it() -> None:
    loop = b"\x21\xff\x0bNETSCAPE2.0\x03\x01\0\0\0"
    damaged = gif_of_whole_frames([50, 70, 90]).replace(loop, b"\x21\xff\x10NETSCAPE2.0\x03\x01\0\0\x05\0")
    assert container.read_timing(damaged) == ([50, 70, 90], 1)
    cleaned = container.with_blocks(damaged, Blocks())
    assert container.read_timing(cleaned) == ([50, 70, 90], 1)
    assert len(frames_of(cleaned)) == 3


def rotating_square(frames: int = 10, side: int = 80, colours: int = 6) -> bytes:
    """A rotating square, each frame with a palette of its own: encoding its result again makes it a little smaller."""
    rotated = []
    for number in range(frames):
        square = Image.new("RGBA", (side, side), (0, 0, 0, 0))
        ImageDraw.Draw(square).rectangle([side // 4, side // 4, 3 * side // 4, 3 * side // 4], fill=(0, 60, 200, 255))
        frame = Image.new("RGBA", (side, side), (255, 255, 255, 0))
        frame.alpha_composite(square.rotate(number * 90 / frames, resample=Image.Resampling.BICUBIC))
        rotated.append(frame.convert("RGB").quantize(colours))
    out = io.BytesIO()
    rotated[0].save(out, "GIF", save_all=True, append_images=rotated[1:], duration=50, disposal=2, optimize=False)
    return out.getvalue()


def test_the_result_is_never_larger_and_optimizing_it_again_changes_nothing(tmp_path: Path) -> None:
    still = pictures.saved(pictures.scene(), "GIF")
    for source in (pictures.animated("GIF", [100] * 5), gif_of_whole_frames([100] * 4), still, rotating_square()):
        once = optimized(tmp_path, source)
        assert once is None or len(once) < len(source)
        assert optimized(tmp_path, once or source) is None
