"""Animations that libvips can't read or write: APNG in, AVIF sequences out, through Pillow.

Frames pass one at a time, so that memory does not grow with their number.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from PIL import Image, features

from imgproc_local.codecs.container import Blocks, Data, avif, gif, png, webp
from imgproc_local.codecs.decode import CheckStop
from imgproc_local.codecs.probe import opened
from imgproc_local.domain.errors import BrokenImage
from imgproc_local.domain.image import Format, ImageInfo

if not features.check("avif"):  # where Pillow's own build has none, its plugin is installed
    import pillow_avif  # type: ignore[import-not-found, unused-ignore]  # noqa: F401

AVIF_QUALITY = 60
AVIF_SPEED = 8
WEBP_QUALITY = 75
WEBP_EFFORT = 3

_TIMING = {Format.GIF: gif.read_timing, Format.PNG: png.read_timing, Format.WEBP: webp.read_timing}


class _Frames(Image.Image):
    """An animation as Pillow's encoders walk through it: whole frames of one mode, `check_stop` asked at each."""

    is_animated = True

    def __init__(self, source: Image.Image, first: int, count: int, mode: str, check_stop: CheckStop) -> None:
        super().__init__()
        self._source, self._first, self._at = source, first, -1
        self._mode_wanted, self._check_stop = mode, check_stop
        self.n_frames = count
        self.seek(0)

    def seek(self, frame: int) -> None:
        """Raises: EOFError behind the last frame, as Pillow wants it."""
        if frame >= self.n_frames:
            raise EOFError
        if frame == self._at:
            return
        self._check_stop()
        self._source.seek(self._first + frame)
        shown = self._source.convert(self._mode_wanted)
        self.im, self._mode, self._size, self._at = shown.im, shown.mode, shown.size, frame

    def tell(self) -> int:
        return self._at


def encode_webp(path: Path, info: ImageInfo, check_stop: CheckStop) -> bytes:
    """The animation as WebP without metadata, its delays and number of plays kept."""
    return _encode(
        path, info, check_stop, "WEBP", quality=WEBP_QUALITY, method=WEBP_EFFORT, allow_mixed=True, minimize_size=False
    )


def encode_avif(path: Path, info: ImageInfo, blocks: Blocks, check_stop: CheckStop) -> bytes:
    """The animation as an AVIF sequence with these metadata blocks, its delays and number of plays kept."""
    more = {
        name: block
        for name, block in (("exif", blocks.exif), ("xmp", blocks.xmp), ("icc_profile", blocks.icc))
        if block
    }
    encoded = _encode(path, info, check_stop, "AVIF", quality=AVIF_QUALITY, speed=AVIF_SPEED, max_threads=1, **more)
    with opened(path) as data:
        _, plays = _TIMING[info.format](data)
    return avif.with_plays(encoded, plays)


def _encode(path: Path, info: ImageInfo, check_stop: CheckStop, form: str, **options: Any) -> bytes:
    with opened(path) as data:
        delays_ms, plays = _TIMING[info.format](data)
        first = _first_frame(data, info)
    with Image.open(path, formats=[info.format.value.upper()]) as source:
        count = getattr(source, "n_frames", 1) - first
        if count != len(delays_ms):
            raise BrokenImage(f"The animation is damaged: it says {len(delays_ms)} frames and has {count}.")
        frames = _Frames(source, first, count, "RGBA" if info.has_alpha else "RGB", check_stop)
        out = io.BytesIO()
        frames.save(out, form, save_all=True, duration=delays_ms, loop=plays, **options)
    check_stop()
    return out.getvalue()


def _first_frame(data: Data, info: ImageInfo) -> int:
    """1 where an APNG's plain picture is no frame of its animation."""
    if info.format is not Format.PNG:
        return 0
    for chunk in png.chunks(data):
        if chunk.kind in (b"fcTL", b"IDAT"):
            return int(chunk.kind == b"IDAT")
    return 0
