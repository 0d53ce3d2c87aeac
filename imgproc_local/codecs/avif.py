"""AVIF: still and animated pictures converted to it, and AVIF files made smaller.

Pillow's libavif encodes stills of 8 bits, and animations: it offers all options of the encoder libaom, among them the
copying of blocks that repeat, which graphics need, and a quality of its own for alpha. libvips encodes opaque stills of
more bits, and opaque ones that are too large for 4:4:4.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from msgspec import Struct
from PIL import Image

from imgproc_local.codecs import animation
from imgproc_local.codecs.container import avif as container
from imgproc_local.codecs.container import avif_writer
from imgproc_local.codecs.picture import decode
from imgproc_local.codecs.picture.libvips import of_samples, pyvips, with_profile
from imgproc_local.codecs.picture.source import Source, with_score
from imgproc_local.codecs.quality import search
from imgproc_local.codecs.quality.score import Sample
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.plan import Effort

_QUALITIES = (1, 3, *range(6, 34, 2), *(34 + 5 * i // 3 for i in range(12)), *(54 + 4 * i // 3 for i in range(36)))
"""The lowest of 100 quality numbers for each of the encoder's 64 levels. The search for stills counts in levels."""

_SCALE = search.QualityScale(
    0, _QUALITIES.index(76), _QUALITIES.index(95), slope=0.95, min_slope_ratio_down=0.75, larger_gain=0.5
)
_GRAPHIC_SCALE = search.QualityScale(0, 30, _QUALITIES.index(95), slope=0.7, min_slope_ratio_down=0.4)
_ANIMATION_SCALE = search.QualityScale(lowest=1, initial=65, highest=95, slope=0.7, min_slope_ratio_down=0.75)


class _Settings(Struct, frozen=True):
    """The effort, which is 9 minus libaom's speed, for the final encoding and for drafts; None if none are made.

    At the same quality a draft scores `draft_deficit` points less than the final encoding, whose colours are encoded
    with these options of libaom.
    """

    final: int
    draft: int | None
    draft_deficit: float
    options: dict[str, str] = {}


_NO_TRELLIS = {"c:disable-trellis-quant": "1"}
"""Trellis quantization takes 13 to 19 % of the time and saves no bytes at equal score, but 1 % at effort 2."""
_SQUARES = _NO_TRELLIS | {"c:enable-rect-partitions": "0"}
"""Only square blocks: half the time, and 2 % more bytes for photographs, but 4 to 23 % more for graphics."""

_EFFORTS: dict[Effort, _Settings] = {
    "fast": _Settings(2, 0, 0.7),
    "balanced": _Settings(4, 0, 0.9, _SQUARES),
    "best": _Settings(6, 0, 1.3, _NO_TRELLIS),
}
"""For photographs of 8 bits. Effort 4 with square blocks takes twice as long as effort 3 and saves 3 %; effort 6 with
all blocks takes five times as long as that and saves 4 % more.
"""

_GRAPHIC_EFFORTS: dict[Effort, _Settings] = {
    "fast": _Settings(2, None, 0.0, _NO_TRELLIS),
    "balanced": _Settings(3, None, 0.0, _NO_TRELLIS),
    "best": _Settings(4, None, 0.0, _NO_TRELLIS),
}
"""For graphics of 8 bits. Drafts mislead: they score up to 8 points less than the final encoding."""

_LIBVIPS_EFFORTS: dict[Effort, _Settings] = {
    "fast": _Settings(2, 0, 1.5),
    "balanced": _Settings(3, 0, 2.2),
    "best": _Settings(4, 2, 1.1),
}
"""For stills of more bits and large ones, whose quality is found on a sample."""

_ANIMATION_EFFORT = 1
_LOSSLESS_ALPHA = {"a:lossless": "1"}
_ALPHA_LEVELS, _ANIMATION_ALPHA_LEVEL = (20, 14, 10, 6, 3), 6
"""libaom's levels of quality for alpha, the lowest quality first, and the one for animations."""

MAX_ALPHA_ERROR = 16
"""The largest error of a pixel's alpha, of 255. Errors show as fringes around every cut-out shape, also where colours
of the same quality look right: at their quality the largest was 115.
"""

MAX_TILE_PIXELS = 13_000_000
"""Pictures of more pixels are encoded at the quality found for a sample, in 4:2:0, as a grid of tiles of at most this
size. Encoding takes 21 bytes of memory per pixel in 4:2:0 and 8 bits, and 65 in 4:4:4 and 10 bits.
"""


def candidates(source: Source) -> Iterator[bytes]:
    """The clean copy and, of a still picture of 8 bits whose quality is higher than the target, an encoding.

    Of all others the picture data is preserved bit for bit, and only metadata is removed: of animations, more bits,
    HDR, gain maps, wide gamuts given by CICP numbers, and sides too long for libvips.
    """
    info, data, check_stop = source.info, source.data, source.check_stop
    yield source.clean_copy()
    image = decode.open_upright(source.path, info)
    too_long = max(info.width_px, info.height_px) > container.MAX_SIDE_PX
    if info.colours or info.has_gain_map or info.frames > 1 or too_long or image.format != "uchar":
        # decodes the picture, so that damage is reported
        decode.evaluate(image, check_stop, "avg")
        return
    image, profile = decode.evaluate(image, check_stop, "copy_memory"), source.record.icc
    sample = Sample(image, profile=profile)
    # lossy alpha would lose some more of it each time
    encoder = _encoder(source, profile, _LOSSLESS_ALPHA)
    size_bytes = container.picture_bytes(data)
    encoded = search.reencode_smaller(image, encoder, size_bytes, source.options.target, sample)
    if encoded:
        yield source.finished(encoded, Format.AVIF, profile)


def converted(source: Source) -> bytes:
    """The picture as AVIF; an animation becomes an AVIF sequence.

    An opaque source of 12 bits is stored in 12 bits, any other opaque one of more than 8 bits in 10. Colours that
    numbers define, as HDR, remain so.
    """
    if source.info.frames > 1:
        encoded = _animated(animation.with_actual_alpha(source))
    else:
        encoded = decode.decode_complete(source.path, source.info, partial(_still, source))
    return source.finished(encoded, Format.AVIF, source.record.icc)


def _still(source: Source, fail_on: str) -> bytes:
    info, target = source.info, source.options.target
    whole, profile = _decoded(source, fail_on)
    image = decode.evaluate(whole, source.check_stop, "copy_memory")
    if info.colours is None:
        image = decode.in_eight_bits(image).copy_memory()
    # encoding would change the values of an opaque alpha channel too
    opaque = image.hasalpha() and image[image.bands - 1].min() == (65535 if image.format == "ushort" else 255)
    if opaque:
        image = decode.without_alpha(image).copy_memory()
    by_sample = _is_for_libvips(info)
    if not by_sample:
        image, profile = decode.to_srgb_if_visually_lossless(image, profile)
    sample = Sample(image, profile=info.colours or profile)
    is_searched = image.hasalpha() and info.pixels <= MAX_TILE_PIXELS and info.colours is None
    alpha = _alpha_options(image, _settings(source).final) if is_searched else _LOSSLESS_ALPHA
    encoder = _encoder(source, profile, alpha)
    if not by_sample:
        return search.encode_to_score(image, encoder, target, sample).encoded
    quality, expected = search.quality_by_sample(sample, encoder, target)
    # frees the decoded picture before the encoder takes its share of memory
    del whole, image, sample
    whole, _ = _decoded(source, fail_on)
    return with_score(encoder.encode(decode.without_alpha(whole) if opaque else whole, quality), expected)


def _decoded(source: Source, fail_on: str) -> tuple[pyvips.Image, bytes | None]:
    """The picture as AVIF stores it, and the profile to store with it."""
    image = decode.open_upright(source.path, source.info, fail_on=fail_on)
    return decode.for_display(image, source.record.icc, eight_bit=False)


def _animated(source: Source) -> bytes:
    """An AVIF sequence whose sampled frames score nearest to the target."""
    info, target = source.info, source.options.target
    profile = source.record.icc
    sample = Sample(animation.sample_frames(source), profile=profile)
    # a GIF's alpha is 0 or 255: lossless compression makes it smallest
    alpha = _LOSSLESS_ALPHA if info.format is Format.GIF else _alpha_level(_ANIMATION_ALPHA_LEVEL)

    def still(frame: pyvips.Image, quality: int) -> bytes:
        return _by_libavif(frame, _libavif_options(quality, _ANIMATION_EFFORT, alpha))

    def attempt(quality: int) -> search.SearchResult:
        encoded = animation.encode(source, "AVIF", **_libavif_options(quality, _ANIMATION_EFFORT, alpha, profile))
        decoded = sample.part_of(animation.sample_frames_of_result(encoded, info, source.check_stop))
        return search.SearchResult(quality, encoded, sample.score(decoded))

    encoder = search.EncoderProfile(still, None, _as_browsers_read, _ANIMATION_SCALE)
    stills = search.encode_by_sample(sample, encoder, target)
    found = search.refine(attempt, _ANIMATION_SCALE, target, stills.quality)
    return with_score(container.with_plays(found.encoded, animation.timing(source, "AVIF")[1]), found.score)


def _encoder(source: Source, profile: bytes | None, alpha: dict[str, str]) -> search.EncoderProfile:
    """Encodes a picture and its sample; alpha with these options of libaom."""
    info, settings = source.info, _settings(source)
    is_large = info.pixels > MAX_TILE_PIXELS
    bits = info.bits_per_sample if info.bits_per_sample in (8, 12) else 10

    def save(part: pyvips.Image, quality: int, effort: int, bits: int, subsampling: str, **aom: str) -> bytes:
        source.check_stop()  # libavif does not ask
        level = _QUALITIES[quality]
        if part.hasalpha() or not _is_for_libvips(info):
            by_libavif = _libavif_options(level, effort, alpha | aom, profile, subsampling)
            return with_colours(_by_libavif(decode.in_eight_bits(part), by_libavif))
        options = {"Q": level, "effort": effort, "bitdepth": bits}
        options["subsample_mode"] = "on" if subsampling == "4:2:0" else "off"
        return with_colours(_by_libvips(part, profile, source.check_stop, **options))

    def with_colours(encoded: bytes) -> bytes:
        return avif_writer.with_colours(encoded, info.colours) if info.colours else encoded

    def draft(part: pyvips.Image, quality: int) -> bytes:
        draft_bits = bits if info.colours else 8
        return save(part, quality, settings.draft or 0, draft_bits, "4:2:0" if is_large else "4:4:4")

    def encode(part: pyvips.Image, quality: int) -> bytes:
        tiles, columns = [part], 1
        if part.width * part.height > MAX_TILE_PIXELS:
            part = decode.evaluate(part, source.check_stop, "copy_memory")
            tiles, columns = _tiles(part)
        # a grid of subsampled tiles must have even sides
        is_odd = len(tiles) > 1 and (part.width % 2 or part.height % 2)
        subsampling = "4:2:0" if is_large and not is_odd else "4:4:4"
        encoded = [save(tile, quality, settings.final, bits, subsampling, **settings.options) for tile in tiles]
        return encoded[0] if len(tiles) == 1 else avif_writer.joined(encoded, columns, part.width, part.height)

    decoder = pyvips.Image.heifload_buffer if info.colours else _as_browsers_read
    if settings.draft is None:
        return search.EncoderProfile(encode, None, decoder, _GRAPHIC_SCALE, found=source.found)
    return search.EncoderProfile(encode, draft, decoder, _SCALE, settings.draft_deficit, found=source.found)


def _is_for_libvips(info: ImageInfo) -> bool:
    return info.pixels > MAX_TILE_PIXELS or info.bits_per_sample > 8 or info.colours is not None


def _settings(source: Source) -> _Settings:
    if _is_for_libvips(source.info):
        return _LIBVIPS_EFFORTS[source.options.effort]
    return (_GRAPHIC_EFFORTS if source.is_graphic else _EFFORTS)[source.options.effort]


def _alpha_options(image: pyvips.Image, effort: int) -> dict[str, str]:
    """The options with the fewest bytes for the alpha of an 8-bit picture in memory within `MAX_ALPHA_ERROR`."""
    alpha = image[image.bands - 1]
    black = pyvips.Image.black(image.width, image.height, bands=3).bandjoin(alpha).copy(interpretation="srgb")
    for options in map(_alpha_level, _ALPHA_LEVELS):
        shown = _as_browsers_read(_by_libavif(black, _libavif_options(50, effort, options)))
        # an encoder may drop opaque alpha
        if shown.hasalpha() and (shown[3] - alpha).abs().max() <= MAX_ALPHA_ERROR:
            return options
    return _LOSSLESS_ALPHA


def _alpha_level(level: int) -> dict[str, str]:
    return {"a:end-usage": "q", "a:cq-level": str(level)}


def _by_libvips(image: pyvips.Image, profile: bytes | None, check_stop: CheckStop, **options: Any) -> bytes:
    """An opaque picture as AVIF with this profile."""
    if image.format == "uchar" and options["bitdepth"] > 8:
        # white as 65535: libvips would shift 8 bits into 10, and viewers show its white as 254
        image = (image * 257).cast("ushort").copy(interpretation="grey16" if image.bands < 3 else "rgb16")
    image, keep = with_profile(image, profile), "icc" if profile else "none"
    return bytes(decode.evaluate(image, check_stop, "heifsave_buffer", compression="av1", keep=keep, **options))


def _by_libavif(image: pyvips.Image, options: dict[str, Any]) -> bytes:
    """A picture of 8 bits, with or without alpha, as AVIF."""
    if image.bands < 3:
        image = image.colourspace("srgb")
    # of a still, libavif stores no opaque alpha; from RGB, it makes chroma that is half a level too low
    pixels, out = (image if image.hasalpha() else image.bandjoin(255)).write_to_memory(), io.BytesIO()
    Image.frombytes("RGBA", (image.width, image.height), pixels).save(out, "AVIF", **options)
    return out.getvalue()


def _libavif_options(
    quality: int, effort: int, alpha: dict[str, str], profile: bytes | None = None, subsampling: str = "4:4:4"
) -> dict[str, Any]:
    return {
        "quality": quality,
        "speed": 9 - effort,
        "subsampling": subsampling,
        "max_threads": 1,
        "codec": "aom",
        "advanced": alpha,
        "icc_profile": profile or b"",
    }


def _as_browsers_read(encoded: bytes) -> pyvips.Image:
    """The picture in 8 bits as browsers show it.

    Browsers decode AVIF with libavif, which rounds 10-bit samples down, at a cost of up to two points of score.
    libheif, which libvips uses, rounds to the nearest value.
    """
    image = pyvips.Image.heifload_buffer(encoded)
    if image.format != "ushort":
        return image
    with Image.open(io.BytesIO(encoded)) as shown:
        return of_samples(shown.tobytes(), shown.width, shown.height, len(shown.getbands()))


def _tiles(image: pyvips.Image) -> tuple[list[pyvips.Image], int]:
    """Tiles of equal size, row by row, and their number per row; the last ones are padded beyond the picture's edge."""
    count = math.ceil(image.width * image.height / MAX_TILE_PIXELS)
    columns = math.ceil(math.sqrt(count * image.width / image.height))
    rows = math.ceil(count / columns)
    width, height = (2 * math.ceil(side / parts / 2) for side, parts in ((image.width, columns), (image.height, rows)))
    whole = image.embed(0, 0, columns * width, rows * height, extend="copy")
    return [whole.crop(x * width, y * height, width, height) for y in range(rows) for x in range(columns)], columns
