"""Animations frame by frame: their timing, samples of them, scaled copies, and the encodings that libvips lacks.

Pillow encodes APNG to WebP, scaled APNG, and any animation to AVIF. Frames are composed one at a time; only
`scaled_frames` and `encode_png` hold all of them in memory. GIF frames are decoded by libvips and APNG frames are
composed here, because Pillow disposes and blends some frames differently from browsers.
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
from imgproc_local.codecs.picture.decode import open_upright, scaled
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.codecs.picture.libvips import of_samples, pyvips
from imgproc_local.codecs.picture.source import opened
from imgproc_local.domain.errors import BrokenImage, CheckStop
from imgproc_local.domain.image import Format, ImageInfo, ScaledSize

if not features.check("avif"):  # a Pillow built without AVIF: the plugin package adds it
    import pillow_avif  # type: ignore[import-not-found, unused-ignore]  # noqa: F401

AVIF_SPEED = 8
ALPHA_OPTIONS = {"a:end-usage": "q", "a:cq-level": "6"}
GIF_ALPHA_OPTIONS = {"a:lossless": "1"}
"""libaom's options for the alpha plane, whose quality is fixed and independent of the colour quality. At cq-level 6 of
63 the largest alpha error was 14 of 255 in the animations measured, hair included; at the colour quality it was up to
115.
"""

WEBP_EFFORT = 3
MAX_SAMPLE_FRAMES, MAX_SAMPLE_PIXELS, MAX_SAMPLED_RANGE_PIXELS = 8, 600_000, 24_000_000
"""The sample of an animation has at most `MAX_SAMPLE_FRAMES` frames with together at most `MAX_SAMPLE_PIXELS`, but at
least one. They are spread evenly over the frames that lie within the first `MAX_SAMPLED_RANGE_PIXELS`.
"""

WEBP_MAX_DELAY_MS, WEBP_MAX_PLAYS = 2**24 - 1, 2**16 - 1
"""The largest values that WebP stores: a delay has 24 bits (4.6 hours), the number of plays 16."""

PNG_MAX_DELAY_MS = 2**16 - 1
"""Longer delays may not fit into an APNG, which stores fractions of a second with numerators of 16 bits."""

_TRANSPOSE_METHODS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Pillow's transpose method that makes a picture of each EXIF orientation upright."""


def _timing(data: Data, info: ImageInfo) -> tuple[list[int], int]:
    """The delay of each frame in milliseconds and the number of plays; 0 is endless."""
    read = FORMATS[info.format].read_timing
    assert read is not None, info.format
    return read(data)


class _Frames(Image.Image):
    """An animation as Pillow's encoders expect it: complete upright frames. Calls `check_stop` before each."""

    is_animated = True

    def __init__(self, frame_at: Callable[[int], Image.Image], info: ImageInfo, check_stop: CheckStop) -> None:
        super().__init__()
        self._frame_at, self._transpose_method = frame_at, _TRANSPOSE_METHODS.get(info.orientation)
        self._check_stop, self._at = check_stop, -1
        self._has_alpha, self.n_frames = info.has_alpha, info.frames
        self.seek(0)

    def seek(self, frame: int) -> None:
        """Selects a frame. Raises: EOFError past the last one, as Pillow expects."""
        if frame >= self.n_frames:
            raise EOFError
        if frame == self._at:
            return
        self._check_stop()
        picture = self._frame_at(frame)
        picture = picture if self._has_alpha else picture.convert("RGB")
        picture = picture if self._transpose_method is None else picture.transpose(self._transpose_method)
        self.im, self._mode, self._size, self._at = picture.im, picture.mode, picture.size, frame

    def tell(self) -> int:
        return self._at


def delays_ms(path: Path, info: ImageInfo) -> list[int]:
    """Milliseconds for which browsers show each frame, at most `WEBP_MAX_DELAY_MS`."""
    with opened(path) as data:
        return [min(delay, WEBP_MAX_DELAY_MS) for delay in _timing(data, info)[0]]


def plays(path: Path, info: ImageInfo) -> int:
    """How many times the animation is played, at most `WEBP_MAX_PLAYS`; 0 is endless."""
    with opened(path) as data:
        return min(_timing(data, info)[1], WEBP_MAX_PLAYS)


def with_actual_alpha(path: Path, info: ImageInfo, check_stop: CheckStop) -> ImageInfo:
    """`info` with `has_alpha` true only if a composed frame is transparent somewhere.

    The header does not say that: frames that store only changes have alpha in the file although the composed frames may
    be opaque, and the frames of an APNG without alpha may leave parts of the canvas transparent.
    """
    with opened(path) as data, _composed(path, data, info) as frame_at:
        for number in range(info.frames):
            check_stop()
            frame = frame_at(number)
            if frame.mode != "RGBA":
                break
            if frame.getchannel("A").getextrema() != (255, 255):
                return structs.replace(info, has_alpha=True)
    return structs.replace(info, has_alpha=False)


def sample_frames(path: Path, info: ImageInfo, check_stop: CheckStop) -> pyvips.Image:
    """A sample of the frames for the quality search: one image in memory with the frames one below the other."""
    with opened(path) as data, _composed(path, data, info) as frame_at:
        return _stacked(_Frames(frame_at, info, check_stop), _sampled_numbers(info))


def sample_frames_of_result(encoded: bytes, info: ImageInfo, check_stop: CheckStop) -> pyvips.Image:
    """The frames of `encoded` that correspond to `sample_frames`. `info` describes the animation that was encoded."""
    with Image.open(io.BytesIO(encoded)) as result:

        def frame_at(number: int) -> Image.Image:
            result.seek(number)
            return result.convert("RGBA" if result.has_transparency_data else "RGB")

        count = getattr(result, "n_frames", 1)  # fewer than `info.frames` if the encoder merged frames
        encoded_info = structs.replace(info, frames=count, orientation=1)
        return _stacked(
            _Frames(frame_at, encoded_info, check_stop), [min(number, count - 1) for number in _sampled_numbers(info)]
        )


def _sampled_numbers(info: ImageInfo) -> list[int]:
    frame_pixels = info.width_px * info.height_px
    sampled_range = min(info.frames, max(1, MAX_SAMPLED_RANGE_PIXELS // frame_pixels))
    count = min(sampled_range, MAX_SAMPLE_FRAMES, max(1, MAX_SAMPLE_PIXELS // frame_pixels))
    return [int((part + 0.5) * sampled_range / count) for part in range(count)]


def _stacked(frames: _Frames, numbers: list[int]) -> pyvips.Image:
    pictures = []
    for number in numbers:
        frames.seek(number)
        pictures.append(_to_vips(frames))
    return pyvips.Image.arrayjoin(pictures, across=1).copy_memory()


def _to_vips(frame: Image.Image) -> pyvips.Image:
    return of_samples(frame.tobytes(), frame.width, frame.height, len(frame.getbands()))


def scaled_frames(path: Path, info: ImageInfo, size: ScaledSize, check_stop: CheckStop) -> pyvips.Image:
    """All frames, upright and scaled to `size`, one below the other in memory, with their delays and plays.

    RGB or, if a frame is transparent somewhere, RGBA of 8 bits.
    """
    info = with_actual_alpha(path, info, check_stop)
    rows, bands = bytearray(), 4 if info.has_alpha else 3
    with opened(path) as data, _composed(path, data, info) as frame_at:
        frames = _Frames(frame_at, info, check_stop)
        for number in range(info.frames):
            frames.seek(number)
            rows += scaled(_to_vips(frames), size.factor).write_to_memory()
    width, height = size.width_px, size.height_px
    stacked = of_samples(rows, width, height * info.frames, bands)
    stacked.set_type(pyvips.GValue.gint_type, "page-height", height)
    stacked.set_type(pyvips.GValue.array_int_type, "delay", delays_ms(path, info))
    stacked.set_type(pyvips.GValue.gint_type, "loop", plays(path, info))
    return stacked


def encode_png(path: Path, info: ImageInfo, check_stop: CheckStop) -> bytes:
    """The animation as APNG with its delays and number of plays, without metadata. Equal frames are merged."""
    return _encode(path, info, check_stop, "PNG", PNG_MAX_DELAY_MS, compress_level=1)


def encode_webp(path: Path, info: ImageInfo, quality: int | None, check_stop: CheckStop) -> bytes:
    """The animation as WebP with its delays and number of plays, without metadata; lossless if `quality` is None."""
    options: dict[str, Any] = {
        "lossless": quality is None,
        "quality": 75 if quality is None else quality,
        "method": WEBP_EFFORT,
        "allow_mixed": quality is not None,
        "minimize_size": False,
    }
    return _encode(path, info, check_stop, "WEBP", WEBP_MAX_DELAY_MS, WEBP_MAX_PLAYS, **options)


def encode_avif(path: Path, info: ImageInfo, blocks: Blocks, quality: int, check_stop: CheckStop) -> bytes:
    """The animation as an AVIF sequence with its delays, number of plays and these metadata blocks."""
    metadata: dict[str, Any] = {
        name: block
        for name, block in (("exif", blocks.exif), ("xmp", blocks.xmp), ("icc_profile", blocks.icc))
        if block
    }
    # a GIF's alpha is 0 or 255: lossless compression makes it smallest
    options = _avif_options(quality, GIF_ALPHA_OPTIONS if info.format is Format.GIF else ALPHA_OPTIONS)
    encoded = _encode(path, info, check_stop, "AVIF", **options, **metadata)
    with opened(path) as data:
        _, plays = _timing(data, info)
    return avif.without_times(avif.with_plays(encoded, plays))


def encode_frame_avif(frame: pyvips.Image, quality: int) -> bytes:
    """A still RGB or RGBA picture as AVIF, with the options of an animation's frames (except a GIF's for alpha)."""
    mode, out = "RGBA" if frame.hasalpha() else "RGB", io.BytesIO()
    pixels = bytes(frame.write_to_memory())
    Image.frombytes(mode, (frame.width, frame.height), pixels).save(out, "AVIF", **_avif_options(quality))
    return out.getvalue()


def _avif_options(quality: int, alpha: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "quality": quality,
        "speed": AVIF_SPEED,
        "subsampling": "4:4:4",
        "max_threads": 1,
        "codec": "aom",
        "advanced": alpha or ALPHA_OPTIONS,
    }


def _encode(
    path: Path,
    info: ImageInfo,
    check_stop: CheckStop,
    pillow_format: str,
    max_delay_ms: int | None = None,
    max_plays: int | None = None,
    **options: Any,
) -> bytes:
    """The animation written by Pillow, its delays and plays limited to what the format can store."""
    with opened(path) as data:
        delays, plays = _timing(data, info)
        if info.frames != len(delays):
            raise BrokenImage(
                f"The animation is damaged: its header declares {info.frames} frames, but it has {len(delays)}."
            )
        with _composed(path, data, info) as frame_at:
            frames = _Frames(frame_at, info, check_stop)
            out = io.BytesIO()
            delays = [delay if max_delay_ms is None else min(delay, max_delay_ms) for delay in delays]
            plays = plays if max_plays is None else min(plays, max_plays)
            frames.save(out, pillow_format, save_all=True, duration=delays, loop=plays, **options)
    check_stop()
    return out.getvalue()


@contextmanager
def _composed(path: Path, data: Data, info: ImageInfo) -> Iterator[Callable[[int], Image.Image]]:
    """A function from a frame's number to the complete frame, with alpha if it may have any.

    Frames should be requested in ascending order: going back decodes from the first frame again.
    """
    if info.format is Format.GIF:
        yield _gif_frames(path, info)
    elif info.format is Format.PNG:
        yield _apng_frames(data, info)
    else:
        with Image.open(path, formats=[info.format.value.upper()]) as source:

            def frame_at(number: int) -> Image.Image:
                source.seek(number)
                return source.convert("RGBA" if info.has_alpha else "RGB")

            yield frame_at


def _gif_frames(path: Path, info: ImageInfo) -> Callable[[int], Image.Image]:
    stacked: pyvips.Image | None = None
    next_frame = 0

    def frame_at(number: int) -> Image.Image:
        nonlocal stacked, next_frame
        if stacked is None or number < next_frame:
            stacked = open_upright(path, info, all_frames=True).colourspace("srgb")
        next_frame = number + 1
        height = stacked.get_page_height()
        pixels = stacked.crop(0, number * height, stacked.width, height).write_to_memory()
        return Image.frombytes("RGBA" if stacked.bands == 4 else "RGB", (stacked.width, height), bytes(pixels))

    return frame_at


def _apng_frames(data: Data, info: ImageInfo) -> Callable[[int], Image.Image]:
    frames, palette = apng.frames(data), apng.palette_chunks(data)
    canvas, next_frame = Image.new("RGBA", (0, 0)), 0

    def frame_at(number: int) -> Image.Image:
        nonlocal canvas, next_frame
        if number < next_frame or next_frame == 0:
            canvas, next_frame = Image.new("RGBA", (info.width_px, info.height_px)), 0
        while True:
            frame, is_first = frames[next_frame], next_frame == 0
            part = _rgba_of_png(apng.as_png(data, frame, palette))
            before = canvas.copy() if frame.disposal == apng.DISPOSE_PREVIOUS and not is_first else None
            area = (frame.left, frame.top, frame.left + frame.width, frame.top + frame.height)
            if frame.blend_over:
                canvas.alpha_composite(part, area[:2])
            else:
                canvas.paste(part, area)
            whole = canvas.copy()
            if before is not None:
                canvas = before
            # for the first frame DISPOSE_PREVIOUS also clears the canvas, which was empty before it
            elif frame.disposal in (apng.DISPOSE_BACKGROUND, apng.DISPOSE_PREVIOUS):
                canvas.paste((0, 0, 0, 0), area)
            next_frame += 1
            if next_frame > number:
                return whole

    return frame_at


def _rgba_of_png(encoded: bytes) -> Image.Image:
    """A PNG as RGBA, decoded by libvips: Pillow converts 16-bit grey to white."""
    stored = pyvips.Image.pngload_buffer(encoded, fail_on="error").colourspace("srgb")
    stored = stored if stored.hasalpha() else stored.bandjoin(255)
    return Image.frombytes("RGBA", (stored.width, stored.height), bytes(stored.write_to_memory()))
