"""Measurements of pixels, with generated pictures."""

from __future__ import annotations

import random

from PIL import Image, ImageDraw, ImageFilter, ImageOps

from imgproc_local.domain.image import EmbeddedMetadata, Format, ImageInfo, Pixels
from imgproc_local.vision.describer import PixelFacts
from imgproc_local.vision.facts.pixels import pixel_facts

SIZE = (320, 240)


def measure_picture(
    picture: Image.Image,
    format_: Format = Format.PNG,
    *,
    camera: bool = False,
    screenshot: bool = False,
    alpha: float = 1.0,
    frames: int = 1,
) -> PixelFacts:
    """The measurements of `picture`; `alpha` is its mean opacity (0 to 1)."""
    width, height = picture.size
    info = ImageInfo(format_, width, height, frames=frames, has_alpha=alpha < 1)
    embedded = EmbeddedMetadata(camera="C" if camera else None)
    name = "Screenshot (1).png" if screenshot else "harbour.png"
    return pixel_facts(Pixels(width, height, picture.tobytes(), alpha), info, embedded, name)


def noisy(picture: Image.Image, strength: int = 24) -> Image.Image:
    """`picture` with noise as of a camera's sensor, so that neighbouring pixels differ."""
    source = random.Random(7)
    grain = Image.frombytes("RGB", picture.size, source.randbytes(picture.width * picture.height * 3))
    return Image.blend(picture, grain.filter(ImageFilter.GaussianBlur(1)), strength / 255)


def page() -> Image.Image:
    """A drawing of a page of text, with a blue header."""
    picture = Image.new("RGB", SIZE, "white")
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, 319, 40), fill=(30, 60, 150))
    for y in range(60, 230, 16):
        for x in range(20, 300, 9):
            draw.rectangle((x, y, x + 4, y + 6), fill=(20, 20, 20))
    return picture


def scene() -> Image.Image:
    """A gradient with noise, like the sky in a photograph."""
    picture = Image.new("RGB", SIZE)
    for y in range(SIZE[1]):
        ImageDraw.Draw(picture).line((0, y, SIZE[0], y), fill=(110 + y // 8, 150 + y // 6, 210 - y // 8))
    return noisy(picture)


def test_flat_areas_with_clear_edges_are_a_graphic_also_with_a_camera_or_transparent_areas() -> None:
    assert measure_picture(page()).kind == "graphic"
    assert measure_picture(page(), camera=True).kind == "graphic"
    assert measure_picture(page(), alpha=0.6).kind == "graphic"


def test_a_noisy_picture_is_a_photograph_only_with_camera_metadata() -> None:
    assert measure_picture(scene()).kind == "picture"
    assert measure_picture(scene(), camera=True).kind == "photograph"


def test_a_product_shot_on_pure_white_and_a_smooth_gradient_are_no_graphics() -> None:
    picture = Image.new("RGB", SIZE, "white")
    picture.paste(scene().resize((150, 150)), (85, 45))
    assert measure_picture(picture).kind == "picture"
    assert measure_picture(Image.linear_gradient("L").resize(SIZE).convert("RGB")).kind == "picture"


def test_the_name_of_a_screenshot_and_several_frames_determine_the_kind() -> None:
    assert measure_picture(page(), screenshot=True).kind == "screenshot"
    assert measure_picture(page(), Format.GIF, frames=9).kind == "animation"


def test_black_and_white_may_have_a_faint_tint_but_no_sepia_and_no_coloured_spot() -> None:
    grey = ImageOps.autocontrast(scene().convert("L"))

    def is_black_and_white(red: int, blue: int, spot: bool = False) -> bool:
        """Whether the scene counts as black and white after these values were added to its channels."""
        tables = [[min(255, max(0, level + added)) for level in range(256)] for added in (red, 0, blue)]
        picture = Image.merge("RGB", [grey.point(table) for table in tables])
        if spot:
            ImageDraw.Draw(picture).ellipse((100, 100, 130, 130), fill="red")
        return measure_picture(picture, Format.JPEG).black_and_white

    assert is_black_and_white(0, 0)
    assert is_black_and_white(4, 0)
    assert not is_black_and_white(12, -20)
    assert not is_black_and_white(0, 0, spot=True)


def test_a_cut_out_photograph_is_no_graphic() -> None:
    picture = Image.new("RGB", SIZE, "white")
    picture.paste(scene().resize((80, 80)).filter(ImageFilter.SHARPEN).filter(ImageFilter.EDGE_ENHANCE_MORE), (40, 40))
    assert measure_picture(picture).kind == "graphic"
    assert measure_picture(picture, alpha=80 * 80 / (SIZE[0] * SIZE[1])).kind == "picture"


def test_a_fully_transparent_picture_has_no_facts() -> None:
    assert measure_picture(Image.new("RGB", SIZE, "white"), alpha=0.0, frames=2) == PixelFacts("picture")
