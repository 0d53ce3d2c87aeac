"""`models` and `doctor` for the networks that read text in pictures."""

from __future__ import annotations

import sys
from pathlib import Path

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


@pytest.mark.parametrize("with_libraries", [False, True])
def test_what_is_missing_is_named(
    program: Program, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, with_libraries: bool
) -> None:
    libraries(monkeypatch, are_installed=with_libraries)
    check = program.check("text")
    assert check["state"] == ("warning" if with_libraries else "ok")
    assert "models pull ocr" in check["advice"]
    assert ("imgproc-local[ocr]" in check["advice"]) is not with_libraries
    assert program.models()["ocr"]["state"] == "available"
    request.getfixturevalue("installed")
    assert program.check("text")["state"] == "ok"
    row = program.models()["ocr"]
    assert (row["state"], row["problem"] is None, row["in_use"]) == ("installed", with_libraries, False)


def test_a_frozen_program_offers_nothing_that_it_lacks(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries(monkeypatch, are_installed=False)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    check = program.check("text")
    assert (check["state"], check["advice"]) == ("ok", None)
    assert "does not include" in check["detail"]
    assert "ocr" not in program.models()
    assert "does not include" in program.error("models", "pull", "ocr")


def test_an_import_of_ocr_takes_the_expected_wheel_without_options(program: Program, tmp_path: Path) -> None:
    wheel = tmp_path / "rapidocr-1.0-py3-none-any.whl"
    wheel.write_bytes(b"no wheel")
    for options, words in (((), "has changed"), (("--name", "a"), "leave out all options")):
        assert words in program.error("models", "import", wheel, *options)
