"""The phrase tables of all languages: their entries, and the sentences that are made of them."""

from __future__ import annotations

import itertools
import re
import unicodedata

import pytest
from msgspec import structs

from imgproc_local.domain.filename import make_slug
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.describer import PixelFacts
from imgproc_local.vision.languages import Mentions, country_name, language_table, sentence, slug_kind

SCRIPTS = {"ar": "ARABIC", "el": "GREEK", "he": "HEBREW", "hi": "DEVANAGARI", "ko": "HANGUL", "th": "THAI", "zh": "CJK"}
SCRIPTS |= dict.fromkeys(("bg", "ru", "uk"), "CYRILLIC")
SENTENCE_ENDS = {"ja": "。", "zh": "。", "hi": "।", "th": ""}

KINDS = ("photograph", "graphic", "screenshot", "picture", "animation")
FACTS = [*map(PixelFacts, KINDS), PixelFacts("photograph", black_and_white=True), PixelFacts("picture", True)]
JULY = Mentions(capture_month=(2023, 7))
MENTIONS = [
    Mentions(),
    JULY,
    Mentions(keywords="harbour, boats"),
    Mentions("Abend am Hafen", (), ("Ada Lovelace", "Grace Hopper"), ("Lisbon", "Portugal"), capture_month=(2020, 9)),
    Mentions(persons=tuple(f"Person Number{n}" for n in range(9)), places=("X" * 90, "Y" * 90)),
    Mentions(quote="q" * 160, quote_language="zh-hant", places=("P" * 60,), capture_month=(2020, 9)),
    Mentions(quote="q" * 80, keywords="k" * 120, places=("Place " * 15 + "D.C.",), capture_month=(2020, 12)),
]


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_sentence_is_well_formed_and_within_its_length(code: str) -> None:
    for facts, mentions in itertools.product(FACTS, MENTIONS):
        text = sentence(code, facts, mentions)
        assert 0 < len(text) <= (125 if mentions in MENTIONS[:4] else 250), text
        assert unicodedata.is_normalized("NFC", text), text
        assert not re.search(r"[{}<>]|  |^[\s,،、，]|\s$|[,،、，:：] *[,،、，.。]|\s[,.،。]|\.\.", text), text
        assert len(re.findall("[:：]", text)) <= 1, text
        assert "None" not in text
    assert all(make_slug(slug_kind(code, facts), code) for facts in FACTS)


@pytest.mark.parametrize("code", LANGUAGES)
def test_sentences_without_names_are_in_the_script_of_the_language_with_a_capital_and_a_full_stop(code: str) -> None:
    scripts = ("CJK", "HIRAGANA", "KATAKANA") if code == "ja" else (SCRIPTS.get(code, "LATIN"),)
    for facts, mentions in itertools.product(FACTS, (Mentions(), JULY)):
        text = sentence(code, facts, mentions)
        assert all(unicodedata.name(char).startswith(scripts) for char in text if char.isalpha()), text
        assert text.endswith(SENTENCE_ENDS.get(code, ".")), text
        assert text[0] == text[0].upper(), text


@pytest.mark.parametrize("code", LANGUAGES)
def test_each_month_changes_the_sentence_of_a_photograph_or_of_other_content(code: str) -> None:
    year = {"th": "2566"}.get(code, "2023")
    photograph, screenshot = PixelFacts("photograph"), PixelFacts("screenshot")
    months = {sentence(code, photograph, Mentions(capture_month=(2023, month))) for month in range(1, 13)}
    assert len(months) == 12
    assert all(year in text for text in months)
    assert year in sentence(code, screenshot, structs.replace(JULY, persons=("Ada",)))
    assert year not in sentence(code, screenshot, JULY)


@pytest.mark.parametrize("code", LANGUAGES)
def test_texts_are_in_the_quotation_marks_of_the_language_and_their_colon_is_the_only_one(code: str) -> None:
    def sentence_with(**mentions: str) -> str:
        return sentence(code, PixelFacts("graphic"), Mentions(places=("Lisbon",), **mentions))

    opening, closing = language_table(code).phrases.quotes
    assert f"{opening}Dusk{closing}" in sentence_with(quote="Dusk")
    assert sentence_with(quote="«Dusk»") == sentence_with(quote="Dusk")
    assert f"{opening}boat, pier{closing}" in sentence(code, PixelFacts("picture"), Mentions(keywords="boat, pier"))
    for text in (sentence_with(quote="Star Wars: A New Hope"), sentence_with(keywords="dc:subject")):
        assert len(re.findall("[:：]", text)) == 1, text


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_language_of_a_quotation_is_named_in_the_language_of_the_sentence(code: str) -> None:
    closing = language_table(code).phrases.quotes[1]

    def name_of(quote_language: str) -> str:
        text = sentence(code, PixelFacts("picture"), Mentions("Dusk", quote_language=quote_language))
        return re.split("[)）]", text.split(f"Dusk{closing}")[1])[0].lstrip(" (（") if re.search("[)）]", text) else ""

    names = {name_of(each) for each in LANGUAGES if each != code}
    assert len(names) == len(LANGUAGES) - 1, names
    scripts = ("HIRAGANA", "KATAKANA", "CJK") if code == "ja" else (SCRIPTS.get(code, "LATIN"),)
    assert all(
        unicodedata.name(char).startswith(scripts)
        for name in names
        for char in name
        if unicodedata.category(char) in ("Lu", "Ll", "Lo")
    )
    assert (name_of("zh-hant") == name_of("zh")) == (code != "zh")
    assert name_of("") == name_of("xx") == ""


COUNTRIES = """
Deutschland da Tyskland|deutschland el Γερμανία|DEU zh 德国|de fr Allemagne
日本 en Japan|الأردن pt Jordânia
Island en Iceland|Côte d'Ivoire lt Dramblio Kaulo Krantas|Turkey de Türkei|USA sv USA|England fr England|Kongo en Kongo
Freiburg nl Freiburg
"""


@pytest.mark.parametrize("row", COUNTRIES.strip().replace("\n", "|").split("|"))
def test_a_country_has_its_name_in_each_language(row: str) -> None:
    name, code, expected = re.fullmatch(r"(.+) ([a-z]{2}) (.+)", row).groups()  # type: ignore[union-attr]
    assert country_name(name, code) == expected


def test_keywords_are_never_left_out_if_nothing_else_is_known() -> None:
    mentions = Mentions(keywords="k" * 150)
    assert mentions.keywords in sentence("en", PixelFacts("picture"), mentions)
    assert mentions.keywords not in sentence("en", PixelFacts("picture"), structs.replace(mentions, places=("Rome",)))


PHOTOGRAPHS = """
en 3 Photograph taken in March 2023.
ru 7 Фотография, сделанная в июле 2023 года.
uk 9 Фотографія, зроблена у вересні 2023 року.
pl 9 Zdjęcie wykonane we wrześniu 2023 roku.
hu 3 2023 márciusában készült fénykép.
fi 3 Maaliskuussa 2023 otettu valokuva.
ca 10 Fotografia feta l’octubre del 2023.
it 7 Fotografia scattata a luglio 2023.
lt 7 Nuotrauka, daryta 2023 m. liepą.
tr 8 Ağustos 2023 tarihli fotoğraf.
ja 7 2023年7月に撮影された写真。
th 7 ภาพถ่าย ถ่ายเมื่อเดือนกรกฎาคม พ.ศ. 2566
"""


@pytest.mark.parametrize("row", PHOTOGRAPHS.strip().split("\n"))
def test_months_have_the_inflection_that_the_sentence_needs(row: str) -> None:
    code, month, text = row.split(" ", 2)
    assert sentence(code, PixelFacts("photograph"), Mentions(capture_month=(2023, int(month)))) == text


@pytest.mark.parametrize(
    ("code", "persons", "joined"),
    [
        ("es", "Ana, Isabel", "Ana e Isabel"),
        ("es", "Ana, Yolanda", "Ana y Yolanda"),
        ("it", "Marco, Emmanuel", "Marco ed Emmanuel"),
        ("uk", "Олена, Ірина", "Олена та Ірина"),
        ("he", "דנה, ורד, אבי", "דנה, ורד ואבי"),
        ("ar", "سارة, علي, مريم", "سارة وعلي ومريم"),
        ("th", "สมชาย ใจดี, มาลี สุขใจ", "สมชาย ใจดี และมาลี สุขใจ"),
        ("zh", "王芳, 李明, 张伟", "王芳、李明和张伟"),
        ("en", "A, B, C, D, E", "A, B, C, D, and E"),
        ("en", "A, B, C, D, E, F", "A, B, C, D, and others"),
        ("zh", "王芳, 李明, 张伟, 刘洋, 陈静, 杨帆", "王芳、李明、张伟、刘洋等"),
    ],
)
def test_a_list_of_persons_follows_the_rules_of_the_language(code: str, persons: str, joined: str) -> None:
    text = sentence(code, PixelFacts("photograph"), Mentions(persons=tuple(persons.split(", "))))
    assert re.search(rf"(^|– ){re.escape(joined)}([:：.]|$)", text), text
