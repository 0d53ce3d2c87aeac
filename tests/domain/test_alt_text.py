"""Texts of people and texts of cameras: what may be removed from a file, and what can't serve for a description."""

from __future__ import annotations

from imgproc_local.domain.alt_text import is_camera_default
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
