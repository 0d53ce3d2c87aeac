"""The scenes of the tiny model: their answers, and that the drawings agree with them."""

from __future__ import annotations

import itertools
import re

import pytest
from PIL import Image, ImageChops

from imgproc_local.domain.slug import make_slug
from imgproc_local.vision.llm import prompt
from models.tiny import scenes
from models.tiny.scenes import Scene, Thing

THINGS = [Thing(colour, shape) for colour in scenes.COLOURS for shape in scenes.SHAPES]
SCENES = [Scene(thing, None, None, ground) for thing in THINGS for ground in scenes.BACKGROUNDS] + [
    Scene(first, second, relation, ground)
    for first, second in itertools.permutations(THINGS, 2)
    for relation in scenes.RELATIONS
    for ground in scenes.BACKGROUNDS
]
WORD = r'[^"\\\x00-\x20\x7f.,:;!?/<>_-]{1,24}'
FIRST, REST = r'[^"\\\x00-\x20\x7f<>]', r'[^"\\\x00-\x1f\x7f<>]'


@pytest.mark.parametrize("language", scenes.LANGUAGES)
def test_every_answer_follows_the_grammar_of_the_service(language: str) -> None:
    assert all(part in prompt.GRAMMAR for part in (WORD, FIRST, REST))
    for scene in SCENES:
        answer = scenes.reference_answer(scene, language)
        parsed = prompt.parse_answer(scenes.to_json(answer))
        assert parsed is not None
        assert (parsed.filename, parsed.alt_text) == answer
        assert re.fullmatch(f"{WORD}(-{WORD}){{2,7}}", answer.filename), answer.filename
        assert re.fullmatch(FIRST + REST + "{1,124}", answer.alt_text), answer.alt_text
        assert answer.alt_text[0] == answer.alt_text[0].upper()
        assert answer.alt_text.endswith("。" if language == "ja" else ".")
    assert len({scenes.reference_answer(scene, language).alt_text for scene in SCENES}) == len(SCENES)
    on_white = [scene for scene in SCENES if scene.background == "white"]
    slugs = {make_slug(scenes.reference_answer(scene, language).filename, language) for scene in on_white}
    assert len(slugs) == len(on_white), "different scenes have different file names"


def test_words_agree_in_gender_and_case() -> None:
    scene = Scene(Thing("green", "star"), Thing("orange", "triangle"), "left", "white")
    assert [scenes.reference_answer(scene, language).alt_text for language in ("de", "fr")] == [
        "Ein grüner Stern links von einem orangefarbenen Dreieck auf weißem Hintergrund.",
        "Une étoile verte à gauche d’un triangle orange sur fond blanc.",
    ]


def test_held_out_scenes_are_not_used_for_training() -> None:
    held_out, trained = scenes.held_out_scenes(300, seed=1), scenes.training_scenes(300, seed=1)
    assert not set(held_out) & set(trained)
    assert held_out == scenes.held_out_scenes(300, seed=1)
    assert 0.07 < sum(map(scenes.is_held_out, SCENES)) / len(SCENES) < 0.13


@pytest.mark.parametrize("relation", scenes.RELATIONS)
def test_things_are_drawn_above_or_left_as_in_the_answer(relation: str) -> None:
    for seed, (first, second) in enumerate(itertools.permutations(("circle", "square", "triangle", "star"), 2)):
        picture = scenes.draw(Scene(Thing("red", first), Thing("blue", second), relation, "white"), seed, (96, 170))
        red, blue = (_box(picture, colour) for colour in ("red", "blue"))
        assert (red[3] < blue[1]) if relation == "above" else (red[2] < blue[0])


def _box(picture: Image.Image, colour: str) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of all pixels close to the colour."""
    target = scenes.COLOURS[colour].rgb
    near = picture.point([255 * (abs(level - value) <= 20) for value in target for level in range(256)])
    red, green, blue = near.split()
    box = ImageChops.darker(ImageChops.darker(red, green), blue).getbbox()
    assert box is not None
    return box
