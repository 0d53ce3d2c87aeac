"""The line of progress and the report of an archive: what they say, and that the report runs and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from msgspec import structs

from imgproc_local.batch import ResultFile
from imgproc_local.domain.image import Format
from imgproc_local.domain.result import TextSource, Translation

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")

from imgproc_local.archive.manifest import MAX_LISTED, Summary
from imgproc_local.archive.picture import Problem, Row
from imgproc_local.cli.archive.report import report_page

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;{{ 7 * 7 }}\u202egpj.jpg"


def row(source: str = "wing/a.jpg", **changes: object) -> Row:
    done = Row(
        source=source,
        version="1",
        size_bytes=4000,
        options="one",
        outcome="done",
        format=Format.JPEG,
        optimized=ResultFile(f"{source}-1.jpg", "00", 3000, Format.JPEG),
        converted=ResultFile(f"{source}-1.webp", "00", 1000, Format.WEBP),
        translations=(Translation("en", "a", f"A text of {source}", TextSource.FACTS),),
    )
    return structs.replace(done, **changes)


class Page(HTMLParser):
    """The elements, their attributes and the text of a report."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.content = content.decode()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(self.content)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("dt", "dd", "th", "td"):
            self.text += " "

    def handle_data(self, data: str) -> None:
        self.text += data


def page(*rows: Row, model: str = "", is_complete: bool = True) -> Page:
    summary = Summary()
    for each in rows:
        summary.add(each)
    return Page(report_page(summary, model, is_complete))


def test_names_and_texts_of_strangers_are_shown_as_text() -> None:
    needing = (Translation("en", "a", "", TextSource.PIXELS),)
    problems = (Problem("optimize", HOSTILE),)
    hostile = page(row(HOSTILE, outcome="failed", failure="picture", problems=problems, translations=needing))
    assert {tag for tag, _ in hostile.tags} <= {tag for tag, _ in page(row()).tags} | {"bdi", "li", "p"}
    names = {name for _, attributes in hostile.tags for name in attributes}
    assert not [name for name in names if name.startswith("on")]
    assert hostile.text.count(HOSTILE) == 3


def test_nothing_is_loaded_and_the_style_is_the_only_one_allowed() -> None:
    shown = page(row())
    style = re.findall(r"<style>(.*?)</style>", shown.content, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
    policies = [attributes["content"] for _, attributes in shown.tags if "http-equiv" in attributes]
    assert policies == [f"default-src 'none'; style-src 'sha256-{digest}'"]
    assert not [attributes for _, attributes in shown.tags if {"src", "style"} & attributes.keys()]
    links = [attributes["href"] for tag, attributes in shown.tags if tag == "a"]
    assert links == ["./archive.parquet", "./alt.csv"]


def test_totals_and_sizes_are_those_of_the_rows() -> None:
    shown = page(
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
    interrupted = page(row(), model="tiny aa+bb", is_complete=False)
    assert "described pictures with the vision model tiny aa+bb." in interrupted.text
    assert "The run ended before it had seen the whole source" in interrupted.text


def test_lists_are_bounded_and_say_so() -> None:
    needing = (Translation("en", "a", "", TextSource.PIXELS),)
    rows = [row(f"{number:04}.jpg", translations=needing) for number in range(MAX_LISTED + 50)]
    failed = [structs.replace(each, outcome="failed", failure="picture", translations=()) for each in rows]
    shown = page(*rows, *failed)
    assert shown.text.count(f"Only the first {MAX_LISTED} are listed") == 2
    assert sum(tag == "li" for tag, _ in shown.tags) == 2 * MAX_LISTED
