"""Optimizes GIF files: stores only the changes between frames, and compresses them better. Also scales GIFs.

The encoder may round colours in frames that have a palette of their own. When a GIF is optimized, the result is
compared with the source frame by frame and discarded if a difference is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from imgproc_local.codecs import animation
from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import gif as container
from imgproc_local.codecs.picture.decode import evaluate, open_upright, rgba
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.picture.source import Source
from imgproc_local.codecs.quality.search import LARGE_PIXELS
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Format, ScaledSize

_MAX_WORST_ERROR = 12
_MAX_MEAN_ERROR = 0.5
"""The largest difference of one channel of a pixel, and the largest mean difference over all frames, from 0 to 255."""

_MAX_ROUNDED_SIZE_SHARE = 0.85
"""A result with rounded colours must not be larger than this share of its source, because each optimization rounds
the colours again.
"""

_MAX_COMPACT_BYTES_PER_PIXEL = 0.02
"""A large animation is not encoded again if it has at most this many bytes per pixel: it already stores only changes,
and encoding it for seconds would save nothing.
"""

_OPTIONS = {"effort": 7, "keep_duplicate_frames": True, "keep": "none"}


def candidates(source: Source) -> Iterator[bytes]:
    """The clean copy, and encodings with the same frames, delays and number of plays.

    A result is encoded again, up to four times, until it does not get smaller, so that optimizing it again returns it
    unchanged. One time is nearly always enough.
    """
    info, check_stop = source.info, source.check_stop
    open_frames = partial(open_upright, source.path, info, all_frames=True)
    best = source.clean_copy()
    yield best
    if info.pixels >= LARGE_PIXELS and len(source.data) <= _MAX_COMPACT_BYTES_PER_PIXEL * info.pixels:
        # decode all frames, so that a damaged file is refused although its data is only copied
        evaluate(open_frames(), check_stop, "avg")
        return
    blocks = source.blocks_for(Format.GIF)
    for _ in range(4):
        smaller = _smaller(open_frames, len(best), blocks, check_stop)
        if smaller is None:
            return
        best = smaller
        yield best
        open_frames = partial(_load_frames, best)


def scaled(source: Source, size: ScaledSize) -> bytes:
    """The frames scaled to `size`, with new palettes, and the same delays and number of plays.

    A GIF's pixels are transparent or opaque, so the soft edges of scaled alpha become hard.
    """
    frames = animation.scaled_frames(source, size)
    encoded = evaluate(frames, source.check_stop, "gifsave_buffer", **_OPTIONS)
    return source.finished(encoded, Format.GIF, None)


def _smaller(
    open_frames: Callable[[], pyvips.Image], size_bytes: int, blocks: Blocks, check_stop: CheckStop
) -> bytes | None:
    """The frames encoded again as a GIF with `blocks`; None if it looks different or is not smaller than `size_bytes`.

    With rounded colours it must have at most `_MAX_ROUNDED_SIZE_SHARE` of that.
    """
    encoded = evaluate(open_frames(), check_stop, "gifsave_buffer", reuse=True, **_OPTIONS)
    smaller = container.with_blocks(encoded, blocks)
    if len(smaller) >= size_bytes:
        return None
    worst, mean = _error(open_frames(), _load_frames(encoded), check_stop)
    looks_same = worst <= _MAX_WORST_ERROR and mean <= _MAX_MEAN_ERROR
    if worst == 0 or (looks_same and len(smaller) <= _MAX_ROUNDED_SIZE_SHARE * size_bytes):
        return smaller
    return None


def _load_frames(data: bytes) -> pyvips.Image:
    """All frames of a GIF in memory, one below the other, as `open_upright` reads them from a file."""
    return pyvips.Image.gifload_buffer(data, n=-1, access="sequential", fail_on="error")


def _error(old: pyvips.Image, new: pyvips.Image, check_stop: CheckStop) -> tuple[float, float]:
    """The largest and the mean difference over all frames, ignoring the colours of transparent pixels."""
    if (old.width, old.height) != (new.width, new.height):
        return 255.0, 255.0
    statistics = evaluate((rgba(old) - rgba(new)).abs().cast("uchar"), check_stop, "stats")
    # row 0 has the statistics of all bands together: minimum, maximum, sum, sum of squares, mean
    return statistics(1, 0)[0], statistics(4, 0)[0]
