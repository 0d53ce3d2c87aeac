"""Animations frame by frame: their timing, samples of them, scaled copies, and the encodings that libvips lacks.

Pillow encodes APNG to WebP, scaled APNG, and any animation to AVIF. Frames are composed one at a time; only
`scaled_frames` and `encode` as PNG hold all of them in memory. GIF frames are decoded by libvips and APNG frames are
composed here, because Pillow disposes and blends some frames differently from browsers.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import structs
from PIL import ExifTags, Image, ImageOps, features

from imgproc_local.codecs.container import png
from imgproc_local.codecs.picture.decode import open_upright, scaled
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.codecs.picture.libvips import of_samples, pyvips
from imgproc_local.codecs.picture.source import Source
from imgproc_local.codecs.quality.search import LARGE_PIXELS
from imgproc_local.domain.errors import BrokenImage, CheckStop
from imgproc_local.domain.image import Format, ImageInfo, ScaledSize

if not features.check("avif"):  # a Pillow built without AVIF: the plugin package adds it
    import pillow_avif  # type: ignore[import-not-found, unused-ignore]  # noqa: F401

_SAMPLE_FRAMES, _SAMPLE_PIXELS = 8, 600_000
"""The most frames of an animation's sample, and their pixels together. It has at least one frame, however large."""

_MAX_TIMING = {"WEBP": (2**24 - 1, 2**16 - 1), "PNG": (2**16 - 1, 2**32 - 1), "AVIF": (2**32 - 1, 2**32 - 1)}
"""The longest delay in milliseconds, and the most plays, that Pillow writes. An APNG stores fractions of a second."""


def timing(source: Source, pillow_format: str = "WEBP") -> tuple[list[int], int]:
    """Milliseconds for which browsers show each frame, and how many times they play them; 0 is endless.

    Both are limited to what the format that is written can store.
    """
    read = FORMATS[source.info.format].read_timing
    assert read is not None, source.info.format
    max_delay_ms, max_plays = _MAX_TIMING[pillow_format]
    delays_ms, plays = read(source.data)
    return [min(delay, max_delay_ms) for delay in delays_ms], min(plays, max_plays)


def with_actual_alpha(source: Source) -> Source:
    """`source` with `info.has_alpha` true only if a composed frame is transparent somewhere.

    The header does not say that: frames that store only changes have alpha in the file although the composed frames may
    be opaque, and the frames of an APNG without alpha may leave parts of the canvas transparent.
    """
    has_alpha = False
    for frame in _composed(source):
        has_alpha = frame.mode == "RGBA" and frame.getchannel("A").getextrema() != (255, 255)
        if has_alpha or frame.mode != "RGBA":
            break
    return structs.replace(source, info=structs.replace(source.info, has_alpha=has_alpha))


def sample_frames(source: Source) -> pyvips.Image:
    """A sample of the frames for the quality search: one image in memory with the frames one below the other."""
    return _sampled(_upright(source), source.info)


def sample_frames_of_result(encoded: bytes, info: ImageInfo, check_stop: CheckStop) -> pyvips.Image:
    """The frames of `encoded` that correspond to `sample_frames`. `info` describes the animation that was encoded."""
    return _sampled(_decoded_by_pillow(encoded, check_stop, has_alpha=info.has_alpha), info)


def _sampled(frames: Iterator[Image.Image], info: ImageInfo) -> pyvips.Image:
    """Frames spread evenly over those that are not large together; the last one in place of frames merged with it."""
    pixels = info.width_px * info.height_px
    in_range = min(info.frames, max(1, LARGE_PIXELS // pixels))
    count = min(in_range, _SAMPLE_FRAMES, max(1, _SAMPLE_PIXELS // pixels))
    numbers = [int((part + 0.5) * in_range / count) for part in range(count)]
    pictures: list[pyvips.Image] = []
    for number, frame in enumerate(frames):
        last = frame
        if number == numbers[len(pictures)]:
            pictures.append(_to_vips(frame))
            if len(pictures) == count:
                break
    pictures += [_to_vips(last)] * (count - len(pictures))
    return pyvips.Image.arrayjoin(pictures, across=1).copy_memory()


def scaled_frames(source: Source, size: ScaledSize) -> pyvips.Image:
    """All frames, upright and scaled to `size`, one below the other in memory, with their delays and plays.

    RGB or, if a frame is transparent somewhere, RGBA of 8 bits.
    """
    source = with_actual_alpha(source)
    rows = bytearray()
    for frame in _upright(source):
        rows += scaled(_to_vips(frame), size.factor).write_to_memory()
    bands = 4 if source.info.has_alpha else 3
    stacked = of_samples(rows, size.width_px, size.height_px * source.info.frames, bands)
    stacked.set_type(pyvips.GValue.gint_type, "page-height", size.height_px)
    return with_timing(stacked, source)


def with_timing(stacked: pyvips.Image, source: Source) -> pyvips.Image:
    """All frames of an animation, one below the other, with the delays and the number of plays of `source`."""
    delays_ms, plays = timing(source)
    stacked = stacked.copy()
    stacked.set_type(pyvips.GValue.array_int_type, "delay", delays_ms)
    stacked.set_type(pyvips.GValue.gint_type, "loop", plays)
    return stacked


def encode(source: Source, pillow_format: str, **options: Any) -> bytes:
    """The animation as written by Pillow with its delays and number of plays, without metadata.

    APNG merges equal frames. Raises: BrokenImage, and what `check_stop` raises.
    """
    delays_ms, plays = timing(source, pillow_format)
    if source.info.frames != len(delays_ms):
        raise BrokenImage(
            f"The animation is damaged: its header declares {source.info.frames} frames, but it has {len(delays_ms)}."
        )
    out = io.BytesIO()
    frames = _Frames(lambda: _upright(source), source.info.frames)
    frames.save(out, pillow_format, save_all=True, duration=delays_ms, loop=plays, **options)
    source.check_stop()
    return out.getvalue()


class _Frames(Image.Image):
    """An animation as Pillow's encoders expect it. They select frames in ascending order, some of them twice."""

    is_animated = True

    def __init__(self, start: Callable[[], Iterator[Image.Image]], count: int) -> None:
        super().__init__()
        self._start, self.n_frames = start, count
        self._frames, self._next = start(), 0
        self.seek(0)

    def seek(self, frame: int) -> None:
        """Selects a frame. Raises: EOFError past the last one, as Pillow expects."""
        if frame >= self.n_frames:
            raise EOFError
        if frame == self.tell():
            return
        if frame < self._next:
            self._frames, self._next = self._start(), 0
        picture = next(itertools.islice(self._frames, frame - self._next, None))
        self.im, self._mode, self._size, self._next = picture.im, picture.mode, picture.size, frame + 1

    def tell(self) -> int:
        return self._next - 1


def _to_vips(frame: Image.Image) -> pyvips.Image:
    return of_samples(frame.tobytes(), frame.width, frame.height, len(frame.getbands()))


def _to_pillow(picture: pyvips.Image) -> Image.Image:
    mode = "RGBA" if picture.hasalpha() else "RGB"
    return Image.frombytes(mode, (picture.width, picture.height), bytes(picture.write_to_memory()))


def _upright(source: Source) -> Iterator[Image.Image]:
    """The complete frames with the orientation of the file applied, as RGBA or, if `info` has no alpha, as RGB."""
    for frame in _composed(source):
        whole = frame if source.info.has_alpha else frame.convert("RGB")
        if source.info.orientation != 1:
            whole.getexif()[ExifTags.Base.Orientation] = source.info.orientation
            whole = ImageOps.exif_transpose(whole)
        yield whole


def _composed(source: Source) -> Iterator[Image.Image]:
    """The complete frames as stored, with alpha if they may have any. Calls `check_stop` before each."""
    if source.info.format is Format.GIF:
        return _of_gif(source)
    if source.info.format is Format.PNG:
        return _of_apng(source)
    return _decoded_by_pillow(bytes(source.data), source.check_stop, has_alpha=source.info.has_alpha)


def _decoded_by_pillow(encoded: bytes, check_stop: CheckStop, *, has_alpha: bool) -> Iterator[Image.Image]:
    with Image.open(io.BytesIO(encoded), formats=["WEBP", "AVIF"]) as animation:
        for number in range(getattr(animation, "n_frames", 1)):
            check_stop()
            animation.seek(number)
            yield animation.convert("RGBA" if has_alpha else "RGB")


def _of_gif(source: Source) -> Iterator[Image.Image]:
    stacked = open_upright(source.path, source.info, all_frames=True).colourspace("srgb")
    height = stacked.get_page_height()
    for number in range(source.info.frames):
        source.check_stop()
        yield _to_pillow(stacked.crop(0, number * height, stacked.width, height))


def _of_apng(source: Source) -> Iterator[Image.Image]:
    frames, palette = png.frames(source.data), png.palette_chunks(source.data)
    canvas = Image.new("RGBA", (source.info.width_px, source.info.height_px))
    for frame in frames:
        source.check_stop()
        # by libvips: Pillow converts 16-bit grey to white
        stored = pyvips.Image.pngload_buffer(png.as_png(source.data, frame, palette), fail_on="error")
        stored = stored.colourspace("srgb")
        part = _to_pillow(stored if stored.hasalpha() else stored.bandjoin(255))
        before = canvas.copy()
        area = (frame.left, frame.top, frame.left + frame.width, frame.top + frame.height)
        if frame.blend_over:
            canvas.alpha_composite(part, area[:2])
        else:
            canvas.paste(part, area)
        yield canvas.copy()
        if frame.disposal == png.DISPOSE_PREVIOUS:
            canvas = before
        elif frame.disposal == png.DISPOSE_BACKGROUND:
            canvas.paste((0, 0, 0, 0), area)
