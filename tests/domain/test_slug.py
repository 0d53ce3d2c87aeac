"""Slugs follow the rules in api/README.md, "Results", and the conventions of each language."""

import re
import string
import tomllib
import unicodedata
from pathlib import Path

import pytest

from imgproc_local.domain.filename import (
    _MAX_SLUG_CHARS,
    MAX_SLUG_WORDS,
    archive_name,
    is_archive_name,
    make_slug,
    numbered,
)
from imgproc_local.domain.languages import LANGUAGES

SLUG = re.compile("[a-z0-9]+(-[a-z0-9]+)*")


CASES = [
    case
    for name in ("romanisation.toml", "romanisation_held_out.toml")
    for cases in tomllib.loads((Path(__file__).parent / name).read_text("utf-8")).values()
    for case in cases
]
KNOWN_MISSES = {
    "वाराणसी": "the silent vowels of Hindi depend on the word",
    "广东长隆": "the name is not in the dictionary, and is read character by character",
    "พระอาทิตย์ตก": "the text can be divided into Thai words in several ways",
}


@pytest.mark.parametrize(
    ("requested", "language", "text", "slug"),
    [
        pytest.param(*case, marks=pytest.mark.xfail(strict=True, reason=KNOWN_MISSES[case[2]]))
        if case[2] in KNOWN_MISSES
        else case
        for case in CASES
    ],
)
def test_texts_are_romanised_by_their_own_script_and_language(
    requested: str, language: str, text: str, slug: str
) -> None:
    assert make_slug(text, requested, language or None) == slug


@pytest.mark.parametrize("requested", LANGUAGES)
def test_the_requested_language_does_not_change_how_a_text_of_a_known_language_is_romanised(requested: str) -> None:
    texts = {"ja": "東京", "zh": "重庆", "uk": "Київ", "bg": "Щастие", "de": "Größe", "fr": "L'été", "fa": "تهران"}
    slugs = [make_slug(text, requested, language) for language, text in texts.items()]
    assert slugs == ["tokyo", "chongqing", "kyiv", "shtastie", "groesse", "l-ete", "tehran"]


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Con", "con-image"),  # the name of a device
        ("COM1!", "com1-image"),
        ("Con air", "con-air"),
        ("abcdefghi " * 12, "-".join(["abcdefghi"] * 8)),
        ("abcdefghijklmno " * 6, "-".join(["abcdefghijklmno"] * 5)),
        ("قطة " + "ليل" + "\u064b\u0627" * 3000, "qitta"),  # an ending that is repeated without end
        *((text, "") for text in ("   ", "—!?", "🎉🎉", "'’")),
    ],
)
def test_a_slug_is_no_device_ends_after_a_word_and_is_empty_without_words(text: str, slug: str) -> None:
    assert make_slug(text, "ar" if slug == "qitta" else "en") == slug


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
    assert len(slug) <= _MAX_SLUG_CHARS
    assert slug.count("-") < MAX_SLUG_WORDS


@pytest.mark.parametrize("slug", ["red-boat", "x" * 80, "-".join(["abcdefghi"] * 8), "a-" * 39 + "bc"])
def test_a_numbered_slug_ends_with_its_number_and_is_within_the_limit(slug: str) -> None:
    for number in (2, 12345):
        name = numbered(slug, number)
        assert len(name) <= _MAX_SLUG_CHARS
        assert SLUG.fullmatch(name)
        assert slug.startswith(name.removesuffix(f"-{number}"))


@pytest.mark.parametrize(
    ("slug", "key", "name"),
    [
        ("red-boat", "harbour/1.jpg", "red-boat-l64ky724"),
        ("red-boat", "harbour/2.jpg", "red-boat-wyjo3vv4"),
        ("red-boat", "h\udce4fen.jpg", "red-boat-3lj7diuq"),
        ("-".join(["word"] * 16), "harbour/1.jpg", "-".join(["word"] * 14) + "-l64ky724"),
    ],
)
def test_an_archive_name_depends_on_the_slug_and_the_key_alone(slug: str, key: str, name: str) -> None:
    assert archive_name(slug, key) == name
    assert is_archive_name(name, key)
    assert is_archive_name(f"{name}-12", key)
    assert not is_archive_name(name, f"{key}x")
    assert not is_archive_name(slug, key)
    assert len(name) <= _MAX_SLUG_CHARS
