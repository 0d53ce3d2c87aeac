"""Measurements of pixels, with generated pictures."""

from __future__ import annotations

import random

import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageOps

from imgproc_local.domain.image import Format, ImageInfo, Pixels
from imgproc_local.vision.describer import PixelFacts
from imgproc_local.vision.facts.pixels import measure

SIZE = (320, 240)


def measure_picture(
    picture: Image.Image,
    format_: Format = Format.PNG,
    *,
    camera: bool = False,
    screenshot: bool = False,
    alpha: float = 1.0,
    frames: int = 1,
    orientation: int = 1,
) -> PixelFacts:
    """The measurements of `picture`, as it is displayed; `alpha` is its mean opacity (0 to 1)."""
    width, height = picture.size
    stored = (height, width) if orientation >= 5 else (width, height)
    info = ImageInfo(format_, *stored, frames=frames, orientation=orientation, has_alpha=alpha < 1, duration_ms=900)
    return measure(Pixels(width, height, picture.tobytes(), alpha), info, from_camera=camera, is_screenshot=screenshot)


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


def test_flat_areas_with_clear_edges_are_a_graphic() -> None:
    assert measure_picture(page()).kind == "graphic"


def test_a_noisy_picture_is_a_photograph_only_with_camera_metadata() -> None:
    assert measure_picture(scene()).kind == "picture"
    assert measure_picture(scene(), camera=True).kind == "photograph"


def test_a_graphic_with_camera_metadata_is_no_photograph() -> None:
    assert measure_picture(page(), camera=True).kind == "graphic"


def test_a_product_shot_on_pure_white_is_no_graphic() -> None:
    picture = Image.new("RGB", SIZE, "white")
    picture.paste(scene().resize((150, 150)), (85, 45))
    assert measure_picture(picture).kind == "picture"


def test_a_smooth_gradient_is_no_graphic() -> None:
    assert measure_picture(Image.linear_gradient("L").resize(SIZE).convert("RGB")).kind == "picture"


def test_a_picture_with_the_file_name_of_a_screenshot_is_one() -> None:
    assert measure_picture(page(), screenshot=True).kind == "screenshot"
    assert measure_picture(page()).kind != "screenshot"


def test_a_picture_with_several_frames_is_an_animation() -> None:
    assert measure_picture(page(), Format.GIF, frames=9).kind == "animation"
    assert measure_picture(page(), Format.GIF).kind != "animation"


@pytest.mark.parametrize("tint", [0, 4])
def test_a_grey_picture_is_black_and_white_even_with_a_faint_tint(tint: int) -> None:
    red, green, blue = ImageOps.autocontrast(scene().convert("L")).convert("RGB").split()
    picture = Image.merge("RGB", (red.point(lambda value: min(255, value + tint)), green, blue))
    facts = measure_picture(picture, Format.JPEG)
    assert facts.black_and_white
    assert not facts.colours


def test_sepia_is_not_black_and_white() -> None:
    grey = ImageOps.autocontrast(scene().convert("L"))
    sepia = Image.merge("RGB", (grey.point(lambda v: min(255, v + 12)), grey, grey.point(lambda v: max(0, v - 20))))
    assert not measure_picture(sepia, Format.JPEG).black_and_white


def test_a_coloured_spot_is_not_black_and_white() -> None:
    picture = noisy(Image.linear_gradient("L").resize(SIZE).convert("RGB"), 4).convert("L").convert("RGB")
    assert measure_picture(picture, Format.JPEG).black_and_white
    ImageDraw.Draw(picture).ellipse((100, 100, 130, 130), fill="red")
    assert not measure_picture(picture, Format.JPEG).black_and_white


def test_a_plain_grey_surface_has_the_colour_grey() -> None:
    facts = measure_picture(Image.new("RGB", SIZE, (128, 128, 128)), Format.JPEG)
    assert (facts.black_and_white, facts.colours) == (False, ("grey",))


@pytest.mark.parametrize(
    ("parts", "colours"),
    [
        ({(200, 20, 30): 100}, ("red",)),
        ({(30, 140, 60): 60, (240, 200, 30): 40}, ("green", "yellow")),
        ({(30, 90, 200): 55, (150, 200, 250): 20, (255, 255, 255): 25}, ("blue", "white")),
        ({(200, 20, 30): 90, (30, 90, 200): 10}, ("red",)),
    ],
)
def test_the_main_colours_are_named_largest_first(
    parts: dict[tuple[int, int, int], int], colours: tuple[str, ...]
) -> None:
    picture = Image.new("RGB", (200, 200))
    y = 0
    for colour, percent in parts.items():
        picture.paste(colour, (0, y, 200, y + 2 * percent))
        y += 2 * percent
    assert measure_picture(picture).colours == colours


def test_many_hues_without_a_main_colour_are_many_colours() -> None:
    picture = Image.new("RGB", (210, 210))
    hues = [
        (220, 30, 40),
        (240, 140, 20),
        (240, 210, 30),
        (40, 160, 70),
        (30, 90, 210),
        (130, 60, 180),
        (240, 140, 170),
    ]
    for index, hue in enumerate(hues):
        picture.paste(hue, (index * 30, 0, index * 30 + 30, 210))
    facts = measure_picture(picture)
    assert facts.many_colours
    assert not facts.colours


def test_the_white_in_transparent_areas_is_not_counted() -> None:
    picture = Image.new("RGB", (200, 200), "white")
    picture.paste((200, 20, 30), (0, 0, 200, 60))
    facts = measure_picture(picture, alpha=0.3)
    assert facts.has_transparent_areas
    assert facts.colours == ("red",)
    assert "white" in measure_picture(picture).colours


def test_a_graphic_with_transparent_areas_is_a_graphic() -> None:
    assert measure_picture(page(), alpha=0.6).kind == "graphic"


def test_a_cut_out_photograph_is_no_graphic() -> None:
    picture = Image.new("RGB", SIZE, "white")
    picture.paste(scene().resize((80, 80)).filter(ImageFilter.SHARPEN).filter(ImageFilter.EDGE_ENHANCE_MORE), (40, 40))
    assert measure_picture(picture).kind == "graphic"
    assert measure_picture(picture, alpha=80 * 80 / (SIZE[0] * SIZE[1])).kind == "picture"


def test_a_fully_transparent_picture_has_no_other_facts() -> None:
    assert measure_picture(Image.new("RGB", SIZE, "white"), alpha=0.0) == PixelFacts("picture", fully_transparent=True)


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        ((300, 400), "portrait"),
        ((400, 300), "landscape"),
        ((300, 300), "square"),
        ((301, 300), "square"),
        ((330, 300), ""),
        ((600, 300), "panorama"),
        ((599, 300), "landscape"),
        ((300, 900), "portrait"),
    ],
)
def test_the_shape_is_determined_by_the_ratio_of_the_sides(size: tuple[int, int], shape: str) -> None:
    assert measure_picture(Image.new("RGB", size, "red")).shape == shape


def test_the_shape_is_that_of_the_displayed_picture() -> None:
    assert measure_picture(Image.new("RGB", (300, 400), "red"), Format.JPEG, orientation=6).shape == "portrait"
    assert measure_picture(Image.new("RGB", (300, 400), "red"), Format.JPEG, orientation=1).shape == "portrait"


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (500, 1), (2, 2)])
def test_the_smallest_pictures_have_colours(size: tuple[int, int]) -> None:
    assert measure_picture(Image.new("RGB", size, (30, 90, 200))).colours == ("blue",)
