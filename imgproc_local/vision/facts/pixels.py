"""Measures the pixels of a picture: its kind, whether it is black and white, and whether it shows anything.

Content is never guessed. Pillow's C code processes the pixels; Python only sees histograms.
"""

from __future__ import annotations

from PIL import Image, ImageChops, ImageFilter, ImageStat

from imgproc_local.domain.image import EmbeddedMetadata, Format, ImageInfo, Pixels
from imgproc_local.vision.describer import PixelFacts
from imgproc_local.vision.text.human_words import is_screenshot_name


def pixel_facts(image: Pixels, info: ImageInfo, embedded: EmbeddedMetadata, original_filename: str) -> PixelFacts:
    """The measurements of `image`. Its metadata and its file name help to determine its kind."""
    picture = Image.frombytes("RGB", (image.width_px, image.height_px), image.rgb)
    opacity = image.alpha_mean if info.has_alpha else 1.0
    because = "" if info.frames > 1 or embedded.camera else _shows_nothing_because(picture, info, opacity)
    if opacity < 0.005:  # nothing of the picture can be seen
        return PixelFacts("picture", shows_nothing_because=because)
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
    # the kind of smaller pictures is unknown
    is_icon = (kind == "graphic" or min(picture.size) < 32) and max(picture.size) <= 256 and _has_few_colours(picture)
    return PixelFacts(kind, has_greys and _is_black_and_white(picture), is_icon, because)


def _shows_nothing_because(picture: Image.Image, info: ImageInfo, opacity: float) -> str:
    """Why the picture certainly shows nothing, as a sentence; "" if it may show something.

    The shape of a partly transparent picture may be its content, even if it has one colour.
    """
    width, height = info.display_size_px
    if opacity == 0:
        return "It is fully transparent."
    if min(width, height) <= 2:
        return f"It is only {width} × {height} pixels large."
    if opacity < 1:
        return ""
    if all(high - low <= _MAX_UNSEEN for low, high in ImageStat.Stat(picture).extrema):
        return "It has one colour."
    across, down = _differences(picture)
    if _is_unseen(ImageChops.lighter(across, down)) and _is_smooth(picture):
        return "It is a smooth gradient without shapes."
    is_thin = min(width, height) <= 32 and max(width, height) >= 8 * min(width, height)
    return "It is a thin line." if is_thin and _is_unseen(across if width > height else down) else ""


_MAX_UNSEEN = 4
"""Levels (of 255) by which neighbouring pixels may differ where nobody sees an edge. Dithering and JPEG reach it."""


def _is_unseen(differences: Image.Image) -> bool:
    return all(high <= _MAX_UNSEEN for _, high in ImageStat.Stat(differences).extrema)


def _is_smooth(picture: Image.Image) -> bool:
    """Whether the slopes of the colours are constant, or change in one narrow place, as in a gradient with three stops.

    They change in many places of a photograph, even of one that is blurred by a twelfth of its width. A small copy
    averages dithering and the blocks of a JPEG.
    """
    small = picture.resize((min(16, picture.width), min(16, picture.height)), Image.Resampling.BOX)
    laplacian = ImageFilter.Kernel((3, 3), (0, 1, 0, 1, -4, 1, 0, 1, 0), scale=1, offset=128)
    # a filter leaves the margin as it is
    bends = small.filter(laplacian).crop((1, 1, small.width - 1, small.height - 1))
    levels = _largest_channel(ImageChops.difference(bends, Image.new("RGB", bends.size, (128, 128, 128)))).histogram()
    return sum(levels[6:]) <= 0.15 * sum(levels)


def _has_few_colours(picture: Image.Image) -> bool:
    """Whether two to four colours cover nine tenths of the picture; letters and curves also have blends of them."""
    coarse = picture.point([level & 0xE0 for level in range(256)] * 3)
    counts = sorted((count for count, _ in coarse.getcolors(512) or ()), reverse=True)
    return len(counts) > 1 and sum(counts[:4]) >= 0.9 * picture.width * picture.height


def _differences(picture: Image.Image) -> tuple[Image.Image, Image.Image]:
    """By how much each pixel differs from its right and from its lower neighbour, without the last column and row."""
    width, height = picture.size
    inner = picture.crop((0, 0, width - 1, height - 1))
    right, below = picture.crop((1, 0, width, height - 1)), picture.crop((0, 1, width - 1, height))
    return ImageChops.difference(inner, right), ImageChops.difference(inner, below)


def _largest_channel(picture: Image.Image) -> Image.Image:
    red, green, blue = picture.split()
    return ImageChops.lighter(ImageChops.lighter(red, green), blue)


def _is_graphic(picture: Image.Image, opacity: float) -> bool:
    """Whether the pixels look drawn: flat areas with sharp edges. `opacity` is the mean opacity, 0 to 1.

    At least 60 % of the pixels equal their neighbours, which noise prevents in photographs; and of the others at most
    55 % differ from theirs by 8 or less (of 255), more of which a product photograph on a plain background has.
    """
    if min(picture.size) < 32:  # too few pixels for these tests
        return False
    differences = _largest_channel(ImageChops.lighter(*_differences(picture))).histogram()
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
    spread = ImageChops.subtract(_largest_channel(sample), ImageChops.darker(ImageChops.darker(red, green), blue))
    is_grey = sum(spread.histogram()[11:]) <= 0.001 * sample.width * sample.height
    return is_grey and ImageStat.Stat(green).stddev[0] >= 12
