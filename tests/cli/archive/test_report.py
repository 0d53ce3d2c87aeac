"""The report of an archive: what it says, that hostile names stay text, and that it runs and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")

from imgproc_local.archive.manifest import MAX_LISTED, Summary
from imgproc_local.archive.picture import Problem, Row
from imgproc_local.cli.archive import report_page
from imgproc_local.domain.image import Format
from tests.cli.archive.rows import NEEDS_TEXT, row

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;{{ 7 * 7 }}\u202egpj.jpg"


class Page(HTMLParser):
    """The elements, their attributes and the text of a report."""

    def __init__(self, *rows: Row, model: str = "", is_complete: bool = True) -> None:
        super().__init__()
        summary = Summary()
        for each in rows:
            summary.add(each)
        self.content = report_page(summary, model, is_complete).decode()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(self.content)
        self.text = " ".join(self.words)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data.split()


def test_names_of_strangers_are_text_and_nothing_is_run_or_loaded() -> None:
    problems = (Problem("optimize", HOSTILE),)
    hostile = Page(row(HOSTILE, outcome="failed", failure="picture", problems=problems, translations=NEEDS_TEXT))
    assert {tag for tag, _ in hostile.tags} <= {tag for tag, _ in Page(row()).tags} | {"bdi", "li", "p"}
    assert hostile.text.count(HOSTILE) == 3
    names = {name for _, attributes in hostile.tags for name in attributes}
    assert not [name for name in names if name in ("src", "style") or name.startswith("on")]
    (style,) = re.findall(r"<style>(.*?)</style>", hostile.content, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policies = [attributes["content"] for _, attributes in hostile.tags if "http-equiv" in attributes]
    assert policies == [f"default-src 'none'; style-src 'sha256-{digest}'"]
    assert [attributes["href"] for tag, attributes in hostile.tags if tag == "a"] == ["./archive.parquet", "./alt.csv"]


def test_totals_and_sizes_are_those_of_the_rows() -> None:
    shown = Page(
        row(),
        row("b.png", size_bytes=6000, format=Format.PNG, optimized=None),
        row("c.jpg", outcome="failed", failure="source", optimized=None, converted=None),
        row("notes.txt", outcome="skipped", optimized=None, converted=None, translations=()),
    )
    for expected in (
        "Pictures done 2",
        "Failed 1",
        "Not pictures, skipped 1",
        "Optimized, JPEG 1 3.9 kB 2.9 kB −25 %",
        "Converted, PNG → WebP 1 5.9 kB 1.0 kB −83 %",
        "The run used no vision model.",
        "English 3",
    ):
        assert expected in shown.text
    assert "may be missing" not in shown.text
    interrupted = Page(row(), model="tiny aa+bb", is_complete=False)
    assert "described pictures with the vision model tiny aa+bb" in interrupted.text
    assert "The run ended before it had seen the whole source" in interrupted.text


def test_lists_are_bounded_and_say_so() -> None:
    rows = [row(outcome="failed", failure="picture", translations=NEEDS_TEXT)] * (MAX_LISTED + 50)
    shown = Page(*rows)
    assert shown.text.count(f"Only the first {MAX_LISTED} are listed") == 2
    assert sum(tag == "li" for tag, _ in shown.tags) == 2 * MAX_LISTED
