"""What `process` prints of the texts: which come first, how they are aligned, what was removed; and that the context is
stored nowhere.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.conftest import Program
from tests.codecs.pictures import jpeg_with_metadata
from tests.support import pictures


def test_pictures_that_need_a_text_are_marked_and_come_first_and_are_counted_in_every_run(
    program: Program, tmp_path: Path
) -> None:
    source = tmp_path / "pictures"
    source.mkdir()
    for name in ("A.jpg", "Z.jpg"):
        (source / name).write_bytes(jpeg_with_metadata())
    for name in ("IMG_1.jpg", "IMG_2.jpg"):
        (source / name).write_bytes(pictures.jpeg(64, 48))
    order = ["IMG_1.jpg", "IMG_2.jpg", "A.jpg", "Z.jpg"]
    images = program.in_process_json("process", source, "--languages", "en", "--out", tmp_path / "out")
    assert [Path(image["file"]).name for image in images] == order
    for image in images:
        unknown = image["original_filename"].startswith("IMG")
        assert ({"gps", "identifier", "thumbnail"} <= set(image["removed"])) is not unknown
        assert image["removed"] == sorted(image["removed"])
        assert [text["language_code"] for text in image["translations"]] == ["en"]
        assert [text["needs_text"] for text in image["translations"]] == [unknown]
        assert [text["source"] == "pixels" for text in image["translations"]] == [unknown]

    shown = program.output("process", source, "--languages", "en", "--out", tmp_path / "out", pixel_texts="false")
    rows = [line for line in shown.splitlines() if line.startswith(str(source))]
    assert [Path(row.split("  ")[0]).name for row in rows] == order
    labels = re.findall(r"^    en \(.*", shown, re.MULTILINE)
    assert labels[:2] == ["    en (needs text: nothing known)"] * 2
    beginnings = {re.match(r"    [a-z]{2} \([a-z ]+\) +", label)[0] for label in labels[2:]}
    assert {len(beginning) for beginning in beginnings} == {len("    en (needs text: nothing known)  ")}, beginnings
    assert {beginning.strip() for beginning in beginnings} == {"en (embedded)"}
    again = program.in_process("process", source, "--languages", "en", "--out", tmp_path / "out", pixel_texts="false")
    assert (again.exit_code, again.stdout) == (0, ""), "the totals and the table are those of this run"
    counts = "0 done, 4 unchanged, 0 failed, 0 skipped, 2 in need of a text from you"
    assert again.stderr == f"{counts} (--json and --csv list them).\n"
    described = program.summary("process", source, "--only", "analyze", "--sidecar", "--out", tmp_path / "texts")
    assert f"2 pictures written to {tmp_path / 'texts'}." in described, "the others have no text for a sidecar"


def test_file_names_in_every_script_are_printed_as_they_are_in_aligned_columns(
    program: Program, tmp_path: Path
) -> None:
    family, persian, hindi = (
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\u0645\u06cc\u200c\u0631\u0648\u0645",
        "हिंदी तस्वीर",
    )
    for name in (family, persian, hindi, "plain", "right\u202eleft"):
        (tmp_path / f"{name}.jpg").write_bytes(pictures.jpeg(64, 48))
    shown = program.output("process", *sorted(tmp_path.glob("*.jpg")), "--out", tmp_path / "out", "--only", "analyze")
    for name in (family, persian, hindi, "plain", r"right\u202eleft"):
        assert f"{tmp_path / name}.jpg " in shown
    rows = [line for line in shown.splitlines() if line.startswith(str(tmp_path))]
    # a family is two columns wide, a joiner and a combining mark none
    rows = [re.sub(r"[\u093e-\u094d\u0902\u200c]", "", row.replace(family, "xx")) for row in rows]
    assert len({re.search(r"\.jpg +", row).end() for row in rows}) == 1, rows


def test_the_context_reaches_the_describer_and_stays_nowhere(program: Program, tmp_path: Path) -> None:
    picture = tmp_path / "a.jpg"
    picture.write_bytes(pictures.jpeg(64, 48))
    summary = program.summary("process", picture, "--out", tmp_path / "out", "--context", "Zebrafinken")
    assert "--context has no effect: no vision model is in use" in summary
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or b"Zebrafinken" not in file.read_bytes(), file
