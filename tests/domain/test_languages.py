"""The languages offered are what the phrase tables can write."""

from importlib import resources

from imgproc_local.domain.languages import LANGUAGES

CODES = "en de fr es it pt nl da sv nb fi pl cs sk sl hr hu ro bg el tr uk ru et lv lt ca id vi ja ko zh ar he hi th"


def test_the_languages_offered_are_the_thirty_six_in_their_order() -> None:
    assert list(LANGUAGES) == CODES.split()
    assert all(code == language.code for code, language in LANGUAGES.items())


def test_every_language_has_two_names_of_its_own() -> None:
    assert len({language.name for language in LANGUAGES.values()}) == len(LANGUAGES)
    assert len({language.native_name for language in LANGUAGES.values()}) == len(LANGUAGES)


def test_every_language_offered_has_a_phrase_table_and_no_other_has() -> None:
    tables = resources.files("imgproc_local.vision.facts").joinpath("sentences").iterdir()
    assert {table.name for table in tables} == {f"{code}.toml" for code in LANGUAGES}
