"""The texts that `process --write-metadata` writes are known for what they are when its results are processed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from imgproc_local.codecs.picture.formats import FORMATS
from imgproc_local.codecs.picture.source import opened
from imgproc_local.domain.image import Format
from tests.cli.conftest import Program
from tests.support import tiny


def texts(image: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["language_code"]: (each["source"], each["seo_alt_text"]) for each in image["translations"]}


def processed(program: Program, picture: Path | str, out: Path, **settings: object) -> dict[str, Any]:
    arguments = ("--languages", "en,de", "--write-metadata", "--sidecar", "--format", "webp", "--out", out)
    [image] = program.json("process", picture, *arguments, **settings)
    return image


@pytest.mark.parametrize("variant", ["optimized_file", "converted_file"])
def test_the_text_of_a_model_is_never_taken_for_that_of_a_person(
    program: Program, tmp_path: Path, variant: str
) -> None:
    scene = tiny.scenes().held_out_scenes(1, seed=1234)[0]
    tiny.scenes().draw(scene, 0, (320, 240)).save(tmp_path / "scene.png")
    assert program("models", "import", tiny.TEXT, tiny.MMPROJ, "--name", "tiny").returncode == 0
    described = processed(program, tmp_path / "scene.png", tmp_path / "first")
    german = texts(described)["de"]
    assert german[0] == texts(described)["en"][0] == "vision"

    # without a model, the text of the model remains one, also in the results of results
    without = Program(tmp_path / "without model")
    again = processed(without, described[variant], tmp_path / "second")
    third = processed(without, again[variant], tmp_path / "third")
    assert texts(third) == texts(again) == texts(described)
    sidecar = Path(third["optimized_file"]).with_suffix(".xmp").read_text(encoding="utf-8")
    assert sidecar.count("vision ") == 3

    # another program edits one of them: it is now a person's, and no model replaces it
    edited = tmp_path / Path(described[variant]).name
    row = FORMATS[Format.WEBP if edited.suffix == ".webp" else Format.PNG]
    assert row.with_xmp is not None
    with opened(Path(described[variant])) as data:
        packet = row.container.read_blocks(data).xmp or b""
        assert german[1].encode() in packet
        edited.write_bytes(row.with_xmp(data, packet.replace(german[1].encode(), b"Von Hand")))
    by_hand = processed(program, edited, tmp_path / "fourth")
    assert texts(by_hand) == {"en": texts(described)["en"], "de": ("embedded", "Von Hand")}
