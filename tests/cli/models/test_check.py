"""`models check` with the project's tiny model: it describes the user's own pictures."""

from __future__ import annotations

from pathlib import Path

import pytest

from imgproc_local.vision.models.store import ModelStore
from tests.cli.conftest import Program
from tests.contract.test_person_alt_text import picture as picture_with_alt_text
from tests.support import pictures
from tests.support.installed import install
from tests.support.tiny import MMPROJ, TEXT

OWN_TEXT = "Two boats in the harbour of Bremen, probably at noon."


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """A folder with a picture, one whose file has an alt text, a damaged one and a file that is no picture."""
    folder = tmp_path / "album"
    (folder / "more").mkdir(parents=True)
    (folder / "a.png").write_bytes(pictures.png(96, 64))
    (folder / "more" / "b.jpg").write_bytes(picture_with_alt_text("jpeg", OWN_TEXT))
    (folder / "more" / "cut.jpg").write_bytes(pictures.jpeg(96, 64)[:300])
    (folder / "notes.txt").write_text("no picture")
    return folder


def test_invalid_arguments_and_models_that_do_not_work_are_refused(program: Program, album: Path) -> None:
    assert "models pull" in program.check("describer")["advice"]
    install(ModelStore(program.data / "models"), "broken")  # llama.cpp can't load it
    (album.parent / "empty").mkdir()
    for name, options, message in (
        ("nothing", (), "'nothing' is not installed"),
        ("broken", ("--languages", "xx"), "'xx' is not a supported language"),
        ("broken", ("--folder", album.parent / "empty"), "no pictures"),
        ("broken", (), "does not work here"),
    ):
        assert message in program.error("models", "check", name, "--folder", album, *options)
    found = program.check("describer")
    assert (found["state"], "broken" in found["detail"], bool(found["advice"])) == ("problem", True, True)


def test_a_model_describes_the_users_own_pictures(
    program: Program, album: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.output("models", "import", TEXT, MMPROJ, "--name", "tiny")
    monkeypatch.chdir(album.parent)
    first, second, damaged = program.in_process_json("models", "check", "tiny", "--folder", album.name)
    assert (first["picture"], first["error"], first["seconds"] > 0) == ("a.png", None, True)
    [text] = first["texts"]
    assert (text["language_code"], text["source"], bool(text["seo_filename"])) == ("en", "vision", True)
    [own] = second["texts"]
    assert (own["source"], own["seo_alt_text"]) == ("embedded", OWN_TEXT)
    assert (damaged["picture"], damaged["texts"]) == (str(Path("more", "cut.jpg")), [])
    assert "damaged" in damaged["error"] or "cut" in damaged["error"]
    shown = program.output("models", "check", "tiny", "--folder", album / "more")
    assert OWN_TEXT in shown
    assert "Written by the model: 0 of 1 texts." in shown
