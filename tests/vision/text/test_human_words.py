"""How texts are cleaned and shortened. What people and machines write is in `tests/vision/facts/person_words.toml`."""

from __future__ import annotations

import pytest

from imgproc_local.domain.image import Format
from imgproc_local.vision.text.human_words import filename_words, human_text, is_screenshot_name
from imgproc_local.vision.text.words import shorten

SCREENSHOTS = """
Screenshot 2023-07-14 at 10.11.12.png|Screenshot_20230714-101112_Instagram.jpg|Screenshot (12).png|screenshot_1.png
Screenshot.png|Bildschirmfoto 2023-07-14 um 10.11.12.png|Capture d’écran 2024-02-02 à 10.11.png|스크린샷 2024-01-01.png
Captura de pantalla 2024-01-01 a las 10.00.00.png|Schermata 2024-01-01 alle 10.00.00.png|屏幕截图 2024-01-01 100000.png
Снимок экрана 2024-01-01 в 10.00.00.png|スクリーンショット 2024-01-01 10.00.00.png
"""


@pytest.mark.parametrize("name", SCREENSHOTS.strip().replace("\n", "|").split("|"))
def test_screenshot_names_of_operating_systems_are_recognised_and_have_no_words(name: str) -> None:
    assert is_screenshot_name(name)
    assert filename_words(name) == ()


def test_random_letters_are_no_words() -> None:
    for name in ("CqX3kLmNhTz.jpg", "aBeKoLiMaTe.png", "xkqzjw.png", "feedfacedeadbeef.png", "...jpg", ".png"):
        assert filename_words(name) == (), name


@pytest.mark.parametrize("extension", [*Format, "JPG", "tif", "heif"])
def test_the_extension_of_a_picture_is_no_word(extension: str) -> None:
    assert filename_words(f"old harbour.{extension}") == ("old", "harbour")


@pytest.mark.parametrize(
    "text",
    [
        "빨간 배입니다. 항구에 있습니다.",
        "A boat. 🌅 At sunrise.",
        "赤い船です。港にあります。",
        "The widths a<b and b<c of two boats",
        "I <3 boats",
        "a < b, x<y = 5 boats",
        # their bytes in an older encoding are valid UTF-8
        "Le café “Étoile” à midi",
        "RÓŻE I PÓŹNE LATO",
        "ШІ в місці дії",
        "Paris–Évian",
    ],
)
def test_spaces_signs_of_comparison_and_letters_that_look_damaged_are_preserved(text: str) -> None:
    assert human_text(text) == text


def test_mark_up_and_line_breaks_are_removed_and_letters_composed() -> None:
    assert human_text("<p>Cafe\u0301 <b>am</b>\n\n See</p>\x00") == "Café am See"
    assert human_text("<section><header>A red boat</header> at dusk</section>") == "A red boat at dusk"
    assert human_text("<head><title>x</title></head>A red boat at dusk") == "A red boat at dusk"
    sentence = "A red boat lies in the harbour at dusk."
    for unclosed in ("<img src=x onerror=alert(1) ", "<svg/onload=alert(1)", "<A HREF = 'x' title", "<script>alert(1)"):
        assert human_text(f"{sentence} {unclosed}") == sentence


def test_a_long_text_is_shortened_after_a_sentence_or_a_word() -> None:
    start = "A red boat lies in the harbour at dusk. Two men mend their nets beside it."
    assert shorten(start + " And a third one, who has all the time in the world, only watches them." * 3) == start
    words = shorten("word " * 100)
    assert len(words) <= 250
    assert words.endswith("word…")
    assert len(shorten("赤" * 400)) == 250
