"""`models` and `doctor` for the networks that read text in pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.vision.llm import listing
from imgproc_local.vision.models import networks, store
from imgproc_local.vision.models.model import ModelFile
from tests.cli.conftest import Program


@pytest.fixture
def installed(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with the sizes of the networks."""
    folder = program.data / "models" / "ocr"
    folder.mkdir(parents=True)
    sizes = {name: ModelFile("", 10, "0" * 64) for name in networks.NETWORKS}
    monkeypatch.setattr(networks, "NETWORKS", sizes)
    for name in sizes:
        (folder / name).write_bytes(b"0123456789")
    (folder / "manifest.json").write_bytes(b"{}")


def libraries(monkeypatch: pytest.MonkeyPatch, *, are_installed: bool) -> None:
    monkeypatch.setattr(store, "can_read_text", lambda: are_installed)
    monkeypatch.setattr(listing, "can_read_text", lambda: are_installed)


def text_check(program: Program) -> dict[str, Any]:
    (found,) = [check for check in program.in_process_json("doctor")["checks"] if check["name"] == "text"]
    return found


def ocr_row(program: Program) -> dict[str, Any]:
    (found,) = [row for row in program.in_process_json("models", "list") if row["name"] == "ocr"]
    return found


@pytest.mark.parametrize("with_libraries", [False, True])
def test_what_is_missing_is_named(
    program: Program, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, with_libraries: bool
) -> None:
    libraries(monkeypatch, are_installed=with_libraries)
    check = text_check(program)
    assert check["state"] == ("warning" if with_libraries else "ok")
    assert "models pull ocr" in check["advice"]
    assert ("imgproc-local[ocr]" in check["advice"]) is not with_libraries
    assert ocr_row(program)["state"] == "available"
    request.getfixturevalue("installed")
    assert text_check(program)["state"] == "ok"
    row = ocr_row(program)
    assert (row["state"], row["problem"] is None, row["in_use"]) == ("installed", with_libraries, False)


def test_a_frozen_program_offers_nothing_that_it_lacks(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries(monkeypatch, are_installed=False)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    check = text_check(program)
    assert (check["state"], check["advice"]) == ("ok", None)
    assert "does not include" in check["detail"]
    assert all(row["name"] != "ocr" for row in program.in_process_json("models", "list"))
    assert "does not include" in program.error("models", "pull", "ocr")


def test_an_import_of_ocr_takes_the_expected_wheel_without_options(program: Program, tmp_path: Path) -> None:
    wheel = tmp_path / "rapidocr-1.0-py3-none-any.whl"
    wheel.write_bytes(b"no wheel")
    for options, words in (((), "has changed"), (("--name", "a"), "leave out all options")):
        assert words in program.error("models", "import", wheel, *options)
