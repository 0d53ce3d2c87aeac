"""Pictures that an outside program optimizes: what of them may leave the machine, and what has to be true of a result.

Only the picture itself goes out, without metadata: no GPS position, no name. What must stay is put back into the
result. Nothing that comes back is trusted: it has to be a whole picture of the same format, size and look.

Pictures of which an outside encoder would lose something that can't be put back stay here: animations, gain maps,
CMYK, more than 8 bits, HDR, a PNG whose colours its own chunks say, and an AVIF with metadata, a profile or a turn.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from msgspec import structs

from imgproc_local.codecs.container import Blocks, Data, avif, jpeg, png
from imgproc_local.codecs.decode import CheckStop, sample
from imgproc_local.codecs.errors import at_border
from imgproc_local.codecs.formats import FORMATS
from imgproc_local.codecs.libvips import pyvips
from imgproc_local.codecs.metadata import strip as metadata
from imgproc_local.codecs.metadata.icc import colour_space, kept_profile
from imgproc_local.codecs.probe import opened, probe
from imgproc_local.domain.errors import BadImage, OutsideServiceFailed
from imgproc_local.domain.image import Format, ImageInfo, Pixels
from imgproc_local.domain.privacy import KeepLocation

SAMPLE_SIDE_PX = 256
MAX_MEAN_ERROR = 8.0
"""Of 255 steps, between original and result scaled down: far above what compression does, far below another picture."""
MAX_ALPHA_ERROR = 0.02

SENDABLE = (Format.JPEG, Format.PNG, Format.WEBP, Format.AVIF)


@at_border("The picture can't be read")
def sendable(path: Path, info: ImageInfo) -> bytes | None:
    """The picture as it may go out, not turned and with no metadata but its profile; None where it must stay here.

    Raises: BrokenImage, StageFailed.
    """
    if info.format not in SENDABLE or info.frames > 1 or info.bits_per_sample > 8:
        return None
    with opened(path) as data:
        container = FORMATS[info.format].container
        blocks = container.read_blocks(data)
        if _must_stay(data, info, blocks):
            return None
        return container.with_blocks(data, Blocks(icc=kept_profile(blocks.icc)))


def _must_stay(data: Data, info: ImageInfo, blocks: Blocks) -> bool:
    profile = kept_profile(blocks.icc)
    if profile is not None and colour_space(profile) != "RGB":
        return True
    if info.format is Format.JPEG:
        return jpeg.components(data) > 3 or jpeg.gain_map(data) is not None
    if info.format is Format.PNG:
        if png.has_chunk(data, b"cICP", b"mDCV", b"cLLI"):
            return True
        return png.has_chunk(data, b"gAMA", b"cHRM") and not png.has_chunk(data, b"sRGB", b"iCCP")
    if info.format is Format.AVIF:
        # an AVIF without metadata items has no place to put any
        kept = metadata.kept(blocks, Format.AVIF, Format.AVIF, KeepLocation.ALL)
        return avif.has_own_colours(data) or info.orientation != 1 or any((kept.exif, kept.xmp, profile))
    return False


@at_border("The compression service's result can't be taken")
def adopt(
    path: Path, info: ImageInfo, result: bytes, check_stop: CheckStop, keep_location: KeepLocation = KeepLocation.CITY
) -> bytes | None:
    """The result with the original's kept metadata; None where that is not smaller than the original.

    The orientation stays as a tag: the pixels went out as stored. A wide-gamut profile is put back where the result
    has none and its pixels were left in those colours.
    Raises: OutsideServiceFailed where the result is not the same picture; BrokenImage and StageFailed for the original,
    and what `check_stop` raises.
    """
    check_stop()
    stored = structs.replace(info, orientation=1)
    original = sample(path, stored, SAMPLE_SIDE_PX, check_stop)
    container = FORMATS[info.format].container
    with opened(path) as data:
        blocks, size_bytes = container.read_blocks(data), len(data)
    with tempfile.TemporaryDirectory(prefix="imgproc-") as folder:
        file = Path(folder) / "result"
        try:
            file.write_bytes(result)
            _require_same_kind(probe(file, info.pixels), stored)
            brought = container.read_blocks(result)
            profiles = [kept_profile(brought.icc)]
            if not brought.icc and info.format is not Format.AVIF and kept_profile(blocks.icc) is not None:
                profiles.append(kept_profile(blocks.icc))
            errors = []
            for profile in profiles:
                file.write_bytes(container.with_blocks(result, Blocks(icc=profile)))
                errors.append(_error(original, sample(file, stored, SAMPLE_SIDE_PX, check_stop)))
        except BadImage as error:
            raise OutsideServiceFailed(
                "The compression service sent a file that is not a whole picture of the same format."
            ) from error
    best = min(range(len(profiles)), key=errors.__getitem__)
    if errors[best] > MAX_MEAN_ERROR:
        raise OutsideServiceFailed("The compression service sent a picture that looks different.")
    kept = metadata.kept(blocks, info.format, info.format, keep_location, orientation=info.orientation)
    adopted = container.with_blocks(result, Blocks(kept.exif, kept.xmp, kept.iptc, profiles[best]))
    return adopted if len(adopted) < size_bytes else None


def _require_same_kind(came: ImageInfo, sent: ImageInfo) -> None:
    if came.format is not sent.format:
        raise OutsideServiceFailed(
            f"The compression service was sent a {FORMATS[sent.format].name} and sent a {FORMATS[came.format].name}."
        )
    size = (came.width_px, came.height_px, came.frames, came.orientation)
    if size != (sent.width_px, sent.height_px, 1, 1):
        raise OutsideServiceFailed("The compression service sent a picture of another size, turned or animated.")


def _error(one: Pixels, other: Pixels) -> float:
    """The mean difference of two samples, infinite where one is transparent and the other is not."""
    if abs(one.alpha_mean - other.alpha_mean) > MAX_ALPHA_ERROR:
        return float("inf")
    images = [
        pyvips.Image.new_from_memory(each.rgb, each.width_px, each.height_px, 3, "uchar") for each in (one, other)
    ]
    return float((images[0] - images[1]).abs().avg())
