"""AVIF: still and animated pictures converted to it, and AVIF files made smaller.

Stills are encoded by libvips, in 4:4:4 where memory allows; animations by Pillow's libavif.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, structs
from PIL import Image

from imgproc_local.codecs import animation
from imgproc_local.codecs.avif_alpha import AlphaEncoder
from imgproc_local.codecs.container import Blocks, avif_writer
from imgproc_local.codecs.container import avif as container
from imgproc_local.codecs.picture.decode import (
    decode_complete,
    evaluate,
    for_display,
    in_eight_bits,
    open_upright,
    to_srgb_if_visually_lossless,
    without_alpha,
)
from imgproc_local.codecs.picture.libvips import of_samples, pyvips
from imgproc_local.codecs.picture.source import Source
from imgproc_local.codecs.quality.sample import Sample
from imgproc_local.codecs.quality.search import (
    EncoderProfile,
    QualityScale,
    SearchResult,
    encode_by_sample,
    encode_to_score,
    reencode_smaller,
    refine,
)
from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import Format, ImageInfo
from imgproc_local.domain.plan import Effort

QUALITIES = (1, 3, *range(6, 34, 2), *(34 + 5 * i // 3 for i in range(12)), *(54 + 4 * i // 3 for i in range(36)))
"""The lowest of libvips' 100 quality numbers for each of the encoder's 64 levels. The search counts in levels."""

SCALE = QualityScale(0, QUALITIES.index(76), QUALITIES.index(95), slope=0.95, min_slope_ratio_down=0.75)
ANIMATION_SCALE = QualityScale(lowest=1, initial=65, highest=95, slope=0.7, min_slope_ratio_down=0.75)
"""Quality numbers as libavif counts them."""


class EncoderEffort(Struct, frozen=True):
    """libvips' effort for the final encoding, and the options that differ in drafts.

    At the same quality, a draft scores `draft_deficit` points less than the final encoding, or `graphic_draft_deficit`
    points less if the picture is a graphic. With `drafts_suffice`, the quality is estimated from drafts alone.
    """

    effort: int
    draft: dict[str, Any]
    draft_deficit: float
    graphic_draft_deficit: float
    drafts_suffice: bool = False


EFFORTS: dict[Effort, EncoderEffort] = {
    "fast": EncoderEffort(2, {"effort": 0, "bitdepth": 8}, 1.5, 4.0, drafts_suffice=True),
    "balanced": EncoderEffort(3, {"effort": 0, "bitdepth": 8}, 2.2, 6.0),
    "best": EncoderEffort(4, {"effort": 2, "bitdepth": 8}, 1.1, 2.0, drafts_suffice=True),
}
"""Effort 4 takes five times as long as effort 3 and saves 3 % of the bytes; effort 5 takes 1.5 times as long as effort
4 and saves 1 %.
"""

MIN_LARGE_PIXELS = 13_000_000
"""Pictures of at least this size are stored in 4:2:0 and, if the source has 8 bits, in 8 bits. Encoding then takes 21
bytes of memory per pixel; in 4:4:4 and 10 bits it takes 65.
"""

TINY_PIXELS = 256
"""Up to this size a quality below the initial one is not tried: it saves few bytes."""

FLAT_PX, FLAT_SHARE = 8, 0.25
"""A picture is a graphic if more than `FLAT_SHARE` of its pixels equal, in the green band, the pixels `FLAT_PX` to the
right and `FLAT_PX` below. In photographs hardly any do.
"""

GRID_FROM_PIXELS = 24_000_000
MAX_TILE_PIXELS = 8_400_000
"""Pictures of at least `GRID_FROM_PIXELS` are encoded as a grid of tiles of at most `MAX_TILE_PIXELS`, which bounds the
encoder's memory.
"""


def candidates(source: Source) -> Iterator[bytes]:
    """The clean copy and, of a still picture of 8 bits whose quality is higher than the target, an encoding.

    Of all others the picture data is preserved bit for bit, and only metadata is removed: of animations, more bits,
    HDR, wide gamuts given by CICP numbers, sides too long for libvips, and alpha that can't be copied.
    """
    path, info, data, check_stop = source.path, source.info, source.data, source.check_stop
    yield source.clean_copy()
    image = open_upright(path, info)
    too_long = max(info.width_px, info.height_px) > container.MAX_SIDE_PX
    # encoding alpha once more would lose some of it each time, so it is copied
    alpha = avif_writer.stored_alpha(data) if image.hasalpha() and info.orientation == 1 else None
    fixed = container.has_own_colours(data) or info.frames > 1 or (image.hasalpha() and alpha is None)
    if fixed or too_long or image.format != "uchar":
        # decodes the picture, so that damage is reported
        evaluate(image, check_stop, "avg")
        return
    blocks = source.blocks_for(Format.AVIF)
    image = _with_blocks(evaluate(image, check_stop, "copy_memory"), blocks, blocks.icc)
    sample = Sample(image, profile=blocks.icc)
    alphas = AlphaEncoder(check_stop)
    if alpha:
        alphas.use_stored(image, alpha)
    encoder = _encoder(info, source.options.effort, check_stop, alphas, graphic=_is_graphic(sample.image))
    encoded = reencode_smaller(image, blocks.icc, encoder, container.picture_bytes(data), source.options.target, sample)
    if encoded:
        yield container.with_blocks(encoded, blocks)


def converted(source: Source) -> bytes:
    """The picture as AVIF; an animation becomes an AVIF sequence.

    A source of 12 bits is stored in 12 bits, any other of more than 8 bits in 10.
    """
    path, info, check_stop = source.path, source.info, source.check_stop
    target, effort = source.options.target, source.options.effort
    published = source.blocks_for(Format.AVIF)
    if info.frames > 1:
        shown = animation.with_actual_alpha(path, info, check_stop)
        return container.with_blocks(_animated(path, shown, published, target, check_stop), published)

    def encode(fail_on: str) -> bytes:
        def decoded() -> tuple[pyvips.Image, bytes | None]:
            return for_display(open_upright(path, info, fail_on=fail_on), source.record.icc, eight_bit=False)

        image, profile = decoded()
        image = in_eight_bits(evaluate(image, check_stop, "copy_memory")).copy_memory()
        # encoding would change the values of an opaque alpha channel too
        opaque = image.hasalpha() and image[image.bands - 1].min() == 255
        if opaque:
            image = without_alpha(image).copy_memory()
        by_sample = info.pixels >= MIN_LARGE_PIXELS or info.bits_per_sample > 8
        if not by_sample:
            image, profile = to_srgb_if_visually_lossless(image, profile)
            image = _with_blocks(image, published, profile)
        sample = Sample(image, profile=profile)
        encoder = _encoder(info, effort, check_stop, AlphaEncoder(check_stop), graphic=_is_graphic(sample.image))
        if by_sample:
            quality = encode_by_sample(sample, encoder, target).quality
            # frees the decoded picture before the encoder takes its share of memory
            del image, sample
            whole = without_alpha(decoded()[0]) if opaque else decoded()[0]
            if whole.hasalpha() and info.pixels < GRID_FROM_PIXELS:  # read twice, for the colours and for the alpha
                whole = evaluate(whole, check_stop, "copy_memory")
            encoded = encoder.encode(_with_blocks(whole, published, profile), quality)
        else:
            encoded = encode_to_score(image, profile, encoder, target, sample).encoded
        return container.with_blocks(encoded, published)

    return decode_complete(path, info, encode)


def _animated(path: Path, info: ImageInfo, published: Blocks, target: float, check_stop: CheckStop) -> bytes:
    """An AVIF sequence whose sampled frames score nearest to the target."""
    sample = Sample(animation.sample_frames(path, info, check_stop), profile=published.icc)
    encode = animation.encode_frame_avif
    stills = encode_by_sample(sample, EncoderProfile(encode, encode, as_browsers_read, ANIMATION_SCALE), target)

    def attempt(quality: int) -> SearchResult:
        encoded = animation.encode_avif(path, info, published, quality, check_stop)
        decoded = sample.part_of(animation.sample_frames_of_result(encoded, info, check_stop))
        return SearchResult(quality, encoded, sample.score(decoded))

    return refine(attempt, ANIMATION_SCALE, target, stills.quality).encoded


def _is_graphic(image: pyvips.Image) -> bool:
    """Whether large parts of an 8-bit picture in memory have one colour, as graphics have."""
    width, height = image.width - FLAT_PX, image.height - FLAT_PX
    if min(width, height) < FLAT_PX:
        return False
    green = image[min(1, image.bands - 1)]
    here, right, below = (green.crop(x, y, width, height) for x, y in ((0, 0), (FLAT_PX, 0), (0, FLAT_PX)))
    return float(((here == right) & (here == below)).avg()) > 255 * FLAT_SHARE


def _encoder(
    info: ImageInfo, effort: Effort, check_stop: CheckStop, alphas: AlphaEncoder, *, graphic: bool
) -> EncoderProfile:
    settings = EFFORTS[effort]
    final = _options(info, settings.effort, graphic=graphic)

    def save(part: pyvips.Image, **options: Any) -> bytes:
        part = without_alpha(part)
        if part.format == "uchar" and options["bitdepth"] > 8:
            part = _in_sixteen_bits(part)
        return bytes(evaluate(part, check_stop, "heifsave_buffer", **options))

    def draft(part: pyvips.Image, quality: int) -> bytes:
        colour = save(part, keep="none", Q=QUALITIES[quality], **final | settings.draft)
        if not part.hasalpha():
            return colour
        return avif_writer.assemble([colour], [alphas.draft(part)], 1, part.width, part.height, Blocks())

    def encode(part: pyvips.Image, quality: int) -> bytes:
        options = final | {"Q": QUALITIES[quality]}
        is_grid = part.width * part.height >= GRID_FROM_PIXELS
        tiles, columns = [part], 1
        if is_grid:
            if part.width % 2 or part.height % 2:  # a grid of subsampled tiles must have even sides
                options["subsample_mode"] = "off"
            part = evaluate(part, check_stop, "copy_memory")
            tiles, columns = _tiles(part)
        colour = [save(tile, keep="none", **options) for tile in tiles]
        alpha = []
        if part.hasalpha():
            alpha = [alphas.encode(tile, final["bitdepth"], len(own)) for tile, own in zip(tiles, colour, strict=True)]
        return avif_writer.assemble(colour, alpha, columns, part.width, part.height, _blocks(part))

    scale = structs.replace(SCALE, lowest=SCALE.initial) if info.pixels <= TINY_PIXELS else SCALE
    return EncoderProfile(
        encode,
        draft,
        as_browsers_read,
        scale,
        settings.graphic_draft_deficit if graphic else settings.draft_deficit,
        settings.drafts_suffice,
    )


def as_browsers_read(encoded: bytes) -> pyvips.Image:
    """The picture in 8 bits as browsers show it.

    Browsers and Pillow decode AVIF with libavif, which rounds 10-bit samples down, at a cost of up to two points of
    score. libheif, which libvips uses, rounds to the nearest value.
    """
    image = pyvips.Image.heifload_buffer(encoded)
    if image.format != "ushort":
        return image
    with Image.open(io.BytesIO(encoded)) as shown:
        mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[image.bands]
        rows = shown.convert(mode).tobytes()
    return of_samples(rows, image.width, image.height, image.bands)


def _in_sixteen_bits(image: pyvips.Image) -> pyvips.Image:
    """The picture in 16 bits, white as 65535. Given 8 bits, libvips shifts them into 10: viewers show white as 254."""
    spread = (image * 257).cast("ushort")
    return spread.copy(interpretation="grey16" if image.bands < 3 else "rgb16")


def _tiles(image: pyvips.Image) -> tuple[list[pyvips.Image], int]:
    """Tiles of equal size, row by row, and their number per row; the last ones are padded beyond the picture's edge."""
    count = math.ceil(image.width * image.height / MAX_TILE_PIXELS)
    columns = math.ceil(math.sqrt(count * image.width / image.height))
    rows = math.ceil(count / columns)
    width, height = (2 * math.ceil(side / parts / 2) for side, parts in ((image.width, columns), (image.height, rows)))
    whole = image.embed(0, 0, columns * width, rows * height, extend="copy")
    return [whole.crop(x * width, y * height, width, height) for y in range(rows) for x in range(columns)], columns


def _blocks(image: pyvips.Image) -> Blocks:
    """The metadata that `_with_blocks` attached."""
    fields = set(image.get_fields())
    exif, xmp, icc = (
        bytes(image.get(name)) if name in fields else None for name in ("exif-data", "xmp-data", "icc-profile-data")
    )
    return Blocks(exif.removeprefix(b"Exif\0\0") if exif else None, xmp, None, icc)


def _with_blocks(image: pyvips.Image, published: Blocks, profile: bytes | None) -> pyvips.Image:
    image = image.copy()
    for name in image.get_fields():
        if name.endswith("-data") or name.startswith("exif-"):
            image.remove(name)
    for name, block in (("exif-data", published.exif), ("xmp-data", published.xmp), ("icc-profile-data", profile)):
        if block:
            image.set_type(pyvips.GValue.blob_type, name, b"Exif\0\0" + block if name == "exif-data" else block)
    return image


def _options(info: ImageInfo, effort: int, *, graphic: bool) -> dict[str, Any]:
    large = info.pixels >= MIN_LARGE_PIXELS
    if info.bits_per_sample > 8:
        depth = 12 if info.bits_per_sample == 12 else 10
    else:
        # 10 bits take a fifth more time. They save 1 to 7 % in photographs that were never lossily compressed, and
        # nothing in others
        depth = 10 if info.format is Format.PNG and not graphic and not large else 8
    return {"effort": effort, "compression": "av1", "subsample_mode": "on" if large else "off", "bitdepth": depth}
