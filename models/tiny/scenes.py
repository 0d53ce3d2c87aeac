"""A synthetic data set: scenes of coloured shapes on a plain background, with reference answers in four languages.

A scene has one object, or two objects of which the first is above or left of the second. About a tenth of all scenes,
selected by a hash, are held out: they are never used for training, so that evaluation does not measure memorisation.
Only Pillow and the standard library are needed.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from typing import NamedTuple

from PIL import Image, ImageDraw

LANGUAGES = ("en", "de", "fr", "ja")

Rgb = tuple[int, int, int]


class Colour(NamedTuple):
    """A colour and its adjectives in each language.

    `de` has no inflectional ending. `fr` is the masculine and the feminine form. `ja` is the form before a noun, except
    in BACKGROUNDS, where it is the noun for the colour. `kana` is always the form before a noun, in kana.
    """

    rgb: Rgb
    en: str
    de: str
    fr: tuple[str, str]
    ja: str
    kana: str


class Shape(NamedTuple):
    """The nouns for a shape. `de` and `fr` are pairs of a noun and its gender; `kana` is `ja` in kana."""

    en: str
    de: tuple[str, str]
    fr: tuple[str, str]
    ja: str
    kana: str


COLOURS = {
    "red": Colour((220, 40, 40), "red", "rot", ("rouge", "rouge"), "赤い", "あかい"),
    "blue": Colour((40, 70, 220), "blue", "blau", ("bleu", "bleue"), "青い", "あおい"),
    "green": Colour((40, 160, 60), "green", "grün", ("vert", "verte"), "緑の", "みどりの"),
    "yellow": Colour((245, 215, 40), "yellow", "gelb", ("jaune", "jaune"), "黄色い", "きいろい"),
    "orange": Colour((245, 140, 30), "orange", "orangefarben", ("orange", "orange"), "オレンジの", "オレンジの"),
    "purple": Colour((130, 50, 170), "purple", "violett", ("violet", "violette"), "紫の", "むらさきの"),
    "black": Colour((20, 20, 20), "black", "schwarz", ("noir", "noire"), "黒い", "くろい"),
    "pink": Colour((245, 130, 180), "pink", "rosafarben", ("rose", "rose"), "ピンクの", "ピンクの"),
}
BACKGROUNDS = {
    "white": Colour((250, 250, 250), "white", "weiß", ("blanc", "blanche"), "白", "しろい"),
    "grey": Colour((150, 150, 150), "grey", "grau", ("gris", "grise"), "灰色", "はいいろの"),
    "beige": Colour((235, 220, 190), "beige", "beigefarben", ("beige", "beige"), "ベージュ", "ベージュの"),
}
SHAPES = {
    "circle": Shape("circle", ("Kreis", "m"), ("cercle", "m"), "丸", "まる"),
    "square": Shape("square", ("Quadrat", "n"), ("carré", "m"), "四角", "しかく"),
    "triangle": Shape("triangle", ("Dreieck", "n"), ("triangle", "m"), "三角", "さんかく"),
    "star": Shape("star", ("Stern", "m"), ("étoile", "f"), "星", "ほし"),
}
RELATIONS = ("above", "left")

_HELD_OUT_FRACTION = 26 / 256
_SINGLE_OBJECT_PROBABILITY = 0.2
_COLOUR_JITTER, _BACKGROUND_JITTER = 14, 8
"""Maximum random offset of each channel, in 8-bit steps."""


class Thing(NamedTuple):
    """An object in a scene: the keys of its colour in COLOURS and of its shape in SHAPES."""

    colour: str
    shape: str


class Scene(NamedTuple):
    """Where the objects are: `first` is above or left of `second`, depending on `relation`.

    `second` and `relation` are None in a scene with one object. `background` is a key of BACKGROUNDS.
    """

    first: Thing
    second: Thing | None
    relation: str | None
    background: str


class Answer(NamedTuple):
    """A reference answer. `filename` consists of words joined by hyphens."""

    filename: str
    alt_text: str


def held_out_scenes(count: int, seed: int) -> list[Scene]:
    """`count` distinct scenes of the held-out set."""
    return _distinct_scenes(count, seed, held_out=True)


def training_scenes(count: int, seed: int) -> list[Scene]:
    """`count` distinct scenes outside the held-out set."""
    return _distinct_scenes(count, seed, held_out=False)


def is_held_out(scene: Scene) -> bool:
    """Whether `scene` is held out. This depends on its repr, so renaming `Thing` or its fields changes the set."""
    return hashlib.sha256(repr(tuple(scene)).encode()).digest()[0] < _HELD_OUT_FRACTION * 256


def random_scene(rng: random.Random, *, held_out: bool = False) -> Scene:
    """A random scene, either from the held-out set or from all others."""
    while True:
        first, second = (Thing(rng.choice([*COLOURS]), rng.choice([*SHAPES])) for _ in range(2))
        background = rng.choice([*BACKGROUNDS])
        relation = rng.choice(RELATIONS)
        if rng.random() < _SINGLE_OBJECT_PROBABILITY or first == second:
            scene = Scene(first, None, None, background)
        else:
            scene = Scene(first, second, relation, background)
        if is_held_out(scene) == held_out:
            return scene


def _distinct_scenes(count: int, seed: int, *, held_out: bool) -> list[Scene]:
    rng = random.Random(seed)
    scenes: dict[Scene, None] = {}
    while len(scenes) < count:
        scenes[random_scene(rng, held_out=held_out)] = None
    return list(scenes)


# --- reference answers


def reference_answer(scene: Scene, language: str) -> Answer:
    """The correct file name and alt text of `scene` in `language`, one of LANGUAGES."""
    return {"en": _english, "de": _german, "fr": _french, "ja": _japanese}[language](scene)


def to_json(answer: Answer) -> str:
    """`answer` as JSON in the only form that the grammar of the service allows."""
    fields = {"alt_text": answer.alt_text, "filename": answer.filename}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _make_answer(words: str, alt_text: str) -> Answer:
    """An answer with the file name `words`, joined by hyphens, and with a capital at the beginning of `alt_text`."""
    return Answer(words.replace(" ", "-").lower(), alt_text[0].upper() + alt_text[1:])


def _english(scene: Scene) -> Answer:
    def noun(thing: Thing) -> str:
        return f"{COLOURS[thing.colour].en} {SHAPES[thing.shape].en}"

    def phrase(thing: Thing) -> str:
        return f"{'an' if thing.colour[0] in 'aeiou' else 'a'} {noun(thing)}"

    background = f"{BACKGROUNDS[scene.background].en} background"
    if scene.second is None:
        return _make_answer(f"{noun(scene.first)} on {background}", f"{phrase(scene.first)} on a {background}.")
    short, long = {"above": ("above", "above"), "left": ("left of", "to the left of")}[scene.relation or ""]
    return _make_answer(
        f"{noun(scene.first)} {short} {noun(scene.second)}",
        f"{phrase(scene.first)} {long} {phrase(scene.second)} on a {background}.",
    )


def _german(scene: Scene) -> Answer:
    def nominative(thing: Thing) -> str:
        noun, gender = SHAPES[thing.shape].de
        return f"{COLOURS[thing.colour].de}{'er' if gender == 'm' else 'es'} {noun}"

    def dative(thing: Thing, ending: str) -> str:
        return f"{COLOURS[thing.colour].de}{ending} {SHAPES[thing.shape].de[0]}"

    background = f"auf {BACKGROUNDS[scene.background].de}em Hintergrund"
    if scene.second is None:
        return _make_answer(f"{nominative(scene.first)} {background}", f"ein {nominative(scene.first)} {background}.")
    where = {"above": "über", "left": "links von"}[scene.relation or ""]
    return _make_answer(
        # without an article the adjective itself shows the case: blauem Quadrat, but einem blauen Quadrat
        f"{nominative(scene.first)} {where} {dative(scene.second, 'em')}",
        f"ein {nominative(scene.first)} {where} einem {dative(scene.second, 'en')} {background}.",
    )


def _french(scene: Scene) -> Answer:
    def noun(thing: Thing) -> str:
        noun, gender = SHAPES[thing.shape].fr
        return f"{noun} {COLOURS[thing.colour].fr[gender == 'f']}"

    def phrase(thing: Thing) -> str:
        return f"{'une' if SHAPES[thing.shape].fr[1] == 'f' else 'un'} {noun(thing)}"

    background = f"sur fond {BACKGROUNDS[scene.background].fr[0]}"
    if scene.second is None:
        return _make_answer(f"{noun(scene.first)} {background}", f"{phrase(scene.first)} {background}.")
    where = {"above": "au-dessus d’", "left": "à gauche d’"}[scene.relation or ""] + phrase(scene.second)
    return _make_answer(f"{noun(scene.first)} {where}", f"{phrase(scene.first)} {where} {background}.")


def _japanese(scene: Scene) -> Answer:
    """The file name is in kana, because slugs are romanised and the reading of kanji is ambiguous."""

    def kana(thing: Thing) -> str:
        return f"{COLOURS[thing.colour].kana} {SHAPES[thing.shape].kana}"

    def noun(thing: Thing) -> str:
        return COLOURS[thing.colour].ja + SHAPES[thing.shape].ja

    background = f"背景は{BACKGROUNDS[scene.background].ja}。"
    if scene.second is None:
        behind = f"{BACKGROUNDS[scene.background].kana} はいけい"
        return _make_answer(f"{kana(scene.first)} と {behind}", f"{noun(scene.first)}が一つある。{background}")
    where, where_kana = {"above": ("上", "うえ"), "left": ("左", "ひだり")}[scene.relation or ""]
    return _make_answer(
        f"{kana(scene.first)} が {kana(scene.second)} の {where_kana}",
        f"{noun(scene.first)}が{noun(scene.second)}の{where}にある。{background}",
    )


# --- drawing


def draw(scene: Scene, seed: int, size: tuple[int, int] = (192, 192)) -> Image.Image:
    """The scene as an RGB picture. `size` is (width, height) in px; `seed` varies positions, sizes and shades."""
    rng = random.Random(seed)
    width, height = size
    picture = Image.new("RGB", size, _jitter(BACKGROUNDS[scene.background].rgb, rng, _BACKGROUND_JITTER))
    canvas = ImageDraw.Draw(picture)
    if scene.second is None:
        radius = min(size) * rng.uniform(0.22, 0.34)
        margin = radius * 1.15
        x, y = rng.uniform(margin, width - margin), rng.uniform(margin, height - margin)
        _draw_thing(canvas, scene.first, x, y, radius, rng)
        return picture
    # along: in the direction from the first object to the second; across: perpendicular to it
    along, across = (height, width) if scene.relation == "above" else (width, height)
    radii = [min(along * rng.uniform(0.16, 0.22), across * 0.4) for _ in range(2)]
    first_across = across * rng.uniform(0.35, 0.65)
    second_across = first_across + across * rng.uniform(-0.12, 0.12)
    first_along, second_along = along * rng.uniform(0.23, 0.28), along * rng.uniform(0.72, 0.77)
    objects = (
        (scene.first, first_along, first_across, radii[0]),
        (scene.second, second_along, second_across, radii[1]),
    )
    for thing, centre_along, centre_across, radius in objects:
        x, y = (centre_across, centre_along) if scene.relation == "above" else (centre_along, centre_across)
        _draw_thing(canvas, thing, x, y, radius, rng)
    return picture


def _draw_thing(
    canvas: ImageDraw.ImageDraw, thing: Thing, x: float, y: float, radius: float, rng: random.Random
) -> None:
    colour = _jitter(COLOURS[thing.colour].rgb, rng, _COLOUR_JITTER)
    match thing.shape:
        case "circle":
            canvas.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colour)
        case "square":
            half = radius * 0.88
            canvas.rectangle([x - half, y - half, x + half, y + half], fill=colour)
        case "triangle":
            base = y + radius * 0.85
            canvas.polygon([(x, y - radius), (x - radius, base), (x + radius, base)], fill=colour)
        case "star":
            canvas.polygon(_star(x, y, radius * 1.1), fill=colour)


def _star(x: float, y: float, radius: float) -> list[tuple[float, float]]:
    """The corners of a star with five points and the centre (x, y)."""
    distances = [radius * (0.42 if corner % 2 else 1) for corner in range(10)]
    angles = [corner * math.pi / 5 for corner in range(10)]
    return [
        (x + distance * math.sin(angle), y - distance * math.cos(angle))
        for distance, angle in zip(distances, angles, strict=True)
    ]


def _jitter(colour: Rgb, rng: random.Random, max_offset: int) -> Rgb:
    """`colour` with a random offset of up to `max_offset` in each channel."""
    red, green, blue = (max(0, min(255, round(value + rng.uniform(-max_offset, max_offset)))) for value in colour)
    return red, green, blue
