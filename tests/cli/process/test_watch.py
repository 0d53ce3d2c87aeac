"""`--watch` processes what is added, once it is complete; `--write-metadata` and `--sidecar` write the texts."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import pytest
from PIL import Image

from imgproc_local.cli.discovery import read_manifest
from tests.cli.conftest import TIMEOUT_S, Program, wait_for
from tests.cli.process.test_process import names
from tests.codecs.pictures import jpeg_with_metadata
from tests.support import pictures


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no POSIX signals")
def test_a_watched_folder_is_processed_as_it_fills_and_its_results_are_not_input(
    program: Program, tmp_path: Path
) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    # the results are written into the watched folder itself
    with program.start("process", folder, "--watch", "--out", folder) as process:
        wait_for((folder / ".imgproc-local.manifest.jsonl").is_file, process)
        (folder / "broken.jpg").write_bytes(pictures.broken_jpeg())
        content = pictures.jpeg(64, 48)
        with (folder / "IMG_1.jpg").open("wb") as file:
            for part in (content[:500], content[500:]):
                file.write(part)
                file.flush()
        wait_for(lambda: len(read_manifest(folder)) == 2, process)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1, "one picture failed"
    assert re.search(r"IMG_1\.jpg: \S+\.jpg, \S+\.webp\n", stderr)
    tried = [line for line in stderr.splitlines() if line.startswith(str(folder / "broken.jpg"))]
    assert len(tried) == 1, "it is not tried again until it changes"
    assert "1 done, 1 failed" in stderr
    assert len([record for record in read_manifest(folder).values() if not record.errors]) == 1


def test_texts_are_written_into_the_results_and_beside_them(program: Program, tmp_path: Path) -> None:
    source, out = tmp_path / "pictures", tmp_path / "out"
    source.mkdir()
    (source / "harbour.jpg").write_bytes(jpeg_with_metadata())
    (source / "IMG_1.jpg").write_bytes(pictures.jpeg(64, 48))
    arguments = ("process", source, "--languages", "en,ja", "--out", out, "--write-metadata", "--sidecar")
    images = {Path(image["file"]).name: image for image in program.in_process_json(*arguments)}
    texts = {text["source"]: text["seo_alt_text"] for text in images["harbour.jpg"]["translations"]}
    assert texts.keys() == {"embedded", "facts"}
    for kind in ("optimized", "converted"):
        file = Path(images["harbour.jpg"][f"{kind}_file"])
        assert file.stat().st_size == images["harbour.jpg"][f"{kind}_size"]
        with Image.open(file) as picture:
            xmp = picture.info["xmp"].decode()
            picture.load()
        assert "AltTextAccessibility" in xmp
        assert texts["embedded"] in xmp
        assert texts["facts"] not in xmp
    sidecar = file.with_suffix(".xmp").read_text(encoding="utf-8")
    assert texts["embedded"] in sidecar
    assert texts["facts"] not in sidecar
    # an alt text that only names the kind is written into no file
    without_text = Path(images["IMG_1.jpg"]["optimized_file"])
    assert b"AltTextAccessibility" not in without_text.read_bytes()
    assert not without_text.with_suffix(".xmp").exists()
    assert json.dumps([image["status"] for image in program.in_process_json(*arguments)]).count("unchanged") == 2
    plain = program.in_process_json(*arguments[:-2])
    assert b"AltTextAccessibility" not in Path(plain[0]["optimized_file"]).read_bytes()
    assert len(names(out)) == 4, "the old results are replaced, and the sidecar is removed"
