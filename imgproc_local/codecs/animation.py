"""Animations that libvips can't read or write: APNG in, AVIF sequences out, through Pillow.

Frames pass one at a time, so that memory does not grow with their number. A GIF's are read by libvips even so, and an
APNG's are put together here: what a frame covers and what it leaves behind, Pillow shows otherwise than browsers do.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import structs
from PIL import Image, features

from imgproc_local.codecs.container import Blocks, Data, apng, avif
from imgproc_local.codecs.decode import CheckStop, open_upright
from imgproc_local.codecs.formats import FORMATS
from imgproc_local.codecs.libvips import pyvips
from imgproc_local.codecs.probe import opened
from imgproc_local.domain.errors import BrokenImage
from imgproc_local.domain.image import Format, ImageInfo

if not features.check("avif"):  # where Pillow's own build has none, its plugin is installed
    import pillow_avif  # type: ignore[import-not-found, unused-ignore]  # noqa: F401

AVIF_SPEED = 8
WEBP_EFFORT = 3
STRIP_FRAMES, STRIP_PIXELS, STRIP_WITHIN_PIXELS = 8, 600_000, 24_000_000
"""So many frames, of together so many pixels, stand for an animation, chosen evenly from its first so many pixels."""

WEBP_LONGEST_MS, WEBP_MOST_PLAYS = 2**24 - 1, 2**16 - 1
"""What a WebP has room for: 4.6 hours, and so many times."""

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What shows a picture of this EXIF orientation upright."""


def _timing(data: Data, info: ImageInfo) -> tuple[list[int], int]:
    """The delay of each frame in milliseconds and the number of plays; 0 is endless."""
    read = FORMATS[info.format].read_timing
    assert read is not None, info.format
    return read(data)


class _Frames(Image.Image):
    """An animation as Pillow's encoders walk through it: whole frames, upright, `check_stop` asked at each."""

    is_animated = True

    def __init__(self, shown: Callable[[int], Image.Image], info: ImageInfo, check_stop: CheckStop) -> None:
        super().__init__()
        self._shown, self._turn, self._check_stop, self._at = shown, _TURNS.get(info.orientation), check_stop, -1
        self._has_alpha, self.n_frames = info.has_alpha, info.frames
        self.seek(0)

    def seek(self, frame: int) -> None:
        """Raises: EOFError behind the last frame, as Pillow wants it."""
        if frame >= self.n_frames:
            raise EOFError
        if frame == self._at:
            return
        self._check_stop()
        shown = self._shown(frame)
        shown = shown if self._has_alpha else shown.convert("RGB")
        shown = shown if self._turn is None else shown.transpose(self._turn)
        self.im, self._mode, self._size, self._at = shown.im, shown.mode, shown.size, frame

    def tell(self) -> int:
        return self._at


def delays_ms(path: Path, info: ImageInfo) -> list[int]:
    """How long each frame is shown, as browsers play it and as far as a WebP can say it."""
    with opened(path) as data:
        return [min(delay, WEBP_LONGEST_MS) for delay in _timing(data, info)[0]]


def plays(path: Path, info: ImageInfo) -> int:
    """How many times the animation is played, at most as many as a WebP can store; 0 is endless."""
    with opened(path) as data:
        return min(_timing(data, info)[1], WEBP_MOST_PLAYS)


def as_shown(path: Path, info: ImageInfo, check_stop: CheckStop) -> ImageInfo:
    """`info` with alpha only where a frame is transparent somewhere.

    Frames that hold only what changed say that they have alpha and show none; others leave holes without saying so.
    """
    with opened(path) as data, _shown(path, data, info) as shown:
        for number in range(info.frames):
            check_stop()
            frame = shown(number)
            if frame.mode != "RGBA":
                break
            if frame.getchannel("A").getextrema() != (255, 255):
                return structs.replace(info, has_alpha=True)
    return structs.replace(info, has_alpha=False)


def strip(path: Path, info: ImageInfo, check_stop: CheckStop) -> pyvips.Image:
    """Some of the frames, one below the other, in memory: by them an animation's quality is searched."""
    with opened(path) as data, _shown(path, data, info) as shown:
        frames = _Frames(shown, info, check_stop)
        return _strip(frames, _chosen(info))


def strip_of_result(encoded: bytes, info: ImageInfo, check_stop: CheckStop) -> pyvips.Image:
    """The same frames of what the animation that `info` tells of was encoded to."""
    with Image.open(io.BytesIO(encoded)) as source:

        def shown(frame: int) -> Image.Image:
            source.seek(frame)
            return source.convert("RGBA" if source.has_transparency_data else "RGB")

        count = getattr(source, "n_frames", 1)
        still = structs.replace(info, frames=count, orientation=1)
        return _strip(_Frames(shown, still, check_stop), [min(number, count - 1) for number in _chosen(info)])


def _chosen(info: ImageInfo) -> list[int]:
    frame_pixels = info.width_px * info.height_px
    within = min(info.frames, max(1, STRIP_WITHIN_PIXELS // frame_pixels))
    count = min(within, STRIP_FRAMES, max(1, STRIP_PIXELS // frame_pixels))
    return [int((number + 0.5) * within / count) for number in range(count)]


def _strip(frames: _Frames, numbers: list[int]) -> pyvips.Image:
    pictures = []
    for number in numbers:
        frames.seek(number)
        rows, bands = frames.tobytes(), len(frames.getbands())
        picture = pyvips.Image.new_from_memory(rows, frames.width, frames.height, bands, "uchar")
        pictures.append(picture.copy(interpretation="srgb"))
    return pyvips.Image.arrayjoin(pictures, across=1).copy_memory()


def encode_webp(path: Path, info: ImageInfo, quality: int | None, check_stop: CheckStop) -> bytes:
    """The animation as WebP without metadata, its delays and number of plays kept; lossless without a quality."""
    options: dict[str, Any] = {
        "lossless": quality is None,
        "quality": 75 if quality is None else quality,
        "method": WEBP_EFFORT,
        "allow_mixed": quality is not None,
        "minimize_size": False,
    }
    return _encode(path, info, check_stop, "WEBP", WEBP_LONGEST_MS, WEBP_MOST_PLAYS, **options)


def encode_avif(path: Path, info: ImageInfo, blocks: Blocks, quality: int, check_stop: CheckStop) -> bytes:
    """The animation as an AVIF sequence with these metadata blocks, its delays and number of plays kept."""
    more: dict[str, Any] = {
        name: block
        for name, block in (("exif", blocks.exif), ("xmp", blocks.xmp), ("icc_profile", blocks.icc))
        if block
    }
    encoded = _encode(path, info, check_stop, "AVIF", **_avif_options(quality), **more)
    with opened(path) as data:
        _, plays = _timing(data, info)
    return avif.with_plays(encoded, plays)


def encode_frame_avif(frame: pyvips.Image, quality: int) -> bytes:
    """A still picture, RGB or RGBA, as AVIF, encoded like a frame of an animation."""
    mode, out = "RGBA" if frame.hasalpha() else "RGB", io.BytesIO()
    pixels = bytes(frame.write_to_memory())
    Image.frombytes(mode, (frame.width, frame.height), pixels).save(out, "AVIF", **_avif_options(quality))
    return out.getvalue()


def _avif_options(quality: int) -> dict[str, Any]:
    return {"quality": quality, "speed": AVIF_SPEED, "subsampling": "4:4:4", "max_threads": 1}


def _encode(
    path: Path,
    info: ImageInfo,
    check_stop: CheckStop,
    form: str,
    longest_ms: int | None = None,
    most_plays: int | None = None,
    **options: Any,
) -> bytes:
    with opened(path) as data:
        delays, plays = _timing(data, info)
        if info.frames != len(delays):
            raise BrokenImage(f"The animation is damaged: it says {info.frames} frames and has {len(delays)}.")
        with _shown(path, data, info) as shown:
            frames = _Frames(shown, info, check_stop)
            out = io.BytesIO()
            delays = [delay if longest_ms is None else min(delay, longest_ms) for delay in delays]
            plays = plays if most_plays is None else min(plays, most_plays)
            frames.save(out, form, save_all=True, duration=delays, loop=plays, **options)
    check_stop()
    return out.getvalue()


@contextmanager
def _shown(path: Path, data: Data, info: ImageInfo) -> Iterator[Callable[[int], Image.Image]]:
    """What gives each frame, whole, with alpha wherever it may have some.

    Frames are asked for in their order; one that lies behind begins anew.
    """
    if info.format is Format.GIF:
        yield _shown_of_gif(path, info)
    elif info.format is Format.PNG:
        yield _shown_of_apng(data, info)
    else:
        with Image.open(path, formats=[info.format.value.upper()]) as source:

            def shown(frame: int) -> Image.Image:
                source.seek(frame)
                return source.convert("RGBA" if info.has_alpha else "RGB")

            yield shown


def _shown_of_gif(path: Path, info: ImageInfo) -> Callable[[int], Image.Image]:
    strip: pyvips.Image | None = None
    following = 0

    def shown(frame: int) -> Image.Image:
        nonlocal strip, following
        if strip is None or frame < following:
            strip = open_upright(path, info, all_frames=True).colourspace("srgb")
        following = frame + 1
        height = strip.get("page-height")
        pixels = strip.crop(0, frame * height, strip.width, height).write_to_memory()
        return Image.frombytes("RGBA" if strip.bands == 4 else "RGB", (strip.width, height), bytes(pixels))

    return shown


def _shown_of_apng(data: Data, info: ImageInfo) -> Callable[[int], Image.Image]:
    frames = apng.frames(data)
    canvas, following = Image.new("RGBA", (0, 0)), 0

    def shown(number: int) -> Image.Image:
        nonlocal canvas, following
        if number < following or following == 0:
            canvas, following = Image.new("RGBA", (info.width_px, info.height_px)), 0
        while True:
            frame, is_first = frames[following], following == 0
            part = _of_png(apng.as_png(data, frame))
            before = canvas.copy() if frame.disposal == apng.DISPOSE_PREVIOUS and not is_first else None
            place = (frame.left, frame.top, frame.left + frame.width, frame.top + frame.height)
            if frame.over:
                canvas.alpha_composite(part, place[:2])
            else:
                canvas.paste(part, place)
            whole = canvas.copy()
            if before is not None:
                canvas = before
            elif frame.disposal in (
                apng.DISPOSE_BACKGROUND,
                apng.DISPOSE_PREVIOUS,
            ):  # nothing was there before the first
                canvas.paste((0, 0, 0, 0), place)
            following += 1
            if following > number:
                return whole

    return shown


def _of_png(encoded: bytes) -> Image.Image:
    """A PNG as RGBA, read by libvips: Pillow turns grey of 16 bits white."""
    stored = pyvips.Image.pngload_buffer(encoded, fail_on="error").colourspace("srgb")
    stored = stored if stored.hasalpha() else stored.bandjoin(255)
    return Image.frombytes("RGBA", (stored.width, stored.height), bytes(stored.write_to_memory()))
