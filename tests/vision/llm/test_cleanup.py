"""Labels, quotation marks and openers around an alt text are removed if the rest is a correct text."""

from __future__ import annotations

import pytest

from imgproc_local.vision.llm.checks import alt_text_problem
from imgproc_local.vision.llm.cleanup import clean_answer
from imgproc_local.vision.llm.prompt import Answer


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Image of a red barn", "A red barn."),
        ("en", "The photo shows two dogs on a beach.", "Two dogs on a beach."),
        ("en", "Alt text: A red barn.", "A red barn."),
        ("en", "Sure! Here is the alt text: Image of a red barn.", "A red barn."),
        ("en", "“A red barn.”", "A red barn."),
        ("en", "**A red barn**", "A red barn."),
        ("en", "  A red  barn ", "A red barn."),
        ("en", "iPhone on a desk", "iPhone on a desk."),
        ("en", 'Sign that says "Open"', 'Sign that says "Open".'),
        ("de", "Alternativtext: Ein rotes Haus am See", "Ein rotes Haus am See."),
        ("fr", "Une photo d’un chien sur la plage.", "Un chien sur la plage."),
        ("fr", "Photo de la plage de Nice", "La plage de Nice."),
        ("fr", "Photo représentant deux enfants", "Deux enfants."),
        ("es", "Imagen de un perro en la playa.", "Un perro en la playa."),
        ("es", "Foto que muestra un perro.", "Un perro."),
        ("it", "Foto di un cane sulla spiaggia.", "Un cane sulla spiaggia."),
        ("pt", "Imagem de um cão na praia.", "Um cão na praia."),
        ("ca", "Foto d’un gos a la platja.", "Un gos a la platja."),
        ("ro", "Imagine cu un câine pe plajă.", "Un câine pe plajă."),
        ("nl", "Een foto van ijsberen op het ijs", "IJsberen op het ijs."),
        ("da", "Et billede af en hund på stranden.", "En hund på stranden."),
        ("sv", "Bilden visar en hund på stranden.", "En hund på stranden."),
        ("nb", "Bilde av en hund på stranden.", "En hund på stranden."),
        ("id", "Foto seekor anjing di pantai.", "Seekor anjing di pantai."),
        ("id", "Gambar dua kucing di sofa.", "Dua kucing di sofa."),
        ("vi", "Hình ảnh một con mèo.", "Một con mèo."),
        ("vi", "Hình ảnh chụp một con chó trên bãi biển.", "Một con chó trên bãi biển."),
        ("he", "תמונה של כלב על החוף.", "כלב על החוף."),
        ("zh", "图片显示一只狗在沙滩上", "一只狗在沙滩上。"),
        ("th", "ภาพแสดงสุนัขบนชายหาด", "สุนัขบนชายหาด"),
        ("tr", "iskelede bekleyen iki balıkçı", "İskelede bekleyen iki balıkçı."),
        ("ja", "砂浜を走る犬", "砂浜を走る犬。"),
        ("hi", "समुद्र तट पर एक कुत्ता", "समुद्र तट पर एक कुत्ता।"),
        ("el", "Ένα παιδί με μια πινακίδα: πού πας;", "Ένα παιδί με μια πινακίδα: πού πας;"),
    ],
)
def test_labels_quotation_marks_and_openers_are_removed(language: str, text: str, expected: str) -> None:
    cleaned = clean_answer(Answer("dog-on-beach", text), language)
    assert cleaned == Answer("dog-on-beach", expected)
    assert alt_text_problem(cleaned, language) is None


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Bild eines roten Hauses."),  # the noun is in the genitive
        ("de", "Das Bild zeigt einen roten Hund."),  # the noun is in the accusative
        ("ru", "Фото красного сарая."),
        ("fi", "Kuva punaisesta ladosta."),
        ("ar", "صورة لرجلين في الحقل."),
        ("fr", "Photo du port de nuit."),  # "du" contains the article
        ("fr", "Photo d’un chien et d’un chat."),  # the "of" before the second noun would remain
        ("fr", "Photo de famille."),
        ("en", "The picture shows how a boat is built."),
    ],
)
def test_an_opener_that_can_not_be_removed_is_rejected(language: str, text: str) -> None:
    cleaned = clean_answer(Answer("some-file-name", text), language)
    assert cleaned.alt_text == text
    assert (alt_text_problem(cleaned, language) or "").startswith("it began with")
