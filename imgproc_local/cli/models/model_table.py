"""The table of `models list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imgproc_local.vision.management.listing import ModelRow


def table_lines(rows: list[ModelRow]) -> list[str]:
    """The rows as aligned lines for people, below a heading."""
    from imgproc_local.cli.output import printable, size_text, table

    cells = [("NAME", "STATE", "SIZE", "MEMORY", "LICENCE", "LANGUAGES")]
    cells += [
        (
            printable(row.name),
            f"{row.state}, in use" if row.in_use else row.state,
            size_text(row.size_bytes) if row.size_bytes else "",
            size_text(row.memory_mb * 1_000_000) if row.memory_mb else "",
            printable(row.licence),
            printable(row.languages),
        )
        for row in rows
    ]
    return table(cells, right_aligned=(2, 3))
