"""Which lines are used, which are reported as unread, and which pictures are images of text."""

from __future__ import annotations

import pytest

from imgproc_local.vision.describer import ReadLine
from imgproc_local.vision.ocr.lines import text_in_picture


def line(text: str, confidence: float = 0.99, *, edge_share: float = 0.3, area_share: float = 0.1) -> ReadLine:
    return ReadLine(text, confidence, aspect=6, height_share=0.1, area_share=area_share, edge_share=edge_share)


@pytest.mark.parametrize(
    ("lines", "text", "unread_lines"),
    [
        ([line("Road closed"), line("Use other route")], "Road closed Use other route", 0),
        ([line("Road closed"), line("Uze othor rauto", 0.89)], "Road closed", 1),
        ([line("ab"), line("出口")], "出口", 1),
        ([line("Κλειστός"), line("δρόμος")], "", 2),
        # nothing of a script that the recogniser does not know
        ([line("", 0.0), line("", 0.0)], "", 2),
        # what it invents among unread lines, and what it reads among few of them
        ([line("Uaauu", 0.96, edge_share=0.2), line("", 0.0)], "", 1),
        ([line("KIRIN", 0.99, edge_share=0.2), line("", 0.0)], "KIRIN", 1),
        # Vietnamese lacks letters
        ([line("L hi m thc"), line("Món ngon đưng ph")], "", 2),
        ([line("Građani šetaju")], "Građani šetaju", 0),
        # private data, and texts without words
        ([line("Write to ann@example.com")], "", 0),
        ([line("Zimmer frei"), line("Tel. 0351 4567890"), line("mit Seeblick")], "Zimmer frei mit Seeblick", 0),
        ([], "", 0),
    ],
)
def test_uncertain_lines_are_not_used(lines: list[ReadLine], text: str, unread_lines: int) -> None:
    found = text_in_picture(lines, "graphic")
    assert (found.text, found.unread_lines) == (text, unread_lines)


@pytest.mark.parametrize(
    ("kind", "edge_share", "area_share", "expected"),
    [
        ("graphic", 0.45, 0.01, True),
        ("screenshot", 0.9, 0.3, True),
        ("graphic", 0.3, 0.3, False),  # a diagram with labels
        ("graphic", 0.9, 0.002, False),  # a watermark
        ("photograph", 0.9, 0.02, False),  # the same on a blurred background
        ("photograph", 0.5, 0.2, True),  # a sign
    ],
)
def test_an_image_of_text_shows_little_else(kind: str, edge_share: float, area_share: float, expected: bool) -> None:
    found = text_in_picture([line("Summer Jazz Night", edge_share=edge_share, area_share=area_share)], kind)
    assert found.text == "Summer Jazz Night"
    assert found.is_image_of_text is expected


def test_the_labels_of_a_diagram_are_no_image_of_text() -> None:
    few, many = ([line(f"Label {number}", edge_share=0.45 / count) for number in range(count)] for count in (6, 30))
    assert text_in_picture(few, "graphic").is_image_of_text
    assert not text_in_picture(many, "graphic").is_image_of_text


def test_textures_are_not_reported_as_unread_text() -> None:
    blob = ReadLine("梁", 0.3, aspect=1.1, height_share=0.4, area_share=0.1, edge_share=0.8)
    assert text_in_picture([blob], "photograph").unread_lines == 0
