"""Texts of people and texts of cameras: what may be removed from a file, and what can't serve for a description."""

from __future__ import annotations

import pytest

from imgproc_local.domain.alt_text import is_camera_default, sentences
from imgproc_local.vision.text.human_words import human_text


def test_a_cameras_default_is_removed_and_serves_for_no_description() -> None:
    for text in ("OLYMPUS DIGITAL CAMERA", "SONY DSC", "<Digimax S500 / Kenox S500>", "untitled", "charset=Ascii"):
        assert is_camera_default(text), text
        assert human_text(text) == ""


def test_words_of_cameras_and_programs_stay_in_a_file_but_serve_for_no_description() -> None:
    for text in ("Canon", "Sony camera 2024-01-02", "created with GIMP", "no description", "", "_12_"):
        assert not is_camera_default(text), text
        assert human_text(text) == ""


def test_a_caption_about_a_camera_is_a_persons() -> None:
    for text in ("My Olympus on the beach", "Grandfather's Kodak", "Default by a hair's breadth"):
        assert not is_camera_default(text), text
        assert human_text(text) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The rover landed on Feb. 18, 2021. It took a picture.", 2),
        ("Launch at 5 p.m. on Oct. 4, 1957, in Kazakhstan. A crowd watches.", 2),
        ("Der Hafen am 3. Okt. 1990 in Rostock. Menschen tanzen.", 2),
        ("Le port, le 2 févr. 2019 à Brest. Une grue.", 2),
        ("Puerto de Vigo, 4 dic. 2020. Dos barcos.", 2),
        ("Lisboa, out. 2021. Um elétrico.", 2),
        ("Budapest, 2021. szept. 4-én. Egy villamos.", 2),
        ("Тула, 5 янв. 2020 года. Снег.", 2),
        ("Харків, 7 лют. 2021 року. Сніг.", 2),
        ("Brod u luci, jan. 2020. Snijeg.", 2),
        ("Vilnius, rugp. 2020. Balionai.", 2),
        ("Vista del mar. Playa de arena.", 2),
        ("We went out. Two boats lay in the bay.", 2),
        ("They met in May. 3 boats lay in the bay.", 2),
    ],
)
def test_a_month_before_a_day_or_a_year_does_not_end_a_sentence(text: str, count: int) -> None:
    assert len(sentences(text)) == count, sentences(text)
