"""The bill of materials states the version of every bundled library, or that it is unknown and why."""

from __future__ import annotations

import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.support.scripts import script

sbom = script("build/sbom.py")


def bundled(wheel: str) -> dict[str, str | None]:
    """The libraries in a wheel with their versions, None if the wheel states none."""
    return {component["name"]: component.get("version") for component in sbom.bundled_libraries(distribution(wheel))}


@pytest.mark.skipif(sys.platform != "linux", reason="the patterns were read off the wheels for Linux")
@pytest.mark.parametrize("wheel", ["pyvips-binary", "pillow", "mozjpeg-lossless-optimization", "llama-cpp-python"])
def test_every_version_that_a_wheel_states_is_found(wheel: str) -> None:
    expected = {name for name, entry in sbom.BUNDLED["wheels"][wheel]["libraries"].items() if "version" in entry}
    assert {name for name, version in bundled(wheel).items() if version} == expected


def test_a_wheel_without_the_texts_of_its_libraries_gets_them(tmp_path: Path) -> None:
    bundled = sbom.BUNDLED["wheels"]["pylibjxl"]
    assert set(bundled["texts"]) == {*bundled["libraries"], "libjxl-patents"}
    sbom._copy_licences(distribution("pylibjxl"), tmp_path, *bundled["texts"])
    copied = {file.name: file.read_text("utf-8") for file in (tmp_path / "pylibjxl").iterdir()}
    assert copied.keys() == {"LICENSE", *(f"{text}.txt" for text in bundled["texts"])}
    assert "Independent JPEG Group" in copied["libjpeg-turbo.txt"]
    assert all("copyright" in text.lower() for name, text in copied.items() if "patents" not in name)


def test_an_unknown_version_is_stated_with_the_reason() -> None:
    parts = {component["name"]: component for component in sbom.bundled_libraries(distribution("pyvips-binary"))}
    assert "version" not in parts["libheif"]
    (note,) = parts["libheif"]["properties"]
    assert note["value"].startswith("unknown: ")


def test_a_pattern_that_does_not_find_a_version_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sbom.BUNDLED["wheels"]["pyvips-binary"]["libraries"]["aom"], "version", "AOM, version ([0-9]+)")
    assert bundled("pyvips-binary")["aom"] is None
    assert "no version of aom" in capsys.readouterr().err
