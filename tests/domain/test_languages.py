"""The supported languages are those that have a file, and that texts can be checked for."""

from importlib import resources

import pytest

from imgproc_local.domain.languages import LANGUAGES, language_of
from imgproc_local.vision.text.language import scripts_of
from imgproc_local.vision.text.ngram_table import probabilities

PUBLISHED = (
    "en de fr es it pt nl da sv nb fi pl cs sk sl hr hu ro bg el tr uk ru et lv lt ca id vi ja ko zh ar he hi th"
)


def test_the_published_languages_come_first_in_their_order() -> None:
    codes = PUBLISHED.split()
    assert list(LANGUAGES)[: len(codes)] == codes
    assert all(code == language.code for code, language in LANGUAGES.items())


def test_no_two_languages_have_the_same_name() -> None:
    assert len({language.name for language in LANGUAGES.values()}) == len(LANGUAGES)
    assert len({language.native_name for language in LANGUAGES.values()}) == len(LANGUAGES)


def test_exactly_the_supported_languages_have_a_file() -> None:
    files = resources.files("imgproc_local.vision.languages").iterdir()
    assert {file.name for file in files if file.name.endswith(".toml")} == {f"{code}.toml" for code in LANGUAGES}


def test_every_language_in_latin_or_cyrillic_letters_is_in_the_language_table() -> None:
    known = {script: set(probabilities("a text", script)) - {""} for script in ("latin", "cyrillic")}
    unknown = [code for code in LANGUAGES if (script := scripts_of(code)[0]) in known and code not in known[script]]
    newcomers = sorted(code for code in known["latin"] | known["cyrillic"] if len(code) == 2 and code not in LANGUAGES)
    assert unknown == [], (
        f"vision/text/ngrams.bin does not know {unknown}, so that texts in them can't be checked. Without a new table"
        f" (models/language/README.md), only these can be added: {newcomers}; if one has Cyrillic letters, enter it in"
        " _SCRIPTS_OF of vision/text/language.py."
    )


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        *(("de", "de"), ("EN", "en"), ("en-GB", "en"), ("pt_BR", "pt"), ("pt-PT", "pt"), ("es-419", "es")),
        *(("zh-Hans", "zh"), ("zh_hans_CN", "zh"), ("zh-SG", "zh"), ("zh-Hans-TW", "zh"), ("uk-Cyrl", "uk")),
        *(("de_DE_formal", "de"), ("de-CH-1996", "de"), ("ca_valencia", "ca"), ("en_US.UTF-8", "en")),
        *(("xx", ""), ("sr-Latn", ""), ("english", ""), ("e", ""), ("en-", ""), ("en--GB", ""), ("é-GB", ""), ("", "")),
    ],
)
def test_a_locale_code_stands_for_its_language(tag: str, code: str) -> None:
    assert language_of(tag) == (code, "")


@pytest.mark.parametrize(
    ("tag", "names"),
    [
        ("zh-Hant", "Chinese is written in the script Hans only, not in Hant"),
        ("zh_TW", "Chinese is written in the script Hans only, not in Hant"),
        ("zh-hk", "Chinese is written in the script Hans only, not in Hant"),
        ("zh-Hant-CN", "Chinese is written in the script Hans only, not in Hant"),
        ("uk-Latn", "Ukrainian is written in the script Cyrl only, not in Latn"),
    ],
)
def test_a_locale_of_another_script_is_refused_with_the_reason(tag: str, names: str) -> None:
    assert language_of(tag) == ("", names)


def test_each_language_has_a_usual_script() -> None:
    assert [language_of(f"{code}_ZZ")[0] for code in LANGUAGES] == list(LANGUAGES)
