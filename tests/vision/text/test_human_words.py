"""Texts and file names that people wrote are distinguished from those that machines wrote, and texts are shortened."""

from __future__ import annotations

import pytest

from imgproc_local.vision.text.filename_words import filename_words, is_screenshot_name
from imgproc_local.vision.text.human_words import human_text
from imgproc_local.vision.text.words import shorten

NAMES_FROM_MACHINES = """
IMG_1234.JPG|DSC0001.jpg|DSC_0001.NEF.jpg|DSCF1234.JPG|PXL_20230714_101112345.jpg|P1010001.JPG
MVIMG_20200101_120000.jpg|IMG-20230714-WA0001.jpg|WhatsApp Image 2023-07-14 at 10.11.12.jpeg
WhatsApp Image 2023-07-14 at 10.11.12 AM (1).jpeg|d41d8cd98f00b204e9800998ecf8427e.png
550e8400-e29b-41d4-a716-446655440000.png|feedfacedeadbeef.png|CqX3kLmNhTz.jpg|hKdPqLeR.png|aBeKoLiMaTe.png|image.png
photo (1).jpg|Foto.jpg|untitled.png|Unbenannt-1.png|download (3).png|final_final_v2.png|copy.png|Export.png
scan0001.png|GOPR1234.JPG|DJI_0042.jpg|FB_IMG_1689000000.jpg|Snapchat-123456.jpg|20230714_101112.jpg|1.jpg
00000.png|logo.png|xkqzjw.png|Screenshot 2023-07-14 at 10.11.12.png|Screenshot_20230714-101112_Instagram.jpg
Screenshot (12).png|Screenshot.png|Bildschirmfoto 2023-07-14 um 10.11.12.png
Capture d’écran 2024-02-02 à 10.11.png|Captura de pantalla 2024-01-01 a las 10.00.00.png
Schermata 2024-01-01 alle 10.00.00.png|Снимок экрана 2024-01-01 в 10.00.00.png
スクリーンショット 2024-01-01 10.00.00.png|屏幕截图 2024-01-01 100000.png|스크린샷 2024-01-01.png|...jpg|.png|-_-.jpg
"""


@pytest.mark.parametrize("name", ["", *NAMES_FROM_MACHINES.strip().replace("\n", "|").split("|")])
def test_a_file_name_from_a_machine_has_no_words(name: str) -> None:
    assert filename_words(name) == ()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sunset-harbour.jpg", "sunset harbour"),
        ("Sunset%20over%20Lisbon.JPG", "Sunset over Lisbon"),
        ("SunsetHarbour.jpg", "Sunset Harbour"),
        ("rotes_boot_im_hafen_final_v2.jpg", "rotes boot im hafen"),
        ("IMG_1234 Oma am See.jpg", "Oma am See"),
        ("McDonald-farm.png", "McDonald farm"),
        ("lighthouse-1024x768-scaled.jpg", "lighthouse"),
        ("20230714 Hochzeit Anna.jpg", "Hochzeit Anna"),
        ("acme-logo.png", "acme logo"),
        ("красная-лодка.jpg", "красная лодка"),
        ("夕焼け.png", "夕焼け"),
        ("北京天安门.jpg", "北京天安门"),
        ("Jardin d'été.webp", "Jardin d'été"),
        ("harbour.jpeg.png", "harbour"),
        ("screenshot-login-page.png", "login page"),
        ("сад (3).jpg", "сад"),
    ],
)
def test_words_that_a_person_typed_are_extracted(name: str, words: str) -> None:
    assert " ".join(filename_words(name)) == words


@pytest.mark.parametrize(
    "name",
    [
        "Screenshot 2023-07-14 at 10.11.12.png",
        "screenshot_1.png",
        "Bildschirmfoto 2023.png",
        "スクリーンショット 2024.png",
    ],
)
def test_screenshot_names_of_operating_systems_are_recognised(name: str) -> None:
    assert is_screenshot_name(name)


@pytest.mark.parametrize("name", ["harbour.png", "my screenshot.png", "screenshots.png", "IMG_1.png", ""])
def test_other_names_are_not_recognised_as_screenshots(name: str) -> None:
    assert not is_screenshot_name(name)


@pytest.mark.parametrize(
    "text",
    [
        "OLYMPUS DIGITAL CAMERA",
        "SONY DSC",
        "DCIM100GOPRO",
        "Default caption",
        "Created with GIMP",
        "SAMSUNG CAMERA PICTURES",
        "hdr",
        "Processed with VSCO with a6 preset",
        "KONICA MINOLTA DIGITAL CAMERA",
        "IMG_1234",
        "2023",
        "---",
        " ",
        "Exif_JPEG_PICTURE",
    ],
)
def test_a_text_from_a_camera_or_program_is_dropped(text: str) -> None:
    assert human_text(text) == ""


@pytest.mark.parametrize(
    "text",
    ["Canon in D, played on the roof", "My Samsung by the sea", "Made in Lisbon by hand", "5 < 6 and 7 > 3", "Ada"],
)
def test_a_text_from_a_person_is_unchanged(text: str) -> None:
    assert human_text(text) == text


@pytest.mark.parametrize(
    "text",
    ["빨간 배입니다. 항구에 있습니다.", "A boat. 🌅 At sunrise.", "赤い船です。港にあります。", "红船。在港口。"],
)
def test_sentences_are_separated_by_a_space_where_their_script_has_spaces(text: str) -> None:
    assert human_text(text) == text


def test_mark_up_and_line_breaks_are_removed_and_letters_composed() -> None:
    assert human_text("<p>Cafe\u0301 <b>am</b>\n\n See</p>\x00") == "Café am See"
    assert human_text("<section><header>A red boat</header> at dusk</section>") == "A red boat at dusk"
    assert human_text("<head><title>x</title></head>A red boat at dusk") == "A red boat at dusk"


@pytest.mark.parametrize(
    "tag", ["<img src=x onerror=alert(1) ", "<svg/onload=alert(1)", "<A HREF = 'x' title", "<b id=x"]
)
def test_a_tag_that_is_not_closed_is_removed(tag: str) -> None:
    assert human_text(f"A red boat lies in the harbour at dusk. {tag}") == "A red boat lies in the harbour at dusk."


@pytest.mark.parametrize("text", ["The widths a<b and b<c of two boats", "I <3 boats", "a < b, x<y = 5 boats"])
def test_a_sign_of_comparison_is_no_tag(text: str) -> None:
    assert human_text(text) == text


def test_a_long_text_is_shortened_after_a_sentence() -> None:
    start = "A red boat lies in the harbour at dusk. Two men mend their nets beside it."
    assert shorten(start + " And a third one, who has all the time in the world, only watches them." * 3) == start


def test_a_long_sentence_is_shortened_after_a_word() -> None:
    short = shorten("word " * 100)
    assert len(short) <= 250
    assert short.endswith("word…")


def test_a_text_without_spaces_is_shortened() -> None:
    assert len(shorten("赤" * 400)) == 250
