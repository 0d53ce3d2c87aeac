"""The phrase tables of all languages, checked in sentences with every fragment."""

from __future__ import annotations

import itertools
import re
import unicodedata

import pytest

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.slug import make_slug
from imgproc_local.vision.describer import PixelFacts
from imgproc_local.vision.facts.colours import NAMES
from imgproc_local.vision.facts.phrases import Mentions, Phrases, phrases, sentence, slug_words

KINDS = (
    "photograph",
    "photograph_bw",
    "graphic",
    "screenshot",
    "picture",
    "picture_bw",
    "animation",
    "fully_transparent",
)
SHAPES = ("portrait", "landscape", "square", "panorama")

SCRIPTS = dict.fromkeys(LANGUAGES, "LATIN") | {
    "bg": "CYRILLIC",
    "ru": "CYRILLIC",
    "uk": "CYRILLIC",
    "el": "GREEK",
    "ar": "ARABIC",
    "he": "HEBREW",
    "hi": "DEVANAGARI",
    "th": "THAI",
    "ko": "HANGUL",
    "zh": "CJK",
}

FACTS = [
    PixelFacts("photograph", colours=("dark_green", "grey"), shape="portrait"),
    PixelFacts("photograph", colours=("pink",), shape="landscape"),
    PixelFacts("photograph", black_and_white=True, shape="square"),
    PixelFacts("graphic", colours=("white", "dark_blue"), has_transparent_areas=True),
    PixelFacts("screenshot", colours=("light_grey",)),
    PixelFacts("picture", many_colours=True, shape="landscape"),
    PixelFacts("picture", colours=("olive", "light_blue"), shape="panorama"),
    PixelFacts("picture", black_and_white=True),
    PixelFacts("picture"),
    PixelFacts("picture", fully_transparent=True),
    *(
        PixelFacts("animation", colours=("orange", "purple"), duration_ms=duration)
        for duration in (40, 500, 1000, 1500, 3000, 71_000)
    ),
]
MENTIONS = [
    Mentions(),
    Mentions(capture_month=(2023, 7)),
    Mentions(filename="sunset harbour", capture_month=(1999, 2)),
    Mentions(keywords="harbour, boats"),
    Mentions(
        quote="Abend am Hafen",
        persons=("Ada Lovelace", "Grace Hopper"),
        places=("Lisbon", "Portugal"),
        capture_month=(2020, 9),
    ),
    Mentions(persons=tuple(f"Person Number{n}" for n in range(9)), places=("X" * 90, "Y" * 90)),
    Mentions(
        quote="q" * 80,
        keywords="k" * 120,
        filename="f" * 80,
        places=("Place " * 15 + "D.C.",),
        capture_month=(2020, 12),
    ),
]


def sentences(code: str) -> list[str]:
    """The sentences in one language for all combinations of FACTS and MENTIONS."""
    return [sentence(code, facts, mentions) for facts, mentions in itertools.product(FACTS, MENTIONS)]


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_table_names_every_kind_shape_colour_and_month(code: str) -> None:
    table: Phrases = phrases(code)
    assert set(table.kind) == set(KINDS)
    assert set(table.shape) == set(SHAPES)
    assert set(table.colour) == set(NAMES)
    assert not table.slug_kind or set(table.slug_kind) == set(KINDS)
    assert not table.slug_colour or set(table.slug_colour) == set(NAMES)
    assert isinstance(table.months, str) or len(set(table.months)) == 12
    assert len(set(table.colour.values())) == len(NAMES)
    needed = {"{kind}", "{shape}", "{colours}", "{duration}", "{transparent_areas}", "{when}", "{keywords}", "{file}"}
    assert set(re.findall(r"\{\w+\}", table.body)) == needed


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_sentence_is_well_formed_and_within_its_length(code: str) -> None:
    for text in sentences(code):
        assert 0 < len(text) <= 250, text
        assert unicodedata.is_normalized("NFC", text), text
        assert not re.search(r"[{}<>]|  |^[\s,،、，]|\s$|[,،、，:：] *[,،、，.。]|\s[,.،。]|\.\.", text), text
        assert "duration" not in text, "a unit that CLDR's data lacks"
        assert "None" not in text


@pytest.mark.parametrize("code", LANGUAGES)
def test_sentences_without_names_are_in_the_script_of_the_language(code: str) -> None:
    for facts, capture_month in itertools.product(FACTS, (None, (2023, 7))):
        text = sentence(code, facts, Mentions(capture_month=capture_month))
        for char in filter(str.isalpha, text):
            name = unicodedata.name(char)
            if code == "ja":
                assert name.startswith(("CJK", "HIRAGANA", "KATAKANA")), (char, text)
            else:
                assert name.startswith(SCRIPTS[code]), (char, text)


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_sentence_has_a_capital_and_a_full_stop(code: str) -> None:
    end = {"ja": "。", "zh": "。", "hi": "।", "th": ""}.get(code, ".")
    for facts in FACTS:
        text = sentence(code, facts, Mentions(capture_month=(2021, 3)))
        assert text.endswith(end), text
        assert text[0] == text[0].upper(), text


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_picture_with_few_texts_gets_at_most_125_characters(code: str) -> None:
    for facts, mentions in itertools.product(FACTS, MENTIONS[:5]):
        assert len(sentence(code, facts, mentions)) <= 125


@pytest.mark.parametrize("code", LANGUAGES)
def test_each_colour_kind_and_month_changes_the_sentence(code: str) -> None:
    assert len({sentence(code, PixelFacts("picture", colours=(name,)), Mentions()) for name in NAMES}) == len(NAMES)
    months = {sentence(code, PixelFacts("photograph"), Mentions(capture_month=(2023, month))) for month in range(1, 13)}
    assert len(months) == 12
    year = {"th": "2566"}.get(code, "2023")
    assert all(year in text for text in months)


@pytest.mark.parametrize("code", LANGUAGES)
def test_names_are_copied_unchanged(code: str) -> None:
    mentions = Mentions(
        quote="iPhone at dusk", persons=("iva van Dijk",), places=("’s-Hertogenbosch",), filename="red Boat"
    )
    text = sentence(code, PixelFacts("photograph", colours=("blue",)), mentions)
    for name in ("iPhone at dusk", "iva van Dijk", "’s-Hertogenbosch"):
        assert name in text, text


@pytest.mark.parametrize("code", LANGUAGES)
def test_quotations_use_the_quotation_marks_of_the_language(code: str) -> None:
    opening, closing = phrases(code).quotes
    text = sentence(code, PixelFacts("picture"), Mentions(quote="Dusk"))
    assert f"{opening}Dusk{closing}" in text
    assert f"{opening}red boat{closing}" in sentence(code, PixelFacts("picture"), Mentions(filename="red boat"))


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_kind_and_colour_has_words_for_a_file_name(code: str) -> None:
    for facts in FACTS:
        for word in slug_words(code, facts, None):
            assert make_slug(word, code), (code, word)
    names = {make_slug(slug_words(code, PixelFacts("picture", colours=(name,)), None)[1], code) for name in NAMES}
    assert len(names) >= len(NAMES) - 1, names


def test_a_long_sentence_leaves_out_the_least_informative_fragments() -> None:
    facts = PixelFacts("photograph", colours=("dark_green", "grey"), shape="portrait", has_transparent_areas=True)
    mentions = Mentions(filename="a rather long name of a file that somebody really typed in", capture_month=(2023, 7))
    text = sentence("en", facts, mentions)
    assert mentions.filename in text
    assert "transparent" not in text
    assert "portrait" not in text


@pytest.mark.parametrize(
    ("code", "month", "part"),
    [
        ("ru", 7, "в июле 2023 года"),
        ("uk", 9, "у вересні 2023 року"),
        ("pl", 9, "we wrześniu 2023 roku"),
        ("cs", 7, "v červenci 2023"),
        ("sk", 2, "vo februári 2023"),
        ("sl", 5, "maja 2023"),
        ("hr", 11, "u studenom 2023. godine"),
        ("hu", 1, "2023 januárjában"),
        ("fi", 3, "maaliskuussa 2023"),
        ("et", 8, "2023. aasta augustis"),
        ("lv", 4, "2023. gada aprīlī"),
        ("lt", 7, "2023 metų liepą"),
        ("el", 8, "τον Αύγουστο του 2023"),
        ("ca", 8, "d’agost del 2023"),
        ("it", 4, "nell’aprile 2023"),
        ("es", 7, "en julio de 2023"),
        ("tr", 8, "Ağustos 2023"),
        ("ja", 7, "2023年7月"),
        ("th", 7, "กรกฎาคม พ.ศ. 2566"),
        ("he", 7, "ביולי 2023"),
        ("vi", 7, "tháng 7 năm 2023"),
    ],
)
def test_months_have_the_inflection_that_the_sentence_needs(code: str, month: int, part: str) -> None:
    assert part in sentence(code, PixelFacts("photograph"), Mentions(capture_month=(2023, month)))


@pytest.mark.parametrize(
    ("code", "one", "three"),
    [
        ("en", "1 second", "3 seconds"),
        ("ru", "1 секунда", "3 секунды"),
        ("pl", "1 sekunda", "3 sekundy"),
        ("ar", "ثانية", "3 ثوان"),
    ],
)
def test_a_duration_follows_the_plural_rules(code: str, one: str, three: str) -> None:
    texts = [sentence(code, PixelFacts("animation", duration_ms=duration), Mentions()) for duration in (1000, 3000)]
    assert one in texts[0]
    assert three in texts[1]
