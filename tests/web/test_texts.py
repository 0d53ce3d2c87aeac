"""What the page shows of pictures that need a text. Its scripts run in Node; the test is skipped without it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.codecs.pictures import jpeg_with_metadata
from tests.support import pictures
from tests.support.service import running

HERE = Path(__file__).parent
STATIC = HERE.parent.parent / "imgproc_local" / "web" / "static"
TIMEOUT_S = 60


def test_pictures_that_need_a_text_are_marked_and_come_first(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    files = [tmp_path / name for name in ("known.jpg", "IMG_1.jpg", "IMG_2.jpg")]
    for file in files:
        file.write_bytes(jpeg_with_metadata() if file.stem == "known" else pictures.jpeg(64, 48))
    with running(tmp_path / "data") as service:
        known = jpeg_with_metadata()
        names = ["IMG_3.jpg", *(f"later-{number}.jpg" for number in range(12))]
        jobs = [
            service.dispatch("analyze", pictures.jpeg(64, 48) if name == names[0] else known, name) for name in names
        ]
        for job in jobs:
            service.final(job["job_id"])
        key = service.make_key()
        scripts = tmp_path / "scripts"
        shutil.copytree(STATIC, scripts)
        (scripts / "package.json").write_text('{"type": "module"}')
        ended = subprocess.run(
            [node, "--input-type=module", "-", str(scripts), service.root, key, *map(str, files)],
            input=(HERE / "page_in_node.mjs").read_text(encoding="utf-8"),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    page = json.loads(ended.stdout)
    assert {card["name"] for card in page["cards"][:2]} == {"IMG_1.jpg", "IMG_2.jpg"}
    assert page["cards"][2]["name"] == "known.jpg"
    assert page["progress"] == "3 of 3 pictures finished, 2 need text"
    assert [card["name"] for card in page["earlier"]] == ["IMG_3.jpg", *(f"later-{n}.jpg" for n in range(11, -1, -1))]
    for card in [*page["cards"], *page["earlier"]]:
        unknown = card["name"].startswith("IMG")
        assert card["state"] == ("Done, but needs text" if unknown else "Done")
        assert set(card["marks"]) == ({"needs text"} if unknown else set())
        assert any(label.startswith("Copy alt text") for label in card["copies"]) != unknown
        assert any(label.startswith("Copy file name") for label in card["copies"])
