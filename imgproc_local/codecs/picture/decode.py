"""Decodes pictures, completely or not at all: with their orientation applied, and converted to sRGB where asked.

Damage that a decoder reports is an error; a picture is never processed with its lower half missing. This is one file
because whoever decodes samples has to know which colours they mean.

Files are opened by path and decoded row by row. Only a rotation needs the whole picture at once; libvips stores it in
memory up to 100 MB and in a temporary file above.
"""

from __future__ import annotations

import ctypes
import io
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image, ImageCms

from imgproc_local.codecs.container import SDR_TRANSFERS
from imgproc_local.codecs.metadata.icc import colour_space, is_wide, rewritten
from imgproc_local.codecs.picture import other_decoders
from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.codecs.picture.libvips import pyvips, translate_errors, upright, with_profile
from imgproc_local.domain.errors import CheckStop, StageFailed
from imgproc_local.domain.image import CodedColours, Format, ImageInfo, Pixels

Image.MAX_IMAGE_PIXELS = None  # `read_picture` enforces the limit, counting every frame

Profile = bytes | CodedColours
"""What defines the colours of samples that are not sRGB: an ICC profile, or numbers."""

_T = TypeVar("_T")

_M_MMAP_THRESHOLD = -3
_MMAP_FROM_BYTES = 256 * 1024


def _make_glibc_return_memory() -> None:
    """Makes glibc allocate each large buffer with mmap, so that freeing it returns the memory to the system.

    By default glibc raises its threshold for mmap while the program runs, and retains what encoders freed: after eight
    AVIF conversions of 2 megapixels the process held 460 MB, with this setting 40 MB. Other allocators need no setting.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(_M_MMAP_THRESHOLD, _MMAP_FROM_BYTES)


_make_glibc_return_memory()


_MAX_DE00, _MAX_SHARE_ABOVE = 2.0, 0.01
"""A picture is converted to sRGB if at most the share `_MAX_SHARE_ABOVE` of its pixels changes by more than `_MAX_DE00`
(CIEDE2000). Rounding to 8 bits alone changes colours by up to 0.8.
"""

_COMPARED_PIXELS = 60_000
"""About how many evenly spaced pixels are compared for that."""

_RANDOM_ACCESS_FROM = 3
"""EXIF orientations from this number on need the rows in another order than the file stores them."""


def open_upright(
    path: Path, info: ImageInfo, *, all_frames: bool = False, shrink: int = 1, fail_on: str = "error"
) -> pyvips.Image:
    """The picture with its orientation applied and colours and bit depth as stored; of a TIFF as `to_common_samples`.

    It is decoded when it is evaluated, except HEIC and JPEG XL. `all_frames` stacks an animation's frames into one tall
    picture, as libvips does; these are not rotated. `shrink` (1, 2, 4 or 8) scales a JPEG down while it
    is decoded.
    """
    options: dict[str, Any] = {"fail_on": fail_on}
    options["access"] = "random" if info.orientation >= _RANDOM_ACCESS_FROM else "sequential"
    if all_frames:
        options["n"] = -1
    if info.format is Format.JPEG and shrink > 1:
        options["shrink"] = shrink
    if info.format is Format.HEIC:
        return other_decoders.open_heic(path)
    if info.format is Format.JXL:
        return other_decoders.open_jxl(path)
    load = getattr(pyvips.Image, FORMATS[info.format].loader)
    image = load(os.fsencode(path), **options)  # pyvips rejects str with surrogates
    if info.format is Format.AVIF:
        return image  # libheif has applied the orientation
    if info.format is Format.TIFF:
        image = to_common_samples(image, info)
    return image if info.orientation == 1 or all_frames else upright(image, info.orientation)


def decode_complete(path: Path, info: ImageInfo, decode: Callable[[str], _T]) -> _T:
    """The result of `decode`, called with a `fail_on` level at which libvips refuses incomplete pictures.

    libjpeg reports a truncated scan only as a warning, like harmless stray bytes between segments. So a JPEG is first
    decoded with warnings as errors. If that fails and `_jpeg_reaches_its_end`, it is decoded again with warnings
    ignored. The text of the warning can't decide: libvips has one error buffer for the whole process, and other threads
    write to it.
    """
    if info.format is not Format.JPEG:
        return decode("error")
    try:
        return decode("warning")
    except pyvips.Error:
        if not _jpeg_reaches_its_end(path):
            raise
    return decode("error")


def _jpeg_reaches_its_end(path: Path) -> bool:
    """Whether a JPEG has data for its last rows.

    Pillow raises an error for a file that ends too early. If a truncated scan is followed by an end marker, libjpeg
    fills the rest with the last colour: at an eighth of the size, where each pixel is one block, the last three rows
    then have one colour. White and black rows are accepted as a border that belongs to the picture.
    """
    try:
        with Image.open(path) as picture:
            if picture.mode != "CMYK":
                picture.draft(picture.mode, (max(1, picture.width // 8), max(1, picture.height // 8)))
            picture.load()
            last_rows = picture.crop((0, max(0, picture.height - 3), picture.width, picture.height))
    except OSError:
        return False
    bounds: list[tuple[float, float]] = [band.getextrema() for band in last_rows.split()]  # type: ignore[misc]
    return any(low != high for low, high in bounds) or all(low in (0, 255) for low, _ in bounds)


def to_common_samples(image: pyvips.Image, info: ImageInfo) -> pyvips.Image:
    """A TIFF as decoded by libvips, with samples of 8 or 16 bits in grey, RGB or 8-bit CMYK, and alpha if it has any.

    Floating-point numbers from 0 to 1 are linear light, in the colours of the profile or those of sRGB. Further bands,
    such as masks and spot colours, are dropped.
    """
    colours = {"cmyk": 4, "b-w": 1, "grey16": 1}.get(image.interpretation, 3)
    image = image.extract_band(0, n=min(image.bands, colours + info.has_alpha))
    if image.format == "float" and image.interpretation != "lab":
        return _float_to_srgb(image)
    if image.interpretation in ("lab", "labs", "labq"):
        image = image.colourspace("rgb16").copy()
        image.remove("icc-profile-data")
    elif image.interpretation == "cmyk" and image.format == "ushort":
        image = (image >> 8).cast("uchar")
    return image


def _float_to_srgb(image: pyvips.Image) -> pyvips.Image:
    """Linear light as 16-bit sRGB or grey, or as 8-bit sRGB if an RGB profile is applied."""
    is_grey = image.bands < 3
    has_profile = image.get_typeof("icc-profile-data") != 0 and not is_grey
    if has_profile and colour_space(image.get("icc-profile-data")) == "RGB":
        return to_srgb(image.linear(65535, 0.5).cast("ushort").copy(interpretation="rgb16"))
    if is_grey:
        alpha = [image[1]] if image.bands == 2 else []
        image = image[0].bandjoin([image[0], image[0], *alpha])
    image = image.copy(interpretation="scrgb").colourspace("rgb16").copy()
    image.remove("icc-profile-data")
    if not is_grey:
        return image
    grey = image[0].bandjoin(image[3]) if image.hasalpha() else image[0]
    return grey.copy(interpretation="grey16")


_SPACES = {"cmyk": "CMYK", "b-w": "GRAY", "grey16": "GRAY"}
"""The colour space that a profile must have for a libvips interpretation; RGB for all others."""


def _profile_matches(image: pyvips.Image, profile: bytes) -> bool:
    """Whether a profile is for the picture's colour space. Viewers ignore others."""
    return colour_space(profile) == _SPACES.get(image.interpretation, "RGB")


def to_srgb(image: pyvips.Image) -> pyvips.Image:
    """The picture in 8-bit sRGB with its alpha, converted through its embedded profile.

    A profile of another colour space than the samples, and one that cannot be read, is ignored, as viewers do.
    Colours that a PNG describes only by gAMA or cHRM chunks are taken as sRGB.
    """
    if image.get_typeof("icc-profile-data"):
        profile = image.get("icc-profile-data")
        if _profile_matches(image, profile) and (image.interpretation != "cmyk" or _is_readable(profile)):
            try:
                return _eight_bits(image.icc_transform("srgb", embedded=True, intent="perceptual", depth=8))
            except pyvips.Error:
                pass  # unreadable, though its header is in order
        image = image.copy()
        image.remove("icc-profile-data")
    if image.interpretation == "cmyk":
        return _cmyk_as_browsers_show_it(image)
    return _eight_bits(image.colourspace("srgb"))


def _cmyk_as_browsers_show_it(image: pyvips.Image) -> pyvips.Image:
    """8-bit CMYK without a profile as RGB: (255 − C)(255 − K) / 255, rounded down.

    Chromium and Firefox compute exactly this. libvips' own press profile is on average 9.8 ΔE00 away from it.
    Source: Chromium, JPEGImageDecoder (samples of JPEG are stored inverted).
    """
    light = image.extract_band(0, n=4).invert()
    product = light.extract_band(0, n=3) * light[3]
    # half a step of the product, so that whole results are not rounded down to the number below
    rgb = product.linear(1 / 255, 0.5 / 255, uchar=True).copy(interpretation="srgb")
    return rgb.bandjoin(image[4]) if image.bands > 4 else rgb


def _is_readable(profile: bytes) -> bool:
    """Whether LittleCMS finds a table for the perceptual intent. Without one libvips takes its own press profile."""
    try:
        opened = ImageCms.getOpenProfile(io.BytesIO(profile))
    except ImageCms.PyCMSError:
        return False
    return ImageCms.isIntentSupported(opened, ImageCms.Intent.PERCEPTUAL, ImageCms.Direction.INPUT) == 1


def _eight_bits(image: pyvips.Image) -> pyvips.Image:
    return image if image.format == "uchar" else image.cast("uchar")


def without_alpha(image: pyvips.Image) -> pyvips.Image:
    """The colour bands of a picture; the picture itself if it has no alpha."""
    return image.extract_band(0, n=image.bands - 1) if image.hasalpha() else image


def rgba(image: pyvips.Image) -> pyvips.Image:
    """A picture of 8 bits, grey or RGB, as RGBA; fully transparent pixels are black."""
    image = image if image.bands > 2 else image.colourspace("srgb")
    return (image[3] == 0).ifthenelse(0, image) if image.hasalpha() else image.bandjoin(255)


def to_srgb_through(image: pyvips.Image, profile: Profile | None) -> pyvips.Image:
    """A picture of 8 bits, or of coded colours, converted through its profile, in memory; itself without one."""
    if profile is None:
        return image
    if isinstance(profile, CodedColours):
        return to_srgb(as_browsers_show(image, profile)[0]).copy_memory()
    return to_srgb(with_profile(image, profile)).copy_memory()


# ---- colours that numbers define

_LINEAR, _PQ, _HLG = 8, 16, 18
"""Codes of transfer functions. Source: ITU-T H.273, 8.2."""
DISPLAY_P3 = rewritten(bytes(pyvips.Image.profile_load("p3"))) or b""
_REFERENCE_WHITE_NITS, _HLG_PEAK_NITS, _PQ_PEAK_NITS, _ASSUMED_PEAK_NITS = 203, 1000, 10_000, 1000
"""The light of the white of SDR, and of the brightest samples of HLG and PQ; and what browsers assume for the
brightest pixel where the file does not say it. Source: ITU-R BT.2408 and BT.2100; Chromium.
"""
_REC2020_LUMINANCE = [[0.2627, 0.678, 0.0593]]
_REC2020 = pyvips.Image.new_from_array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
_SRGB = pyvips.Image.new_from_array(
    [[0.627404, 0.329283, 0.043313], [0.069097, 0.919540, 0.011362], [0.016391, 0.088013, 0.895595]]
)
_P3 = pyvips.Image.new_from_array(
    [[0.753833, 0.198597, 0.047570], [0.045744, 0.941777, 0.012479], [-0.001210, 0.017602, 0.983609]]
)
_TO_REC2020 = {1: _SRGB, 2: _REC2020, 9: _REC2020, 11: _P3, 12: _P3}
"""From linear light of the primaries with these codes. Those of DCI-P3, which has another white, are taken as Display
P3, and unspecified ones as BT.2020.
"""


def as_browsers_show(image: pyvips.Image, colours: CodedColours) -> tuple[pyvips.Image, bytes | None]:
    """A picture of 8 or 16 bits in Display P3, or in sRGB if it has sRGB's primaries; and its profile, also embedded.

    HDR is tone-mapped as browsers show it on displays without HDR.
    Raises: StageFailed for primaries and transfer functions that are not known.
    """
    if not _is_known(colours):
        raise StageFailed(
            "The picture's colours are of a kind that is not supported (CICP primaries"
            f" {colours.primaries}, transfer {colours.transfer}). Save it again in sRGB or Display P3."
        )
    is_deep, alpha = image.format == "ushort", [image[image.bands - 1]] if image.hasalpha() else []
    rgb = without_alpha(image)
    rgb = rgb if rgb.bands == 3 else rgb[0].bandjoin([rgb[0], rgb[0]])
    levels = pyvips.Image.identity(ushort=is_deep) / (65535 if is_deep else 255)
    light = rgb.maplut(_light_of_signal(levels, colours.transfer)).recomb(_TO_REC2020[colours.primaries])
    if colours.transfer == _HLG:
        # the share of the display, for a peak of 1000 cd/m²
        light = light * (light.recomb(_REC2020_LUMINANCE) ** 0.2) * (_HLG_PEAK_NITS / _REFERENCE_WHITE_NITS)
    if colours.is_hdr:
        light = _tone_mapped(light, colours.max_nits or _ASSUMED_PEAK_NITS)
    space, profile = (_SRGB, None) if colours.primaries == 1 else (_P3, DISPLAY_P3)
    light = light.recomb(space.matrixinvert()).copy(interpretation="scrgb")
    shown = light.colourspace("rgb16" if is_deep else "srgb")
    shown = shown.bandjoin(alpha) if alpha else shown
    return with_profile(shown, profile), profile


def _is_known(colours: CodedColours) -> bool:
    return colours.primaries in _TO_REC2020 and (colours.is_hdr or colours.transfer in (_LINEAR, *SDR_TRANSFERS))


def _light_of_signal(signal: pyvips.Image, transfer: int) -> pyvips.Image:
    """The linear light of samples from 0 to 1, of which 1.0 is the white of SDR, and the peak of HLG.

    Source: ITU-R BT.2100, tables 4 and 5; IEC 61966-2-1 for all others.
    """
    if transfer == _PQ:
        root = signal ** (32 / 2523)
        share = (root - 3424 / 4096).maxpair(0) / (root * (-2392 / 128) + 2413 / 128)
        return share ** (16384 / 2610) * (_PQ_PEAK_NITS / _REFERENCE_WHITE_NITS)
    if transfer == _HLG:
        upper = (((signal - 0.55991073) / 0.17883277).exp() + 0.28466892) / 12
        return (signal <= 0.5).ifthenelse(signal**2 / 3, upper)
    if transfer == _LINEAR:
        return signal
    return (signal <= 0.04045).ifthenelse(signal / 12.92, ((signal + 0.055) / 1.055) ** 2.4)


def _tone_mapped(light: pyvips.Image, max_nits: float) -> pyvips.Image:
    """Light in BT.2020 whose brightest channel, of at most `max_nits`, becomes 1.0 at most.

    Up to the white of SDR it is dimmed; above, it follows a parabola to 1.0, as in Chromium.
    Source: SMPTE ST 2094-50, annex on the reference white tone mapping operator.
    """
    peak = min(max_nits, _PQ_PEAK_NITS) / _REFERENCE_WHITE_NITS
    if peak <= 1:
        return light
    white = 1 - 0.5 * min(1.0, math.log(peak) / math.log(_HLG_PEAK_NITS / _REFERENCE_WHITE_NITS))
    # the control points of a Bézier curve: (1, white), (middle_x, middle_y), (peak, 1)
    middle_x, middle_y = 0.35 + 0.65 / white, 0.35 * white + 0.65
    brightest = light[0].maxpair(light[1]).maxpair(light[2]).maxpair(1)
    x = brightest.minpair(peak)
    square_x, linear_x = 1 - 2 * middle_x + peak, 2 * (middle_x - 1)
    t = ((linear_x**2 + (x - 1) * 4 * square_x) ** 0.5 - linear_x) / (2 * square_x)
    y = white + t * (2 * (middle_y - white) + t * (white - 2 * middle_y + 1))
    return light * (y / brightest)


def to_srgb_if_visually_lossless(image: pyvips.Image, profile: bytes | None) -> tuple[pyvips.Image, bytes | None]:
    """An 8-bit RGB picture in memory converted to sRGB and no profile, if its profile is not of a wide gamut and hardly
    any colour changes visibly; the same picture and profile otherwise.

    Encoders assume sRGB when they weigh colours, and a profile can be larger than its picture.
    """
    if profile is None or image.bands < 3 or colour_space(profile) != "RGB" or is_wide(profile):
        return image, profile
    step = max(1, int((image.width * image.height / _COMPARED_PIXELS) ** 0.5))
    thin = image.subsample(step, step).copy_memory()
    try:
        shown = thin.icc_import(embedded=True, pcs="lab", intent="perceptual")
        converted = to_srgb(thin).icc_import(input_profile="srgb", embedded=False, pcs="lab", intent="perceptual")
        share_above = (shown.dE00(converted) > _MAX_DE00).avg() / 255
    except pyvips.Error:  # a profile that cannot be applied is preserved: viewers ignore it
        return image, profile
    return (to_srgb_through(image, profile), None) if share_above <= _MAX_SHARE_ABOVE else (image, profile)


def for_display(image: pyvips.Image, profile: bytes | None, *, eight_bit: bool) -> tuple[pyvips.Image, bytes | None]:
    """The picture as RGB or grey of 8 or 16 bits, and the profile to store with it, of the one that may be published.

    CMYK, and grey with a profile, are converted to sRGB: WebP and AVIF store RGB profiles only.
    """
    kept = profile if profile and _profile_matches(image, profile) else None
    if image.interpretation == "cmyk" or (kept and colour_space(kept) != "RGB"):
        return to_srgb(image), None
    return in_eight_bits(image) if eight_bit else image, kept


def in_eight_bits(image: pyvips.Image) -> pyvips.Image:
    """A grey or RGB picture of 8 or 16 bits with its samples rounded to 8; its profile still applies to them."""
    if image.format != "ushort":
        return image
    is_grey = image.bands < 3
    return image.colourspace("b-w" if is_grey else "srgb", source_space="grey16" if is_grey else "rgb16")


def evaluate(image: pyvips.Image, check_stop: CheckStop, operation: str, *arguments: Any, **options: Any) -> Any:
    """The result of `image.<operation>(*arguments, **options)`, which evaluates the pipeline.

    Stops soon after `check_stop` raises: libvips calls back between rows, libwebp also while it encodes. libheif's
    encoder and mozjpeg's scan optimization cannot be interrupted. Raises: what `check_stop` raised.
    """
    stopped: list[Exception] = []

    def on_eval(source: pyvips.Image, _progress: Any) -> None:
        if stopped:
            return
        try:
            check_stop()
        except Exception as stop:  # must not unwind through C, so it is raised below
            stopped.append(stop)
            source.set_kill(True)

    check_stop()
    image = image.copy()
    image.set_progress(True)
    image.signal_connect("eval", on_eval)
    try:
        result = getattr(image, operation)(*arguments, **options)
    except pyvips.Error:
        if stopped:
            raise stopped[0] from None
        raise
    if stopped:
        raise stopped[0]
    check_stop()
    return result


@translate_errors("The picture can't be read")
def thumbnail(path: Path, info: ImageInfo, max_side_px: int, check_stop: CheckStop) -> Pixels:
    """The picture, or an animation's first frame, in sRGB over white, scaled down to `max_side_px` on the longer side.

    Smaller pictures are not scaled. Raises: BrokenImage, StageFailed, and what `check_stop` raises.
    """
    image = scaled_down(path, info, max_side_px, check_stop)
    alpha_mean = 1.0
    if image.hasalpha():
        alpha_mean = image[image.bands - 1].avg() / 255
        image = image.flatten(background=[255])
    return Pixels(image.width, image.height, bytes(image.write_to_memory()), alpha_mean)


def scaled_down(path: Path, info: ImageInfo, max_side_px: int, check_stop: CheckStop) -> pyvips.Image:
    """The picture, or an animation's first frame, in 8-bit sRGB with its alpha, in memory, scaled as by `thumbnail`."""
    longer, shorter = max(info.width_px, info.height_px), min(info.width_px, info.height_px)
    shrink = max(step for step in (1, 2, 4, 8) if step == 1 or (longer // step >= max_side_px and shorter >= step))

    def decode(fail_on: str) -> pyvips.Image:
        image = open_upright(path, info, shrink=shrink, fail_on=fail_on)
        factor = max_side_px / max(image.width, image.height)
        image = scaled(image, factor) if factor < 1 else image
        if info.colours and _is_known(info.colours):
            image, _ = as_browsers_show(image, info.colours)
        return evaluate(image, check_stop, "copy_memory")

    # in memory, so that it is decoded once for the mean of its alpha and for its pixels over white
    return to_srgb(decode_complete(path, info, decode))


def scaled(image: pyvips.Image, factor: float) -> pyvips.Image:
    """A picture of any bands and 8 or 16 bits, scaled down; its profile and bit depth are preserved.

    By Lanczos3 on the stored (not linear) samples, as libvips' `thumbnail` does: linear light would darken thin dark
    lines and text. Alpha is premultiplied, so that the colours of transparent pixels do not spread to their neighbours.
    """
    # each side at least one pixel
    across, down = max(factor, 1 / image.width), max(factor, 1 / image.height)
    if not image.hasalpha():
        return image.resize(across, vscale=down)
    premultiplied = image.premultiply().resize(across, vscale=down)
    return premultiplied.unpremultiply().rint().cast(image.format)
