"""How commands print: aligned columns for people, one UTF-8 JSON document for programs.

What comes from files and metadata is shown without control characters: a file name must not steer a terminal.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click


def echo_json(document: Any) -> None:
    """Print one document in UTF-8, whatever the terminal's encoding. Source: RFC 8259, section 8.1."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


def path_text(path: Path) -> str:
    """The path as text that can be encoded: bytes that are no UTF-8 are written as `\\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def whole_text(text: str) -> str:
    """`text` that can be encoded: what stands for bytes that are no UTF-8, as in names of files, as `\\xNN`."""
    return text.encode("utf-8", sys.getfilesystemencodeerrors()).decode("utf-8", "backslashreplace")


def plain(text: str) -> str:
    """`text` with control and formatting characters written as escapes."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in ("Cc", "Cf", "Cs") else char
        for char in text
    )


def size_text(size_bytes: int) -> str:
    """`size_bytes` for people, in powers of 1024: 999 B, 12.3 kB, 4.5 MB."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"


def table(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """One line per row with its columns aligned; those in `right` to the right."""
    aligned_right = set(right)
    widths = [max(_width(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            gap = " " * (width - _width(cell))
            cells.append(gap + cell if number in aligned_right else cell + gap)
        lines.append("  ".join(cells).rstrip())
    return lines


def _width(text: str) -> int:
    """Columns in a terminal: East Asian wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def give_up_output_that_fails() -> None:
    """Drop what standard output and error can't take: the interpreter would try again at its end, and end with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
