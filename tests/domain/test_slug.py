"""Slugs follow the rules in api/README.md, "Results", and the conventions of each language."""

import re
import string
import unicodedata

import pytest

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.slug import MAX_CHARS, MAX_WORDS, make_slug, numbered

SLUG = re.compile("[a-z0-9]+(-[a-z0-9]+)*")


@pytest.mark.parametrize(
    ("language", "text", "slug"),
    [
        ("en", "Don't stop: the photographer’s boat!", "dont-stop-the-photographers-boat"),
        ("en", "  A -- red_boat, 2023 (2) ", "a-red-boat-2023-2"),
        ("de", "Über den Dächern: schöne Größe", "ueber-den-daechern-schoene-groesse"),
        ("fr", "L'été à l’école", "l-ete-a-l-ecole"),
        ("fr", "Œuvre et cœur", "oeuvre-et-coeur"),
        ("it", "L'arte dell’acqua", "l-arte-dell-acqua"),
        ("ca", "El col·legi de l'hora", "el-collegi-de-l-hora"),
        ("pt", "Copo d'água em São João", "copo-d-agua-em-sao-joao"),
        ("es", "El niño y la cigüeña", "el-nino-y-la-ciguena"),
        ("nl", "Foto’s van 's-Gravenhage", "fotos-van-s-gravenhage"),
        ("da", "Rødgrød på Ærø og Ålborg", "roedgroed-paa-aeroe-og-aalborg"),
        ("nb", "Blåbær på øya", "blaabaer-paa-oeya"),
        ("sv", "Smörgås i Åre och Älvsjö", "smorgas-i-are-och-alvsjo"),
        ("fi", "Hääyö Järvellä", "haayo-jarvella"),
        ("et", "Õhtu Tõrvas, öö", "ohtu-torvas-oo"),
        ("pl", "Łódź i żółw", "lodz-i-zolw"),
        ("cs", "Žluťoučký kůň", "zlutoucky-kun"),
        ("hr", "Đak u Čakovcu", "dak-u-cakovcu"),
        ("hu", "Őszi fű, gyönyörű", "oszi-fu-gyonyoru"),
        ("ro", "Țară și oraș", "tara-si-oras"),
        ("tr", "IŞIK İstanbul'da ılık", "isik-istanbulda-ilik"),
        ("vi", "Đường phố Hà Nội", "duong-pho-ha-noi"),
        ("ru", "Подъём в осеннюю гору, ещё", "podyom-v-osennyuyu-goru-eshchyo"),
        ("uk", "Їжак у Києві, щастя й Юрій", "yizhak-u-kyievi-shchastia-y-yurii"),
        ("bg", "Щастие в София", "shtastie-v-sofia"),
        ("el", "Άγγελος, ουρανός και αυτοκίνητο αύριο", "angelos-ouranos-kai-aftokinito-avrio"),
        ("he", "שלום ירושלים", "shlom-yroshlim"),
        ("ar", "صورة في القاهرة", "sura-fi-alqahra"),
        ("hi", "काला कमल सरकार", "kala-kamal-sarkar"),
        ("ko", "독립문 서울 신라 한국어", "dongnimmun-seoul-silla-hangugeo"),
        ("zh", "绿山和女人", "lv-shan-he-nv-ren"),
        ("ja", "しゃしん とうきょう マッチ カメラ", "shashin-tokyo-matchi-kamera"),
    ],
)
def test_words_are_romanised_by_the_conventions_of_the_language(language: str, text: str, slug: str) -> None:
    assert make_slug(text, language) == slug


@pytest.mark.parametrize(("text", "slug"), [("Con", "con-image"), ("COM1!", "com1-image"), ("Con air", "con-air")])
def test_a_slug_is_not_the_name_of_a_device(text: str, slug: str) -> None:
    assert make_slug(text, "en") == slug


def test_words_with_kanji_are_omitted_because_their_reading_is_ambiguous() -> None:
    assert make_slug("東京の夜 カメラ", "ja") == "kamera"


@pytest.mark.parametrize("text", ["", "   ", "—!?", "🎉🎉", "'’"])
def test_text_without_words_gives_an_empty_slug(text: str) -> None:
    assert {make_slug(text, language) for language in LANGUAGES} == {""}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "text",
    [
        string.printable,
        "".join(chr(code) for code in range(0x80, 0x600) if chr(code).isprintable()),
        "สวัสดี हिन्दी בוקר مرحبا 東京 中文 한글 Ελλάδα Київ Đường ſtraße ﬁn",
        unicodedata.normalize("NFD", "Über Ångström café Đặng й ё 가"),
        "x" * 300,
        "wort " * 40,
        "\u200d\u0301\ud7ff\uffff",
    ],
)
def test_any_text_in_any_language_gives_an_ascii_slug_within_the_limits(language: str, text: str) -> None:
    slug = make_slug(text, language)
    assert slug == "" or SLUG.fullmatch(slug)
    assert len(slug) <= MAX_CHARS
    assert slug.count("-") < MAX_WORDS


def test_composed_and_decomposed_letters_give_the_same_slug() -> None:
    text = "Größe Åre Дёмый й café"
    for language in LANGUAGES:
        assert make_slug(unicodedata.normalize("NFD", text), language) == make_slug(text, language)


def test_a_long_text_is_truncated_after_a_word() -> None:
    assert make_slug("abcdefghi " * 12, "en") == "-".join(["abcdefghi"] * 8)
    assert make_slug("abcdefghijklmno " * 6, "en") == "-".join(["abcdefghijklmno"] * 5)


@pytest.mark.parametrize("number", [2, 10, 12345])
@pytest.mark.parametrize("slug", ["red-boat", "x" * 80, "-".join(["abcdefghi"] * 8), "a-" * 39 + "bc"])
def test_a_numbered_slug_ends_with_its_number_and_is_within_the_limit(slug: str, number: int) -> None:
    name = numbered(slug, number)
    assert name.endswith(f"-{number}")
    assert len(name) <= MAX_CHARS
    assert SLUG.fullmatch(name)
    assert slug.startswith(name.removesuffix(f"-{number}"))


def test_a_short_slug_is_numbered_without_truncation() -> None:
    assert numbered("red-boat", 2) == "red-boat-2"
