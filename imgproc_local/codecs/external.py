"""Pictures that an external service optimizes: which may be sent, and the checks on its results.

A picture is sent without metadata, and the metadata to preserve is written into the result. Results are not trusted:
each must be a complete picture of the same format, size and appearance.

A picture is not sent if an external encoder would lose something that can't be restored: animations, gain maps, CMYK,
grey with a profile, more than 8 bits, HDR, a PNG with colour chunks instead of a profile, an AVIF with a profile or a
rotation.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from msgspec import structs

from imgproc_local.codecs.container import Blocks, Data, jpeg, png
from imgproc_local.codecs.metadata.icc import colour_space, kept_profile
from imgproc_local.codecs.metadata.record import blocks_for
from imgproc_local.codecs.picture.decode import thumbnail
from imgproc_local.codecs.picture.formats import FORMATS, HEAD_BYTES, detect
from imgproc_local.codecs.picture.libvips import of_samples, translate_errors
from imgproc_local.codecs.picture.source import Picture, opened, read_picture
from imgproc_local.domain.errors import BadImage, CheckStop, ExternalServiceFailed
from imgproc_local.domain.image import Disclosure, Format, ImageInfo, Pixels

_THUMBNAIL_SIDE_PX = 256
_MAX_MEAN_ERROR = 8.0
"""The largest mean difference, from 0 to 255, between the thumbnails of original and result. Compression causes far
less, and another picture differs far more.
"""
_MAX_ALPHA_ERROR = 0.02
"""The largest difference between the mean opacities, from 0.0 to 1.0, of original and result."""

_SENDABLE_FORMATS = (Format.JPEG, Format.PNG, Format.WEBP, Format.AVIF)


@translate_errors("The picture can't be read")
def file_to_send(path: Path, picture: Picture) -> bytes | None:
    """The file to send: its pixels as stored, its profile, no other metadata. None if the picture may not be sent.

    Raises: BrokenImage, StageFailed.
    """
    info = picture.info
    if info.format not in _SENDABLE_FORMATS or info.frames > 1 or info.bits_per_sample > 8:
        return None
    with opened(path) as data:
        if _may_not_be_sent(data, info, picture.record.icc):
            return None
        return FORMATS[info.format].container.with_blocks(data, Blocks(icc=picture.record.icc))


def _may_not_be_sent(data: Data, info: ImageInfo, profile: bytes | None) -> bool:
    if info.colours or info.has_gain_map or (profile is not None and colour_space(profile) != "RGB"):
        return True
    if info.format is Format.JPEG:
        return jpeg.components(data) > 3
    if info.format is Format.PNG:
        if png.has_chunk(data, b"cICP", b"mDCV", b"cLLI"):
            return True
        return png.has_chunk(data, b"gAMA", b"cHRM") and not png.has_chunk(data, b"sRGB", b"iCCP")
    if info.format is Format.AVIF:
        return info.orientation != 1 or profile is not None
    return False


@translate_errors("The compression service's result can't be used")
def checked_result(path: Path, picture: Picture, result: bytes, check_stop: CheckStop) -> bytes | None:
    """The service's `result` with the metadata of the original; None if that is not smaller than the original.

    The orientation remains a tag, because the pixels were sent as stored. The profile is restored if the result has
    none and its pixels have not been converted to sRGB.
    Raises: ExternalServiceFailed if the result is not the same picture; BrokenImage and StageFailed for the original,
    and what `check_stop` raises.
    """
    check_stop()
    info, record = picture.info, picture.record
    as_stored = structs.replace(info, orientation=1)
    original = thumbnail(path, as_stored, _THUMBNAIL_SIDE_PX, check_stop)
    container = FORMATS[info.format].container
    with tempfile.TemporaryDirectory(prefix="imgproc-") as folder:
        file = Path(folder) / "result"
        try:
            file.write_bytes(result)
            read = read_picture(file, detect(result[:HEAD_BYTES]), info.pixels, Disclosure())
            _require_same_kind(read.info, as_stored)
            received = container.read_blocks(result)
            profiles = [kept_profile(received.icc)]
            if not received.icc and info.format is not Format.AVIF and record.icc is not None:
                profiles.append(record.icc)
            errors = []
            for profile in profiles:
                file.write_bytes(container.with_blocks(result, Blocks(icc=profile)))
                errors.append(_difference(original, thumbnail(file, as_stored, _THUMBNAIL_SIDE_PX, check_stop)))
        except BadImage as error:
            raise ExternalServiceFailed(
                "The compression service sent a file that is not a complete picture of the same format."
            ) from error
    best = min(range(len(profiles)), key=errors.__getitem__)
    if errors[best] > _MAX_MEAN_ERROR:
        raise ExternalServiceFailed("The compression service sent a picture that looks different.")
    preserved = blocks_for(record, info.format, orientation=info.orientation)
    complete = container.with_blocks(result, structs.replace(preserved, icc=profiles[best]))
    return complete if len(complete) < path.stat().st_size else None


def _require_same_kind(received: ImageInfo, sent: ImageInfo) -> None:
    if received.format is not sent.format:
        names = FORMATS[sent.format].name, FORMATS[received.format].name
        raise ExternalServiceFailed("The compression service received a {} and sent a {}.".format(*names))
    size = (received.width_px, received.height_px, received.frames, received.orientation)
    if size != (sent.width_px, sent.height_px, 1, 1):
        raise ExternalServiceFailed("The compression service sent a picture of another size, rotated or animated.")


def _difference(one: Pixels, other: Pixels) -> float:
    """The mean difference of two thumbnails, from 0 to 255; infinite if their opacity differs."""
    if abs(one.alpha_mean - other.alpha_mean) > _MAX_ALPHA_ERROR:
        return float("inf")
    images = [of_samples(each.rgb, each.width_px, each.height_px, 3) for each in (one, other)]
    return float((images[0] - images[1]).abs().avg())
