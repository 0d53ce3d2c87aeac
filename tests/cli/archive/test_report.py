"""The report of an archive: what it says, that it runs nothing, and that it never replaces a file of the user."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec import structs

from imgproc_local.batch.files import ResultFile
from imgproc_local.config import load
from imgproc_local.domain.image import Format
from imgproc_local.domain.result import TextSource, Translation
from tests.support import pictures

pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")

from imgproc_local.archive.manifest import PARTS_FOLDER, REPORT_NAME, Problem, Row, as_table, opened_manifest
from imgproc_local.archive.stores import LocalStore
from imgproc_local.archive.summary import (
    MAX_LISTED,
    MAX_SAMPLES,
    LastRun,
    Sample,
    Summary,
    Thumbnail,
    make_samples,
)
from imgproc_local.cli.archive.report import report_page

RUN = LastRun(datetime(2026, 11, 23, 3, 0, tzinfo=UTC), 90.0, 3, True, "", "", True)
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
        total_s=1.0,
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


def page(*rows: Row, run: LastRun = RUN, samples: tuple[Sample, ...] = ()) -> Page:
    summary = Summary("one")
    for each in rows:
        summary.add(each)
    return Page(report_page(summary, samples, run))


def test_names_and_texts_of_strangers_are_shown_as_text() -> None:
    text = Translation("en", "a", HOSTILE, TextSource.FACTS)
    failed = row(HOSTILE, outcome="failed", failure="picture", problems=(Problem("optimize", HOSTILE),))
    sample = Sample(row(HOSTILE, translations=(text,)), Thumbnail(b"RIFF"), Thumbnail(problem=HOSTILE))
    plain, hostile = page(row()), page(failed, samples=(sample,))
    assert {tag for tag, _ in hostile.tags} <= {tag for tag, _ in plain.tags} | {
        "img",
        "figure",
        "figcaption",
        "bdi",
        "ul",
        "li",
    }
    names = {name for _, attributes in hostile.tags for name in attributes}
    assert not [name for name in names if name.startswith("on")]
    assert hostile.text.count(HOSTILE) >= 4
    links = [attributes["href"] or "" for tag, attributes in hostile.tags if tag == "a"]
    assert all(re.fullmatch(r"\./[\w./%-]+", link) for link in links)


def test_nothing_is_loaded_and_the_style_is_the_only_one_allowed() -> None:
    sample = Sample(row(), Thumbnail(b"RIFF"), Thumbnail(b"RIFF"))
    shown = page(row(), samples=(sample,))
    sources = [attributes["src"] or "" for _, attributes in shown.tags if "src" in attributes]
    assert len(sources) == 2
    assert all(source.startswith("data:image/webp;base64,") for source in sources)
    style = re.findall(r"<style>(.*?)</style>", shown.content, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
    policies = [attributes["content"] for _, attributes in shown.tags if "http-equiv" in attributes]
    assert policies == [f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'"]
    assert not [attributes for _, attributes in shown.tags if "style" in attributes]
    assert "url(" not in style[0]


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
        "Optimized, in 1 file 3.9 kB → 2.9 kB −25 %",
        "Converted, in 2 files 9.8 kB → 2.0 kB −80 %",
        "together 3 s",
        "1 because it could not be read.",
        "PNG → WebP 1 5.9 kB 1.0 kB −83 %",
    ):
        assert expected in shown.text


def test_lists_are_bounded_and_say_how_many_more_there_are() -> None:
    summary = Summary("one")
    needing = (Translation("en", "a", "", TextSource.PIXELS),)
    for number in range(MAX_LISTED + 50):
        summary.add(row(f"{number:04}.jpg", translations=needing))
        summary.add(row(f"{number:04}-failed.jpg", outcome="failed", failure="picture", translations=()))
    assert [len(summary.failed), len(summary.without_text)] == [MAX_LISTED, MAX_LISTED]
    shown = Page(report_page(summary, (), RUN))
    assert shown.text.count("And 50 more:") == 2
    assert sum(tag == "li" for tag, _ in shown.tags) == 2 * MAX_LISTED


def test_samples_are_the_same_in_any_order() -> None:
    rows = [row(f"{number}.jpg") for number in range(40)]
    forward, backward = Summary("one"), Summary("one")
    for first, last in zip(rows, reversed(rows), strict=True):
        forward.add(first)
        backward.add(last)
    assert len(forward.samples) == MAX_SAMPLES
    assert forward.samples == backward.samples


@pytest.mark.parametrize(
    ("run", "statement"),
    [
        (RUN, "No vision model is in use, so the run made the texts without one, from the captions"),
        (structs.replace(RUN, unused_model="tiny aa+bb"), "No worker has the vision model tiny, so the run made"),
        (
            structs.replace(RUN, model="tiny aa+bb"),
            "described pictures with the vision model tiny (SHA-256 of its files: aa+bb)",
        ),
        (structs.replace(RUN, model="ollama:llava"), "described pictures with the vision model ollama:llava."),
        (structs.replace(RUN, makes_texts=False), "made no texts"),
        (structs.replace(RUN, is_complete=False), "The run ended before it had seen the whole source"),
    ],
)
def test_the_run_and_the_origin_of_its_texts_are_stated(run: LastRun, statement: str) -> None:
    assert statement in page(row(), run=run).text


def test_pictures_with_other_options_are_counted() -> None:
    assert "1 picture was processed by an earlier run with other options" in page(row(options="two"), row("b.jpg")).text


def test_parts_of_other_versions_lack_columns_and_have_more(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = LocalStore(tmp_path)
    older = as_table([row()]).drop_columns(["format"]).append_column("cpu_s", pa.array([0.5]))
    pq.write_table(older, tmp_path / "part")
    target.put(f"{PARTS_FOLDER}/000001-ab-0000001.parquet", tmp_path / "part")
    with opened_manifest(target) as manifest:
        rows = [each for some in manifest.write_tables() for each in some]
    assert rows == [row(format=None)]


def test_a_file_of_the_user_is_not_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = LocalStore(tmp_path)
    with opened_manifest(target) as manifest:
        assert manifest.may_write_report
        manifest.write_report(page(row()).content.encode())
        assert manifest.may_write_report
        (tmp_path / REPORT_NAME).write_bytes(b"<html>my own")
        assert not manifest.may_write_report
    assert "is not a report of this program" in caplog.text


def test_thumbnails_have_no_metadata_and_say_why_one_is_missing(tmp_path: Path) -> None:
    source, target = LocalStore(tmp_path / "source"), LocalStore(tmp_path / "target")
    original = pictures.jpeg(640, 480)
    secret = b"http://ns.adobe.com/xap/1.0/\0<secret/>"
    with_xmp = original[:2] + b"\xff\xe1" + (len(secret) + 2).to_bytes(2, "big") + secret + original[2:]
    for folder, name, content in (("source", "a.jpg", with_xmp), ("target", "a.webp", b"edited")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(content)
    files = {"optimized": None, "converted": ResultFile("a.webp", "00", 6, Format.WEBP)}
    first = row("a.jpg", sha256=hashlib.sha256(with_xmp).hexdigest(), **files)
    samples = make_samples([first, row("missing.jpg", **files)], source, target, load({"data_dir": tmp_path}).config)
    thumbnail = samples[0].before.webp
    assert thumbnail[8:16] == b"WEBPVP8 "
    assert b"secret" not in thumbnail
    assert samples[0].after == Thumbnail(problem="The file was changed since it was processed.")
    assert samples[1].before == Thumbnail(problem="The file was deleted, or can't be read.")
