"""Probe pictures, whose content is known, and the facts that an alt text of each should name.

They are drawn, always with the same pixels: coloured shapes, several equal shapes, shapes beside or above each
other, printed words, and two simple scenes. Invariant: all facts of a probe are visible in its picture, and nothing in
the picture contradicts them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct
from PIL import Image, ImageDraw, ImageFont

from imgproc_local.domain.image import Pixels

SIDE_PX = 448
"""Width and height. Most models process such a picture as a single tile of at most 256 image tokens."""
OVERSAMPLING = 3
"""Pictures are drawn larger by this factor and then reduced, for antialiased edges."""

COLOURS, COUNTS, POSITIONS, WORDS, SCENES = AREAS = ("colours", "counts", "positions", "words", "scenes")
"""The graded areas: colours and shapes, numbers of shapes, positions, printed words, and objects in simple scenes."""

Rgb = tuple[int, int, int]

RED, GREEN, BLUE, YELLOW = (220, 40, 40), (40, 150, 60), (40, 80, 215), (250, 215, 40)
BLACK, WHITE, GREY, BEIGE = (20, 20, 20), (250, 250, 250), (190, 190, 190), (235, 222, 196)
BROWN, DARK_RED, SKY, SEA = (125, 80, 45), (165, 50, 40), (170, 215, 245), (35, 105, 170)


class Canvas:
    """A square picture. All coordinates and lengths are percentages of its side, from the top left."""

    def __init__(self, background: Rgb) -> None:
        side = SIDE_PX * OVERSAMPLING
        self._unit = side / 100
        self._image = Image.new("RGB", (side, side), background)
        self._draw = ImageDraw.Draw(self._image)

    def polygon(self, points: Sequence[tuple[float, float]], colour: Rgb) -> None:
        self._draw.polygon([(x * self._unit, y * self._unit) for x, y in points], fill=colour)

    def rectangle(self, left: float, top: float, right: float, bottom: float, colour: Rgb, radius: float = 0) -> None:
        corners = [value * self._unit for value in (left, top, right, bottom)]
        self._draw.rounded_rectangle(corners, radius * self._unit, fill=colour)

    def circle(self, x: float, y: float, radius: float, colour: Rgb) -> None:
        corners = [value * self._unit for value in (x - radius, y - radius, x + radius, y + radius)]
        self._draw.ellipse(corners, fill=colour)

    def square(self, x: float, y: float, radius: float, colour: Rgb) -> None:
        """A square that appears as large as a circle of this radius, like the triangle and the star."""
        half = 0.88 * radius
        self.rectangle(x - half, y - half, x + half, y + half, colour)

    def triangle(self, x: float, y: float, radius: float, colour: Rgb) -> None:
        base = y + 0.85 * radius
        self.polygon([(x, y - radius), (x - radius, base), (x + radius, base)], colour)

    def star(self, x: float, y: float, radius: float, colour: Rgb) -> None:
        self.spikes(x, y, 1.1 * radius, 0.46 * radius, 5, colour)

    def spikes(self, x: float, y: float, outer: float, inner: float, count: int, colour: Rgb) -> None:
        """A star with `count` points, between the radii `inner` and `outer`."""
        corners = [(inner if corner % 2 else outer, corner * math.pi / count) for corner in range(2 * count)]
        self.polygon([(x + reach * math.sin(angle), y - reach * math.cos(angle)) for reach, angle in corners], colour)

    def line(self, points: Sequence[tuple[float, float]], width: float, colour: Rgb) -> None:
        scaled = [(x * self._unit, y * self._unit) for x, y in points]
        self._draw.line(scaled, fill=colour, width=round(width * self._unit), joint="curve")

    def text(self, x: float, y: float, words: str, height: float, colour: Rgb) -> None:
        """Text centred on the point, in the font that Pillow includes, so that it is the same on every machine."""
        font = ImageFont.load_default(height * self._unit)
        place = (x * self._unit, y * self._unit)
        self._draw.text(place, words, colour, font, anchor="mm", stroke_width=self._unit / 2, stroke_fill=colour)

    def pixels(self) -> Pixels:
        """The finished picture, `SIDE_PX` wide and high."""
        image = self._image.reduce(OVERSAMPLING)
        return Pixels(image.width, image.height, image.tobytes())


class Probe(Struct, frozen=True):
    """A picture, drawn by `draw`, and what its alt text should name.

    `facts` are pairs of an area and a word of `probe_words.toml`; alternative words are separated by slashes. `quotes`
    are words that are printed in the picture and must be in the alt text exactly.
    """

    name: str
    draw: Callable[[], Pixels]
    facts: tuple[tuple[str, str], ...]
    quotes: tuple[str, ...] = ()


class ProbePair(Struct, frozen=True):
    """Two probes that show the same two objects in opposite positions.

    `things` are two words for each object, either of which identifies it, and `sides` one for each position, all from
    `probe_words.toml`.
    """

    probes: tuple[str, str]
    things: tuple[tuple[str, str], tuple[str, str]]
    sides: tuple[str, str]


def _shapes(background: Rgb, *shapes: tuple[str, float, float, float, Rgb]) -> Callable[[], Pixels]:
    """A function that draws shapes, each given by its name, centre (x, y), radius and colour."""

    def draw() -> Pixels:
        canvas = Canvas(background)
        for shape, x, y, radius, colour in shapes:
            getattr(canvas, shape)(x, y, radius, colour)
        return canvas.pixels()

    return draw


def _two_shapes(background: Rgb, shapes: Sequence[tuple[str, Rgb]], *, vertical: bool) -> Callable[[], Pixels]:
    """A function that draws two shapes side by side, or one above the other if `vertical`."""
    centres = [(50.0, 26.0), (50.0, 75.0)] if vertical else [(25.0, 50.0), (75.0, 50.0)]
    return _shapes(background, *((name, x, y, 18, rgb) for (name, rgb), (x, y) in zip(shapes, centres, strict=True)))


def _sign(background: Rgb, board: Rgb, lines: Sequence[tuple[float, str, float]]) -> Callable[[], Pixels]:
    """A function that draws a sign with white lines of text, given by their y, words and letter height."""

    def draw() -> Pixels:
        canvas = Canvas(background)
        canvas.rectangle(10, 26, 90, 74, board, radius=4)
        for y, words, height in lines:
            canvas.text(50, y, words, height, WHITE)
        return canvas.pixels()

    return draw


def _house() -> Pixels:
    """A house with a red roof, a tree to its right and the sun above."""
    canvas = Canvas(SKY)
    canvas.rectangle(0, 72, 100, 100, GREEN)
    canvas.spikes(17, 17, 15, 9.5, 12, YELLOW)
    canvas.circle(17, 17, 9.5, (255, 200, 20))
    canvas.rectangle(18, 47, 54, 80, BEIGE)
    canvas.polygon([(36, 26), (12, 48), (60, 48)], DARK_RED)
    canvas.rectangle(31, 60, 41, 80, BROWN)
    for left in (21, 44):
        canvas.rectangle(left, 54, left + 7, 62, WHITE)
        canvas.line([(left + 3.5, 54), (left + 3.5, 62)], 0.6, BROWN)
        canvas.line([(left, 58), (left + 7, 58)], 0.6, BROWN)
    canvas.rectangle(78, 56, 83, 82, BROWN)
    for x, y, radius in ((80.5, 36, 12), (72.5, 46, 10), (88.5, 46, 10), (80.5, 49, 11)):
        canvas.circle(x, y, radius, (30, 120, 50))
    return canvas.pixels()


def _boat() -> Pixels:
    """A sailing boat on the sea."""
    canvas = Canvas(SKY)
    canvas.rectangle(0, 62, 100, 100, SEA)
    for y, start in ((72, 4), (81, 12), (90, 0)):
        for left in range(start, 100, 24):
            waves = [(left + step, y + 1.6 * math.cos(step * math.pi / 6)) for step in range(13)]
            canvas.line(waves, 0.8, (120, 180, 225))
    canvas.polygon([(22, 58), (80, 58), (70, 70), (31, 70)], BROWN)
    canvas.rectangle(48.5, 12, 50.5, 58, BLACK)
    canvas.polygon([(52, 14), (52, 54), (76, 54)], WHITE)
    canvas.polygon([(47, 18), (47, 54), (27, 54)], WHITE)
    return canvas.pixels()


def _colour_facts(*words: str) -> tuple[tuple[str, str], ...]:
    return tuple((COLOURS, word) for word in words)


_BLUE_SQUARE, _YELLOW_STAR = ("square", BLUE), ("star", YELLOW)
_RED_TRIANGLE, _BLACK_CIRCLE = ("triangle", RED), ("circle", BLACK)
_FACTS_OF_HORIZONTAL_PAIR = (*_colour_facts("blue", "square", "yellow", "star"), (POSITIONS, "left/right"))
_FACTS_OF_VERTICAL_PAIR = (*_colour_facts("red", "triangle", "black", "circle"), (POSITIONS, "above/below"))

PROBES: tuple[Probe, ...] = (
    Probe("red circle", _shapes(WHITE, ("circle", 50, 50, 30, RED)), _colour_facts("red", "circle")),
    Probe(
        "two green triangles",
        _shapes(WHITE, *(("triangle", x, 50, 17, GREEN) for x in (27, 73))),
        (*_colour_facts("green", "triangle"), (COUNTS, "two")),
    ),
    Probe(
        "three yellow stars",
        _shapes(GREY, *(("star", x, y, 16, YELLOW) for x, y in ((50, 26), (25, 70), (75, 70)))),
        (*_colour_facts("yellow", "star"), (COUNTS, "three")),
    ),
    Probe(
        "five blue squares",
        _shapes(WHITE, *(("square", x, y, 13, BLUE) for x, y in ((22, 22), (78, 22), (50, 50), (22, 78), (78, 78)))),
        (*_colour_facts("blue", "square"), (COUNTS, "five")),
    ),
    Probe(
        "square left of star",
        _two_shapes(WHITE, (_BLUE_SQUARE, _YELLOW_STAR), vertical=False),
        _FACTS_OF_HORIZONTAL_PAIR,
    ),
    Probe(
        "star left of square",
        _two_shapes(WHITE, (_YELLOW_STAR, _BLUE_SQUARE), vertical=False),
        _FACTS_OF_HORIZONTAL_PAIR,
    ),
    Probe(
        "triangle above circle",
        _two_shapes(BEIGE, (_RED_TRIANGLE, _BLACK_CIRCLE), vertical=True),
        _FACTS_OF_VERTICAL_PAIR,
    ),
    Probe(
        "circle above triangle",
        _two_shapes(BEIGE, (_BLACK_CIRCLE, _RED_TRIANGLE), vertical=True),
        _FACTS_OF_VERTICAL_PAIR,
    ),
    Probe("sign SALE", _sign(GREY, RED, [(50, "SALE", 28)]), (), ("SALE",)),
    Probe("sign ROOM 42", _sign(BEIGE, BLUE, [(40, "ROOM", 20), (61, "42", 22)]), (), ("ROOM", "42")),
    Probe("house", _house, ((SCENES, "house"), (SCENES, "sun"), (SCENES, "tree"))),
    Probe("boat", _boat, ((SCENES, "boat"), (SCENES, "water"))),
)
PAIRS: tuple[ProbePair, ...] = (
    ProbePair(
        ("square left of star", "star left of square"),
        (("blue", "square"), ("yellow", "star")),
        ("left", "right"),
    ),
    ProbePair(
        ("triangle above circle", "circle above triangle"),
        (("red", "triangle"), ("black", "circle")),
        ("above", "below"),
    ),
)
