"""Measures the pixels of a picture: its kind, and whether it is black and white.

Content is never guessed. Pillow's C code processes the pixels; Python only sees histograms.
"""

from __future__ import annotations

from PIL import Image, ImageChops, ImageStat

from imgproc_local.domain.image import EmbeddedMetadata, Format, ImageInfo, Pixels
from imgproc_local.vision.describer import PixelFacts
from imgproc_local.vision.text.filename_words import is_screenshot_name

SAMPLE_SIDE_PX = 160
"""Whether a picture is black and white is measured in a copy whose sides are at most this long."""
MIN_VISIBLE_OPACITY = 0.005
"""Mean opacity (0 to 1) below which nothing of a picture can be seen."""
MIN_OPAQUE_OPACITY = 0.98
"""Mean opacity below which a picture counts as having transparent areas."""

GREY_TOLERANCE = 10
"""Largest difference between the channels of a grey pixel, in 8-bit steps. The rounding of chroma in a JPEG
remains below it; sepia exceeds it."""
MAX_COLOURED_SHARE = 0.001
"""Maximum share of the pixels (0 to 1) that are coloured in a black-and-white picture."""
MIN_BLACK_AND_WHITE_DEVIATION = 12
"""Minimum standard deviation of a black-and-white picture, in 8-bit steps. A surface of one grey is not called
black and white."""

MIN_FLAT_SHARE = 0.60
MAX_SOFT_SHARE = 0.55
"""A picture is a graphic if at least `MIN_FLAT_SHARE` of its pixels equal their neighbours, and at most
`MAX_SOFT_SHARE` of the other pixels differ from their neighbours by at most `SOFT_DIFFERENCE`. Photographs fail the
first test because of noise; product photographs on a plain background fail the second."""
SOFT_DIFFERENCE = 8
"""The largest difference that counts as soft, in 8-bit steps."""
MIN_GRAPHIC_SIDE_PX = 32
"""Smaller pictures have too few pixels for these tests."""


def pixel_facts(image: Pixels, info: ImageInfo, embedded: EmbeddedMetadata, original_filename: str) -> PixelFacts:
    """The measurements of `image`. Its metadata and its file name help to determine its kind."""
    picture = Image.frombytes("RGB", (image.width_px, image.height_px), image.rgb)
    opacity = image.alpha_mean if info.has_alpha else 1.0
    if opacity < MIN_VISIBLE_OPACITY:
        return PixelFacts("picture")
    graphic = info.format is not Format.JPEG and _is_graphic(picture, opacity)
    if info.frames > 1:
        kind = "animation"
    elif is_screenshot_name(original_filename):
        kind = "screenshot"
    elif graphic:
        kind = "graphic"
    elif embedded.camera:  # a date would not prove a camera: operating systems also write one into screenshots
        kind = "photograph"
    else:
        kind = "picture"
    sample = picture.copy()
    sample.thumbnail((SAMPLE_SIDE_PX, SAMPLE_SIDE_PX), Image.Resampling.BOX)
    black_and_white = kind in ("photograph", "picture") and opacity > MIN_OPAQUE_OPACITY and _is_black_and_white(sample)
    return PixelFacts(kind, black_and_white)


def _is_graphic(picture: Image.Image, opacity: float) -> bool:
    """Whether the pixels look drawn: flat areas with sharp edges. `opacity` is the mean opacity, 0 to 1."""
    width, height = picture.size
    if min(width, height) < MIN_GRAPHIC_SIDE_PX:
        return False
    inner = picture.crop((0, 0, width - 1, height - 1))
    right = ImageChops.difference(inner, picture.crop((1, 0, width, height - 1)))
    below = ImageChops.difference(inner, picture.crop((0, 1, width - 1, height)))
    red, green, blue = ImageChops.lighter(right, below).split()
    differences = ImageChops.lighter(ImageChops.lighter(red, green), blue).histogram()
    total = sum(differences)
    # transparent areas are uniformly white here: flat, but not part of the drawing
    flat = (differences[0] / total - (1 - opacity)) / opacity
    soft = sum(differences[1 : SOFT_DIFFERENCE + 1]) / total / opacity
    return flat >= MIN_FLAT_SHARE and soft <= MAX_SOFT_SHARE * (1 - flat)


def _is_black_and_white(sample: Image.Image) -> bool:
    red, green, blue = sample.split()
    spread = ImageChops.subtract(
        ImageChops.lighter(ImageChops.lighter(red, green), blue), ImageChops.darker(ImageChops.darker(red, green), blue)
    )
    coloured = sum(spread.histogram()[GREY_TOLERANCE + 1 :])
    is_grey = coloured <= MAX_COLOURED_SHARE * sample.width * sample.height
    return is_grey and ImageStat.Stat(green).stddev[0] >= MIN_BLACK_AND_WHITE_DEVIATION
