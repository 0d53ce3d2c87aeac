"""Measures the pixels of a picture: its kind, and whether it is black and white.

Content is never guessed. Pillow's C code processes the pixels; Python only sees histograms.
"""

from __future__ import annotations

from PIL import Image, ImageChops, ImageStat

from imgproc_local.domain.image import EmbeddedMetadata, Format, ImageInfo, Pixels
from imgproc_local.vision.describer import PixelFacts
from imgproc_local.vision.text.human_words import is_screenshot_name


def pixel_facts(image: Pixels, info: ImageInfo, embedded: EmbeddedMetadata, original_filename: str) -> PixelFacts:
    """The measurements of `image`. Its metadata and its file name help to determine its kind."""
    picture = Image.frombytes("RGB", (image.width_px, image.height_px), image.rgb)
    opacity = image.alpha_mean if info.has_alpha else 1.0
    if opacity < 0.005:  # nothing of the picture can be seen
        return PixelFacts("picture")
    if info.frames > 1:
        kind = "animation"
    elif is_screenshot_name(original_filename):
        kind = "screenshot"
    elif info.format is not Format.JPEG and _is_graphic(picture, opacity):
        kind = "graphic"
    elif embedded.camera:  # a date would not prove a camera: operating systems also write one into screenshots
        kind = "photograph"
    else:
        kind = "picture"
    has_greys = kind in ("photograph", "picture") and opacity > 0.98  # transparent areas count as white
    return PixelFacts(kind, has_greys and _is_black_and_white(picture))


def _is_graphic(picture: Image.Image, opacity: float) -> bool:
    """Whether the pixels look drawn: flat areas with sharp edges. `opacity` is the mean opacity, 0 to 1.

    At least 60 % of the pixels equal their neighbours, which noise prevents in photographs; and of the others at most
    55 % differ from theirs by 8 or less (of 255), more of which a product photograph on a plain background has.
    """
    width, height = picture.size
    if min(width, height) < 32:  # too few pixels for these tests
        return False
    inner = picture.crop((0, 0, width - 1, height - 1))
    right = ImageChops.difference(inner, picture.crop((1, 0, width, height - 1)))
    below = ImageChops.difference(inner, picture.crop((0, 1, width - 1, height)))
    red, green, blue = ImageChops.lighter(right, below).split()
    differences = ImageChops.lighter(ImageChops.lighter(red, green), blue).histogram()
    total = sum(differences)
    # transparent areas are uniformly white here: flat, but not part of the drawing
    flat = (differences[0] / total - (1 - opacity)) / opacity
    soft = sum(differences[1:9]) / total / opacity
    return flat >= 0.6 and soft <= 0.55 * (1 - flat)


def _is_black_and_white(picture: Image.Image) -> bool:
    """Whether at most 0.1 % of the pixels of a small copy are coloured, and they are not all of one grey.

    The channels of a grey pixel differ by at most 10 (of 255): the rounding of chroma in a JPEG remains below it, and
    sepia exceeds it.
    """
    sample = picture.copy()
    sample.thumbnail((160, 160), Image.Resampling.BOX)
    red, green, blue = sample.split()
    spread = ImageChops.subtract(
        ImageChops.lighter(ImageChops.lighter(red, green), blue), ImageChops.darker(ImageChops.darker(red, green), blue)
    )
    is_grey = sum(spread.histogram()[11:]) <= 0.001 * sample.width * sample.height
    return is_grey and ImageStat.Stat(green).stddev[0] >= 12
