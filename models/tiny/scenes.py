"""Rendered scenes of coloured shapes on a plain background, and their correct answers in four languages.

A scene is one thing, or two of which one is above or left of the other. About a tenth of all combinations, selected by
a hash of their names, is held out: training never uses them, so a correct answer to them can't be memorised. Only
Pillow and the standard library are needed.
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
    """`de` takes an ending; `fr` is masculine and feminine; `ja` and `kana` precede the noun."""

    rgb: Rgb
    en: str
    de: str
    fr: tuple[str, str]
    ja: str
    kana: str


class Shape(NamedTuple):
    """`de` and `fr` are the noun and its gender."""

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

_HELD_OUT_SHARE = 26 / 256
_SINGLE_SHARE = 0.2


class Thing(NamedTuple):
    """A shape in a colour, by their English names."""

    colour: str
    shape: str


class Scene(NamedTuple):
    """`first` is above or left of `second`. `second` and `relation` are None if there is one thing."""

    first: Thing
    second: Thing | None
    relation: str | None
    background: str


class Answer(NamedTuple):
    """`filename` is words of the language joined by hyphens."""

    filename: str
    alt_text: str


def held_out_scenes(count: int, seed: int) -> list[Scene]:
    """`count` different scenes that training never uses."""
    return _different(count, seed, held_out=True)


def trained_scenes(count: int, seed: int) -> list[Scene]:
    """`count` different scenes that training may use."""
    return _different(count, seed, held_out=False)


def is_held_out(scene: Scene) -> bool:
    """Whether training never uses this combination of colours, shapes, relation and background."""
    return hashlib.sha256(repr(tuple(scene)).encode()).digest()[0] < _HELD_OUT_SHARE * 256


def random_scene(source: random.Random, *, held_out: bool = False) -> Scene:
    """A random scene, held out or not."""
    while True:
        scene = _any_scene(source)
        if is_held_out(scene) == held_out:
            return scene


def _different(count: int, seed: int, *, held_out: bool) -> list[Scene]:
    source = random.Random(seed)
    scenes: dict[Scene, None] = {}
    while len(scenes) < count:
        scenes[random_scene(source, held_out=held_out)] = None
    return list(scenes)


def _any_scene(source: random.Random) -> Scene:
    first, second = _thing(source), _thing(source)
    background = source.choice([*BACKGROUNDS])
    relation = source.choice(RELATIONS)
    if source.random() < _SINGLE_SHARE or first == second:
        return Scene(first, None, None, background)
    return Scene(first, second, relation, background)


def _thing(source: random.Random) -> Thing:
    return Thing(source.choice([*COLOURS]), source.choice([*SHAPES]))


# --- correct answers


def answer(scene: Scene, language: str) -> Answer:
    """The file name and the alt text of `scene` in one of LANGUAGES."""
    return {"en": _english, "de": _german, "fr": _french, "ja": _japanese}[language](scene)


def written(answer: Answer) -> str:
    """`answer` as the JSON object that the grammar of the service allows, byte for byte."""
    return json.dumps(answer._asdict(), ensure_ascii=False, separators=(",", ":"))


def _named(words: str, alt_text: str) -> Answer:
    return Answer(words.replace(" ", "-").lower(), alt_text[0].upper() + alt_text[1:])


def _english(scene: Scene) -> Answer:
    def noun(thing: Thing) -> str:
        return f"{COLOURS[thing.colour].en} {SHAPES[thing.shape].en}"

    def phrase(thing: Thing) -> str:
        return f"{'an' if thing.colour[0] in 'aeiou' else 'a'} {noun(thing)}"

    ground = f"{BACKGROUNDS[scene.background].en} background"
    if scene.second is None:
        return _named(f"{noun(scene.first)} on {ground}", f"{phrase(scene.first)} on a {ground}.")
    short, long = {"above": ("above", "above"), "left": ("left of", "to the left of")}[scene.relation or ""]
    return _named(
        f"{noun(scene.first)} {short} {noun(scene.second)}",
        f"{phrase(scene.first)} {long} {phrase(scene.second)} on a {ground}.",
    )


def _german(scene: Scene) -> Answer:
    def nominative(thing: Thing) -> str:
        noun, gender = SHAPES[thing.shape].de
        return f"{COLOURS[thing.colour].de}{'er' if gender == 'm' else 'es'} {noun}"

    def dative(thing: Thing, ending: str) -> str:
        return f"{COLOURS[thing.colour].de}{ending} {SHAPES[thing.shape].de[0]}"

    ground = f"auf {BACKGROUNDS[scene.background].de}em Hintergrund"
    if scene.second is None:
        return _named(f"{nominative(scene.first)} {ground}", f"ein {nominative(scene.first)} {ground}.")
    where = {"above": "über", "left": "links von"}[scene.relation or ""]
    return _named(
        # without an article the adjective itself shows the case: blauem Quadrat, but einem blauen Quadrat
        f"{nominative(scene.first)} {where} {dative(scene.second, 'em')}",
        f"ein {nominative(scene.first)} {where} einem {dative(scene.second, 'en')} {ground}.",
    )


def _french(scene: Scene) -> Answer:
    def noun(thing: Thing) -> str:
        noun, gender = SHAPES[thing.shape].fr
        return f"{noun} {COLOURS[thing.colour].fr[gender == 'f']}"

    def phrase(thing: Thing) -> str:
        return f"{'une' if SHAPES[thing.shape].fr[1] == 'f' else 'un'} {noun(thing)}"

    ground = f"sur fond {BACKGROUNDS[scene.background].fr[0]}"
    if scene.second is None:
        return _named(f"{noun(scene.first)} {ground}", f"{phrase(scene.first)} {ground}.")
    where = {"above": "au-dessus d’", "left": "à gauche d’"}[scene.relation or ""] + phrase(scene.second)
    return _named(f"{noun(scene.first)} {where}", f"{phrase(scene.first)} {where} {ground}.")


def _japanese(scene: Scene) -> Answer:
    """The file name is in kana, because a slug is their reading, and that of kanji is ambiguous."""

    def kana(thing: Thing) -> str:
        return f"{COLOURS[thing.colour].kana} {SHAPES[thing.shape].kana}"

    def noun(thing: Thing) -> str:
        return COLOURS[thing.colour].ja + SHAPES[thing.shape].ja

    ground = f"背景は{BACKGROUNDS[scene.background].ja}。"
    if scene.second is None:
        behind = f"{BACKGROUNDS[scene.background].kana} はいけい"
        return _named(f"{kana(scene.first)} と {behind}", f"{noun(scene.first)}が一つある。{ground}")
    where, where_kana = {"above": ("上", "うえ"), "left": ("左", "ひだり")}[scene.relation or ""]
    return _named(
        f"{kana(scene.first)} が {kana(scene.second)} の {where_kana}",
        f"{noun(scene.first)}が{noun(scene.second)}の{where}にある。{ground}",
    )


# --- drawing


def draw(scene: Scene, seed: int, size: tuple[int, int] = (192, 192)) -> Image.Image:
    """The scene as an RGB picture of `size` (width and height in px); `seed` varies positions, sizes and shades."""
    source = random.Random(seed)
    between = source.uniform
    width, height = size
    picture = Image.new("RGB", size, _shade(BACKGROUNDS[scene.background].rgb, source, 8))
    canvas = ImageDraw.Draw(picture)
    if scene.second is None:
        radius = min(size) * between(0.22, 0.34)
        reach = radius * 1.15
        _put(canvas, scene.first, between(reach, width - reach), between(reach, height - reach), radius, source)
        return picture
    along, across = (height, width) if scene.relation == "above" else (width, height)
    radii = [min(along * between(0.16, 0.22), across * 0.4) for _ in range(2)]
    middle = across * between(0.35, 0.65)
    aside = middle + across * between(-0.12, 0.12)
    ends = along * between(0.23, 0.28), along * between(0.72, 0.77)
    for thing, end, centre, radius in zip((scene.first, scene.second), ends, (middle, aside), radii, strict=True):
        x, y = (centre, end) if scene.relation == "above" else (end, centre)
        _put(canvas, thing, x, y, radius, source)
    return picture


def _put(canvas: ImageDraw.ImageDraw, thing: Thing, x: float, y: float, radius: float, source: random.Random) -> None:
    colour = _shade(COLOURS[thing.colour].rgb, source, 14)
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
        case unknown:
            raise ValueError(f"expected one of {', '.join(SHAPES)} as a shape, not {unknown!r}")


def _star(x: float, y: float, radius: float) -> list[tuple[float, float]]:
    reaches = [radius * (0.42 if corner % 2 else 1) for corner in range(10)]
    angles = [corner * math.pi / 5 for corner in range(10)]
    return [
        (x + reach * math.sin(angle), y - reach * math.cos(angle)) for reach, angle in zip(reaches, angles, strict=True)
    ]


def _shade(colour: Rgb, source: random.Random, most: int) -> Rgb:
    red, green, blue = (max(0, min(255, round(value + source.uniform(-most, most)))) for value in colour)
    return red, green, blue
