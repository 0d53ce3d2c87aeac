"""Which lines are used, which are reported as unread, and which pictures are images of text."""

from __future__ import annotations

import pytest

from imgproc_local.vision.describer import ReadLine
from imgproc_local.vision.ocr.lines import text_in_picture

Box = tuple[float, float, float, float]
ABOVE: Box = (0.1, 0.1, 0.9, 0.225)
"""Left, top, right and bottom of a line that covers a tenth of the picture."""


def line(text: str, confidence: float = 0.99, *, edge_share: float = 0.3, box: Box = ABOVE) -> ReadLine:
    return ReadLine(text, confidence, aspect=6, height_share=0.1, box=box, edge_share=edge_share)


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
        # the values of a chart
        ([line("Rent"), line("45 %"), line("7"), line("1.5")], "Rent 45 % 7 1.5", 0),
    ],
)
def test_uncertain_lines_are_not_used(lines: list[ReadLine], text: str, unread_lines: int) -> None:
    found = text_in_picture(lines, "graphic")
    assert (found.text, found.unread_lines) == (text, unread_lines)


@pytest.mark.parametrize(
    ("kind", "edge_share", "boxes", "expected"),
    [
        ("graphic", 0.7, [(0.1, 0.1, 0.4, 0.2)], True),
        ("screenshot", 0.9, [ABOVE, (0.1, 0.3, 0.9, 0.4)], True),
        ("graphic", 0.5, [(0.2, 0.3, 0.8, 0.6)], True),  # a sign with a frame
        ("photograph", 0.5, [(0.2, 0.3, 0.8, 0.6)], True),
        ("graphic", 0.5, [(0.2, 0.3, 0.5, 0.5)], False),  # a product with its name
        ("picture", 0.5, [(0.1, 0.02, 0.9, 0.15), (0.1, 0.85, 0.9, 0.98)], False),  # a meme
        ("graphic", 0.3, [(0.0, 0.0, 0.5, 0.6)], False),
        ("graphic", 0.9, [(0.9, 0.9, 0.95, 0.94)], False),  # a watermark
        ("photograph", 0.9, [(0.7, 0.9, 0.9, 1.0)], False),  # the same on a blurred background
    ],
)
def test_an_image_of_text_shows_little_else(kind: str, edge_share: float, boxes: list[Box], expected: bool) -> None:
    lines = [line("Summer Jazz Night", edge_share=edge_share / len(boxes), box=box) for box in boxes]
    assert text_in_picture(lines, kind).is_image_of_text is expected


def test_short_lines_far_from_each_other_are_labels() -> None:
    corners = [(x, y, x + 0.1, y + 0.05) for x in (0.1, 0.8) for y in (0.1, 0.8)]
    assert text_in_picture([line("Harbour", edge_share=0.1, box=box) for box in corners], "graphic").labels == 4
    assert text_in_picture([line("Harbour", edge_share=0.1, box=box) for box in corners[:3]], "graphic").labels == 0
    together = [line("Harbour", edge_share=0.1, box=(0.1, 0.1 * row, 0.5, 0.1 * row + 0.08)) for row in range(4)]
    assert text_in_picture(together, "graphic").labels == 0
    sentences = [line("The path is closed", edge_share=0.1, box=box) for box in corners]
    assert text_in_picture(sentences, "graphic").labels == 0


def test_textures_are_neither_read_nor_reported_as_unread_text() -> None:
    stripe, sign = (ReadLine("", 0.0, aspect, height_share=0.35, box=ABOVE, edge_share=0.8) for aspect in (4.5, 9))
    assert text_in_picture([stripe], "graphic").unread_lines == 0
    assert text_in_picture([sign], "graphic").unread_lines == 1
    blob = ReadLine("梁", 0.3, aspect=1.1, height_share=0.4, box=ABOVE, edge_share=0.8)
    assert text_in_picture([line("7"), line("ab")], "picture").text == ""
    assert text_in_picture([blob], "photograph").unread_lines == 0
