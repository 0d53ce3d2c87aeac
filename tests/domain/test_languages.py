"""The supported languages are those that have a file."""

from importlib import resources

from imgproc_local.domain.languages import LANGUAGES

CODES = "en de fr es it pt nl da sv nb fi pl cs sk sl hr hu ro bg el tr uk ru et lv lt ca id vi ja ko zh ar he hi th"


def test_there_are_thirty_six_languages_in_a_fixed_order() -> None:
    assert list(LANGUAGES) == CODES.split()
    assert all(code == language.code for code, language in LANGUAGES.items())


def test_no_two_languages_have_the_same_name() -> None:
    assert len({language.name for language in LANGUAGES.values()}) == len(LANGUAGES)
    assert len({language.native_name for language in LANGUAGES.values()}) == len(LANGUAGES)


def test_exactly_the_supported_languages_have_a_file() -> None:
    files = resources.files("imgproc_local.vision.languages").iterdir()
    assert {file.name for file in files if file.name.endswith(".toml")} == {f"{code}.toml" for code in LANGUAGES}
