"""The table of `models list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imgproc_local.vision.management.listing import ModelRow

MAX_CODES_LISTED = 6
"""With more languages of the same grade, their number is shown instead of their codes."""


def table_lines(rows: list[ModelRow]) -> list[str]:
    """The rows as aligned lines for people, below a heading."""
    from imgproc_local.cli.output import printable, size_text, table

    cells = [("NAME", "STATE", "SIZE", "MEMORY", "LICENCE", "LANGUAGES", "GRADES")]
    cells += [
        (
            printable(row.name),
            f"{row.state}, in use" if row.in_use else row.state,
            size_text(row.size_bytes) if row.size_bytes else "",
            size_text(row.memory_mb * 1_000_000) if row.memory_mb else "",
            printable(row.licence),
            printable(row.languages),
            _grades_text(row.grades),
        )
        for row in rows
    ]
    return table(cells, right_aligned=(2, 3))


def _grades_text(shares: Mapping[str, float]) -> str:
    """The languages by grade, such as "A: de en, B: 12 languages"."""
    from imgproc_local.vision.grading.grade import format_grade

    by_letter: dict[str, list[str]] = {}
    for language, share in shares.items():
        by_letter.setdefault(format_grade(share)[0], []).append(language)
    return ", ".join(
        f"{letter}: {' '.join(codes) if len(codes) <= MAX_CODES_LISTED else f'{len(codes)} languages'}"
        for letter, codes in sorted(by_letter.items())
    )
