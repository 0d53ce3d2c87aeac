"""PNG made smaller: fewer colours where nobody sees it, else the same pixels packed better.

A palette is tried only on 8-bit pictures that are not indexed yet, and taken only where it looks the same: the
error is measured after a slight blur, as the eye averages a dither pattern. Indexed and low-bit pictures, animations
and those whose colours depend on chunks that encoders drop (gAMA, cHRM, cICP) keep their very samples: their data is
only deflated again.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pyvips

from imgproc_local.codecs import metadata
from imgproc_local.codecs.border import at_border
from imgproc_local.codecs.container import Data
from imgproc_local.codecs.container import png as container
from imgproc_local.codecs.decode import CheckStop, finish, open_upright
from imgproc_local.codecs.probe import opened
from imgproc_local.domain.image import Format, ImageInfo

WORTH_A_PALETTE = 0.8
PALETTE_QUALITY = 95
MAX_MEAN_ERROR = 1.0
MAX_WORST_ERROR = 8
"""Of 255 steps in the worst channel, after the blur: the mean, and what 999 of 1000 pixels stay under."""

PHOTO_BYTES_PER_PIXEL = 1.8
"""A PNG that needs more than this per pixel is taken for a photograph: a palette is not even tried."""

MAX_PIXELS_IN_MEMORY = 40_000_000
"""Larger pictures are packed row by row in one pass, without trying a palette."""

_COLOUR_CHUNKS = (b"gAMA", b"cHRM", b"cICP", b"mDCV", b"cLLI")
_SRGB_GAMMA = 45455
_PALETTE = 3


@at_border("The PNG can't be optimised")
def optimize(path: Path, info: ImageInfo, check_stop: CheckStop) -> bytes | None:
    """A smaller PNG, None where nothing smaller came out. An APNG stays an animation, frame by frame as it was.

    Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    check_stop()
    with opened(path) as data:
        blocks = metadata.read_blocks(data, Format.PNG)
        clean = metadata.cleaned(
            data,
            blocks,
            Format.PNG,
            lambda new, tight: container.with_blocks(data, new, compress=tight),
            orientation=info.orientation,
        )
        if info.frames > 1 or info.bits_per_sample < 8 or container.colour_type(data) == _PALETTE or _own_colours(data):
            _decode_through(path, info, check_stop)
            best = _deflated_again(clean, info, check_stop)
        else:
            upright = metadata.kept(blocks, Format.PNG, Format.PNG)
            encoded = _encoded(path, info, len(clean), check_stop)
            best = min(clean, container.with_blocks(encoded, upright), key=len)
        return best if len(best) < len(data) else None


def _own_colours(data: Data) -> bool:
    """Whether chunks other than a profile say what the samples mean, and say something else than sRGB."""
    found = {chunk.kind: data[chunk.payload : chunk.end] for chunk in container.chunks(data) if chunk.kind != b"IDAT"}
    if b"cICP" in found or b"mDCV" in found or b"cLLI" in found:
        return True
    if b"sRGB" in found or b"iCCP" in found:
        return False
    gamma = int.from_bytes(found.get(b"gAMA", b""), "big")
    return bool(gamma) and abs(gamma - _SRGB_GAMMA) > 500


def _encoded(path: Path, info: ImageInfo, size_bytes: int, check_stop: CheckStop) -> bytes:
    """The smallest form of the picture that looks the same."""
    image = open_upright(path, info)
    lossless = {"compression": 9, "keep": "none", "bitdepth": info.bits_per_sample}
    if info.pixels > MAX_PIXELS_IN_MEMORY:
        return bytes(finish(image, check_stop, "pngsave_buffer", filter="all", **lossless))
    image = finish(image, check_stop, "copy_memory")
    best = bytes(
        min((finish(image, check_stop, "pngsave_buffer", filter=each, **lossless) for each in ("all", "none")), key=len)
    )
    if info.bits_per_sample > 8 or size_bytes > PHOTO_BYTES_PER_PIXEL * info.pixels:
        return best
    options = {"palette": True, "Q": PALETTE_QUALITY, "effort": 4, "dither": 0.5, "compression": 9, "keep": "none"}
    reduced = bytes(finish(image, check_stop, "pngsave_buffer", **options))
    if len(reduced) > WORTH_A_PALETTE * min(len(best), size_bytes):
        return best
    if not looks_the_same(image, pyvips.Image.pngload_buffer(reduced), check_stop):
        return best
    # as an indexed file is treated that comes in, so that nothing is left to do the next time
    return _deflated_again(reduced, info, check_stop)


def looks_the_same(image: pyvips.Image, reduced: pyvips.Image, check_stop: CheckStop) -> bool:
    """Whether two 8-bit pictures differ by less than is seen; transparent ones are laid over white and over black."""
    pair = [_with_alpha(each) for each in (image, reduced)]
    for background in (255, 0) if image.hasalpha() else (255,):
        shown = [each.flatten(background=[background] * 3).gaussblur(1.0) for each in pair]
        error = (shown[0] - shown[1]).abs().cast("uchar")
        error = finish(error[0].bandrank([error[1], error[2]], index=2), check_stop, "copy_memory")
        if error.avg() > MAX_MEAN_ERROR or _percentile(error, 0.999) > MAX_WORST_ERROR:
            return False
    return True


def _with_alpha(image: pyvips.Image) -> pyvips.Image:
    image = image.colourspace("srgb")
    return image if image.hasalpha() else image.bandjoin(255)


def _percentile(image: pyvips.Image, part: float) -> int:
    """The value that this part of the pixels of a one-band 8-bit picture stays at or under."""
    counts = memoryview(image.hist_find().write_to_memory()).cast("I")
    left = part * image.width * image.height
    for value, count in enumerate(counts):
        left -= count
        if left <= 0:
            return value
    return len(counts)


def _deflated_again(data: bytes, info: ImageInfo, check_stop: CheckStop) -> bytes:
    """The same filtered samples, deflated at the highest level, frame by frame."""
    out = [container.SIGNATURE]
    frame: list[bytes] = []
    pending: bytes | None = None

    def flush() -> None:
        nonlocal pending
        if pending is None:
            return
        check_stop()
        old = b"".join(frame)
        new = _redeflate(old, info)
        payload = new if len(new) < len(old) else old
        out.append(container.chunk_bytes(pending[4:8], pending[8:] + payload))
        frame.clear()
        pending = None

    for chunk in container.chunks(data):
        payload = data[chunk.payload : chunk.end]
        if chunk.kind == b"IDAT":
            pending = pending or b"\0\0\0\0IDAT"
            frame.append(payload)
        elif chunk.kind == b"fdAT":
            # each frame data chunk begins with a sequence number; joining chunks would leave gaps, so they stay single
            flush()
            out.append(container.chunk_bytes(b"fdAT", payload))
        else:
            flush()
            out.append(data[chunk.payload - 8 : chunk.end + 4])
    return b"".join(out)


def _redeflate(stream: bytes, info: ImageInfo) -> bytes:
    # a row has at most 8 bytes per pixel and a filter byte; Adam7 adds a few rows
    limit = (info.width_px * 8 + 8) * (info.height_px + 8) * 2
    inflater = zlib.decompressobj()
    samples = inflater.decompress(stream, limit)
    return zlib.compress(samples, 9)


def _decode_through(path: Path, info: ImageInfo, check_stop: CheckStop) -> None:
    """Reads the picture to its end: what goes out untouched must be whole, too."""
    finish(open_upright(path, info), check_stop, "avg")
