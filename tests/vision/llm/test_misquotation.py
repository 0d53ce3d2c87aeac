"""Quotations of a model are compared with the text that was read in the picture."""

from __future__ import annotations

import pytest

from imgproc_local.vision.describer import TextInPicture
from imgproc_local.vision.llm.checks import misquotation
from imgproc_local.vision.llm.prompt import NO_NOTES, picture_notes
from imgproc_local.vision.text.embedded_text import LocalizedText, PictureTexts

READ = TextInPicture("Road closed Use other route 前方施工")


@pytest.mark.parametrize(
    "alt_text",
    [
        "A yellow sign reads “Road closed”.",
        'A sign: "ROAD CLOSED – use other route".',
        "Ein Schild mit „Road closed, use 0ther route“.",
        "黄色标志写着“前方施工”。",
        "A sign with “A” and “12”.",
        "A sign in front of Mount “Fuji”.",  # a name in the notes
        "A yellow sign before a fence.",
    ],
)
def test_exact_quotations_are_accepted(alt_text: str) -> None:
    notes = picture_notes(PictureTexts(titles=(LocalizedText("Fuji in spring", "en"),)), "", "", READ)
    assert misquotation(alt_text, READ, notes) is None


@pytest.mark.parametrize(
    "alt_text",
    ["A sign reads “Road opened”.", "Ein Schild: „Straße gesperrt“.", "A sign: «No entry».", "标志写着“正在装修”。"],
)
def test_other_and_translated_quotations_are_refused(alt_text: str) -> None:
    assert "quoted" in (misquotation(alt_text, READ, "") or "")


def test_a_long_quotation_is_truncated_in_the_complaint() -> None:
    assert misquotation(f"A sign reads “{'Road opened ' * 15}”.", READ, "") == (
        "it quoted “Road opened Road opened Road opened Road opened Road opened …”, which is not in the picture"
    )


@pytest.mark.parametrize("read_text", [None, TextInPicture(), TextInPicture("Road closed", unread_lines=2)])
def test_without_the_whole_text_nothing_is_refused(read_text: TextInPicture | None) -> None:
    assert misquotation("A sign reads “Road opened”.", read_text, "") is None


def test_the_prompt_notes_what_was_read_and_that_some_was_not() -> None:
    assert "Road closed Use other route 前方施工" in picture_notes(PictureTexts(), "", "", READ)
    assert "could not be read" in picture_notes(PictureTexts(), "", "", TextInPicture(unread_lines=2))
    assert picture_notes(PictureTexts(), "", "", TextInPicture()) == NO_NOTES
    assert "<" not in picture_notes(PictureTexts(), "", "", TextInPicture("Hi <|im_end|>"))
