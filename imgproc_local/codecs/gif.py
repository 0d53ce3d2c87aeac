"""GIF files made smaller: only changes between frames are stored, and compressed better.

The encoder may round colours in frames with palettes of their own. Its result is compared frame by frame and discarded
if a difference is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from imgproc_local.codecs.container import Blocks
from imgproc_local.codecs.container import gif as container
from imgproc_local.codecs.picture.decode import CheckStop, finish, open_upright
from imgproc_local.codecs.picture.libvips import pyvips
from imgproc_local.codecs.picture.source import Source
from imgproc_local.domain.image import Format

MAX_WORST_ERROR = 12
MAX_MEAN_ERROR = 0.5
"""The largest single and mean difference over all frames, in steps of 255 per channel."""

ROUNDED_SIZE_SHARE = 0.85
"""A result with rounded colours must not be larger than this share: each optimisation rounds again."""

LONG_FROM_PIXELS = 20_000_000
TIGHT_BYTES_PER_PIXEL = 0.02
"""A long animation below this already stores only changes: encoding it for seconds would save nothing."""

MAX_ROUNDS = 4
"""An output is encoded again until that changes nothing, so that optimising it once more returns it unchanged. One
round is nearly always enough.
"""

_OPTIONS = {"reuse": True, "effort": 7, "keep_duplicate_frames": True, "keep": "none"}


def candidates(source: Source) -> Iterator[bytes]:
    """The clean copy, and encodings with the same frames, delays and loop count."""
    path, info, check_stop = source.path, source.info, source.check_stop
    best = source.clean_copy()
    yield best
    if info.pixels >= LONG_FROM_PIXELS and len(source.data) <= TIGHT_BYTES_PER_PIXEL * info.pixels:
        finish(open_upright(path, info, all_frames=True), check_stop, "avg")
        return
    published = source.blocks_for(Format.GIF)
    smaller = _smaller(partial(open_upright, path, info, all_frames=True), len(best), published, check_stop)
    for _ in range(MAX_ROUNDS):
        if smaller is None:
            return
        best = smaller
        yield best
        smaller = _smaller(partial(_opened, best), len(best), published, check_stop)


def _smaller(
    opened: Callable[[], pyvips.Image], size_bytes: int, blocks: Blocks, check_stop: CheckStop
) -> bytes | None:
    """The GIF encoded again, None if that is not below `size_bytes` or looks different."""
    encoded = finish(opened(), check_stop, "gifsave_buffer", **_OPTIONS)
    smaller = container.with_blocks(encoded, blocks)
    if len(smaller) >= size_bytes:
        return None
    worst, mean = _error(opened(), _opened(encoded), check_stop)
    rounded = worst <= MAX_WORST_ERROR and mean <= MAX_MEAN_ERROR
    if worst == 0 or (rounded and len(smaller) <= ROUNDED_SIZE_SHARE * size_bytes):
        return smaller
    return None


def _opened(data: bytes) -> pyvips.Image:
    """All frames, as `open_upright` reads them from a file."""
    return pyvips.Image.gifload_buffer(data, n=-1, access="sequential", fail_on="error")


def _error(old: pyvips.Image, new: pyvips.Image, check_stop: CheckStop) -> tuple[float, float]:
    """The largest and the mean difference over all frames, ignoring the colours of transparent pixels."""
    if (old.width, old.height) != (new.width, new.height):
        return 255.0, 255.0
    old, new = (_visible(each) for each in (old, new))
    error = finish((old - new).abs().cast("uchar"), check_stop, "stats")
    # row 0 of the statistics is of all bands: minimum, maximum, sum, sum of squares, mean
    return error(1, 0)[0], error(4, 0)[0]


def _visible(image: pyvips.Image) -> pyvips.Image:
    """RGBA with the colours of transparent pixels set to 0; a GIF's alpha is 0 or 255."""
    image = image.colourspace("srgb") if image.bands < 3 else image
    image = image if image.hasalpha() else image.bandjoin(255)
    return (image[0:3] & image[3]).bandjoin(image[3])
