"""What `process` does with roles, and what it says of suggested roles, reasons and long descriptions."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from imgproc_local.batch import options_hash
from imgproc_local.config import Config
from imgproc_local.domain.plan import Operation, Plan
from imgproc_local.domain.result import (
    NeedsTextReason,
    RoleSuggestion,
    SuggestedRole,
    TextSource,
    Translation,
)
from imgproc_local.engine.analyze import Analyzer
from tests.cli.conftest import Program
from tests.support import pictures

OPENING_HOURS = "The opening hours of the museum."
OLD_HEAD = "\ufefffile,original_file,language,seo_filename,alt_text,source,needs_text\r\n"


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "a.jpg"
    path.write_bytes(pictures.jpeg(64, 48))
    return path


@pytest.fixture
def chart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every picture a chart that a model has described in English, and nobody in German."""
    texts = (
        Translation("en", "sales", "Sales by year.", TextSource.VISION, None, "Sales rose each year.", "tiny-1"),
        Translation("de", "sales", "Von 2026.", TextSource.FACTS, NeedsTextReason.PLACE_OR_DATE_ONLY),
    )
    run = Analyzer.run

    def described(self: Analyzer, *arguments: Any) -> Any:
        suggestion = RoleSuggestion(SuggestedRole.CHART, "It has axes.")
        return structs.replace(run(self, *arguments), texts=texts, suggestion=suggestion)

    monkeypatch.setattr(Analyzer, "run", described)


def table(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.read_text("utf-8-sig"))))


def test_the_alt_text_of_a_decorative_picture_is_empty(program: Program, picture: Path, tmp_path: Path) -> None:
    command = ("process", picture, "--out", tmp_path / "out", "--only", "analyze", "--role", "decorative")
    [image] = program.in_process_json(*command, "--languages", "en,de", "--csv", tmp_path / "alt.csv")
    assert [(text["seo_alt_text"], text["needs_text"]) for text in image["translations"]] == [("", False)] * 2
    rows = [(row["alt_text"], row["needs_text"], row["needs_text_reason"]) for row in table(tmp_path / "alt.csv")]
    assert rows == [("", "false", "")] * 2


@pytest.mark.parametrize("role", ["link", "button"])
def test_a_link_or_button_says_what_the_context_says(
    program: Program, picture: Path, tmp_path: Path, role: str
) -> None:
    command = ("process", picture, "--out", tmp_path / "out", "--only", "analyze", "--role", role)
    result = program.in_process(*command, "--context", OPENING_HOURS)
    assert (result.exit_code, "no effect" in result.output) == (0, False), result.output
    assert OPENING_HOURS in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--role", "link"], "--role link needs --context: say where the link leads"),
        (["--role", "button", "--context", "  "], "--role button needs --context: say what the button does"),
        (["--role", "decorative", "--only", "optimize"], "--role need alt texts: add --only analyze"),
        (["--role", "logo"], "'logo' is not one of"),
    ],
)
def test_a_role_that_can_not_be_used_is_refused(
    program: Program, picture: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert message in " ".join(program.error("process", picture, "--out", tmp_path / "out", *arguments).split())
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("chart")
def test_reasons_suggestions_and_long_descriptions_are_printed(program: Program, picture: Path, tmp_path: Path) -> None:
    command = ("process", picture, "--out", tmp_path / "out", "--languages", "en,de")
    result = program.in_process(*command)
    shown = result.stdout.splitlines()
    assert "    en (vision)                          Sales by year." in shown
    assert "    de (needs text: place or date only)  Von 2026." in shown
    assert "    suggested role: chart. It has axes." in shown
    assert "1 in need of a text from you" in result.stderr
    for only in ((), ("--only", "convert")):  # what other stages make anew leaves the texts as they are
        [image] = program.in_process_json(*command, *only)
        assert (image["suggested_role"], image["suggested_role_reason"]) == ("chart", "It has axes.")
        reasons = [(text["needs_text_reason"], text["long_description"]) for text in image["translations"]]
        assert reasons == [(None, "Sales rose each year."), ("place_or_date_only", "")]


@pytest.mark.usefixtures("chart")
def test_the_table_has_new_columns_at_its_end_and_replaces_one_of_an_earlier_version(
    program: Program, picture: Path, tmp_path: Path
) -> None:
    command = ("process", picture, "--out", tmp_path / "out", "--languages", "en,de", "--csv", tmp_path / "alt.csv")
    (tmp_path / "alt.csv").write_text(OLD_HEAD, newline="")
    program.output(*command, "--only", "analyze")
    assert (tmp_path / "alt.csv").read_text("utf-8").startswith(OLD_HEAD.rstrip())
    rows = [list(row.values())[4:] for row in table(tmp_path / "alt.csv")]
    assert rows == [
        ["Sales by year.", "vision", "false", "", "Sales rose each year.", "chart", "It has axes."],
        ["", "facts", "true", "place_or_date_only", "", "chart", "It has axes."],
    ]


@pytest.mark.usefixtures("chart")
def test_long_descriptions_and_models_are_written_into_files(program: Program, picture: Path, tmp_path: Path) -> None:
    command = ("process", picture, "--out", tmp_path / "out", "--languages", "en,de", "--write-metadata", "--sidecar")
    program.output(*command)
    files = [file for file in (tmp_path / "out").iterdir() if not file.name.startswith(".")]
    assert {file.suffix for file in files} == {".jpg", ".webp", ".xmp"}
    for content in (file.read_bytes() for file in files):
        assert b"ExtDescrAccessibility" in content
        assert b"Sales rose each year." in content
        assert b"tiny-1" in content
        assert b"Von 2026." not in content


def test_results_of_version_0_1_0_are_up_to_date() -> None:
    assert options_hash((Plan(Operation.PROCESS),), [], Config(), None) == "eb05bd5f466cbc2538670151eff763ba"
