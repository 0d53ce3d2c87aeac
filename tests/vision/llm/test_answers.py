"""What is used of an answer that is not the JSON that was asked for."""

from __future__ import annotations

import pytest

from tests.support.fake_model import BARN, VISION, FakeModel, describe, facts

SENTENCE = "A red barn stands in the snow under a grey sky."
TREES = "Behind it, a long row of bare trees leads from the road to the hills, and in front of it, near the open gate"
CUT_OFF = f"{SENTENCE} {TREES} of the snowy yard, two children in blue coats and"
LONG = f"{CUT_OFF} a dog in a red collar build a large snowman together."


@pytest.mark.parametrize(
    "written",
    [
        BARN,
        f"```json\n{BARN}\n```",
        f"Sure! Here is the JSON:\n\n{BARN}",
        f"{BARN}\n\nLet me know if you need it in another language.",
        f"{BARN}{BARN.replace('red barn', 'blue barn')}",
        BARN.replace("alt_text", "altText").replace("filename", "file_name"),
        BARN.replace("alt_text", "Alternative text"),
        BARN.replace("alt_text", "description"),
        f'{{"answer": {BARN}, "language": "English"}}',
        BARN.replace("A red", "A\nred"),
        BARN.replace('"}', '",}'),
        BARN.replace("stands", "st\\u0061nds"),
        BARN[:-20],
        f'{{"alt_text":"{SENTENCE}","filename":"red-ba',
        f'{{"alt_text":"{SENTENCE} A dog runs across the',
        f'{{"alt_text":"{CUT_OFF}","filename":"red-barn-snow"}}',
        f'{{"alt_text":"{LONG}","filename":"red-barn-snow"}}',
        SENTENCE,
        f"“{SENTENCE}”",
        f"- {SENTENCE}",
        f"1. {SENTENCE}\n2. Another barn.",
        f"Alt text: {SENTENCE}\nFile name: red-barn-snow",
        f"**Alternative text:** {SENTENCE}\n\n**Filename:** `red-barn-snow`",
        f"# Alternative text\n\n{SENTENCE}\n\nIt names the barn first.",
        f"Here is an alternative text for the picture:\n\n> {SENTENCE}",
    ],
)
def test_an_answer_is_found_in_what_models_write_instead_of_the_json(written: str) -> None:
    [english] = describe(FakeModel(en=written), "en")
    assert (english.seo_alt_text, english.source) == (SENTENCE, VISION)
    assert english.seo_filename.startswith("red-barn-s")


@pytest.mark.parametrize(
    "written",
    [
        "",
        "{" * 10_000,
        '{"filename":"red-barn-snow","alt_text":"A red',
        '{"filename":1}',
        '{"alt_text":["A red barn in the snow."]}',
        '{"alt_text":"A red barn stands in the snow next to a',
        '{"alt_text":"' + "\\" * 10_001,
        '{"thought":"The user wants an alternative text. The picture shows a red barn in the snow."}',
        "The user wants an alternative text for a picture of a barn.",
        "Okay, the picture has a red barn in the snow.",
        "Wait, the barn stands in the snow.",
        "Looking at the picture, a red barn stands in the snow.",
        "Step 1: Describe the barn in the snow.",
        "Error: model not found.",
        "User: describe it. Assistant: A red barn stands in the snow.",
        "Respond in English.",
        "It says where it leads or what it does.",
        "See in the picture what its words mean.",
        "A barn in the snow " * 200_000,
        "nonsense",
        "I'm sorry, I can't see the picture.",
    ],
)
def test_an_answer_without_a_complete_sentence_about_the_picture_is_rejected(written: str) -> None:
    assert describe(FakeModel(en=written), "en") == facts("en")
