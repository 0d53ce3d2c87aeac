"""The examples on the page for authors of plugins do what they say."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from tests.clients.test_clients import TIMEOUT_S, command, require_fetch, require_php_curl
from tests.support import pictures
from tests.support.service import GatedDescriber, Running, running

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "imgproc_local/api/plugins.md").read_text(encoding="utf-8")
ADDRESS, KEY = "http://127.0.0.1:8484/api/v1", "imgp_…"
CAPTION = "A lighthouse above the harbour"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a picture that has a caption."""
    exif = Image.Exif()
    exif[0x010E] = CAPTION
    (tmp_path / "photo.jpg").write_bytes(pictures.encoded(pictures.photo(), "JPEG", quality=92, exif=exif))
    return tmp_path


def example(name: str, service: Running) -> str:
    """The code of an example, with the address and the key of `service`."""
    found = re.search(rf"<!-- example {name} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    assert 9 <= len(found[1].splitlines()) <= 13
    assert ADDRESS in found[1]
    assert KEY in found[1]
    return found[1].replace(ADDRESS, service.url).replace(KEY, service.key)


def run(folder: Path, *arguments: str) -> str:
    ended = subprocess.run(
        arguments, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_php(service: Running, folder: Path) -> None:
    php = require_php_curl()
    (folder / "example.php").write_text("<?php\n" + example("php", service), encoding="utf-8")
    run(folder, php, "example.php")
    (converted,) = folder.glob("*.webp")
    assert "lighthouse" in converted.name
    with Image.open(converted) as opened:
        assert opened.format == "WEBP"


def test_shell(service: Running, folder: Path) -> None:
    command("jq")
    (folder / "example.sh").write_text(example("shell", service), encoding="utf-8")
    run(folder, command("sh"), "example.sh")
    results = sorted(path.suffix for path in folder.iterdir() if "lighthouse" in path.name)
    assert results == [".jpg", ".webp"]


def test_wordpress(service: Running, folder: Path) -> None:
    php = require_php_curl()
    functions = (HERE / "wordpress.php").read_text(encoding="utf-8")
    code = f"{functions}\n{example('wordpress', service)}\n$actions['imgproc_alt_text'](7);\n"
    (folder / "example.php").write_text(code, encoding="utf-8")
    post_id, key, alt_text = json.loads(run(folder, php, "example.php"))
    assert (post_id, key) == (7, "_wp_attachment_image_alt")
    assert CAPTION in alt_text


def test_wordpress_asks_again_for_the_same_job(tmp_path: Path, folder: Path) -> None:
    php = require_php_curl()
    describer = GatedDescriber()
    describer.open.clear()
    functions = (HERE / "wordpress.php").read_text(encoding="utf-8")
    with running(tmp_path / "data", lambda: describer) as service:
        code = example("wordpress", service).replace("wait=15", "wait=0")
        code = f"{functions}\n{code}\n$actions['imgproc_alt_text'](7);\n"
        (folder / "example.php").write_text(code, encoding="utf-8")
        assert json.loads(run(folder, php, "example.php")) == ["imgproc_alt_text", [7]]
        describer.open.set()
        (job,) = service.client.get("/jobs").json()["data"]
        service.final(job["job_id"])
        assert json.loads(run(folder, php, "example.php")) == [7, "_wp_attachment_image_alt", "Text in en."]
        assert len(service.client.get("/jobs").json()["data"]) == 1


def test_javascript(service: Running, folder: Path) -> None:
    node = require_fetch()
    read_file = 'import { readFile } from "node:fs/promises";\nconst file = new Blob([await readFile("photo.jpg")]);\n'
    (folder / "example.mjs").write_text(read_file + example("javascript", service), encoding="utf-8")
    alt_text, _, size = run(folder, node, "example.mjs").strip().rpartition(" ")
    assert CAPTION in alt_text
    assert int(size) > 0


def require_requests() -> None:
    """Skip the test where the Python package requests is not installed."""
    if importlib.util.find_spec("requests") is None:
        pytest.skip("the Python package requests is not installed")


def test_python(service: Running, folder: Path) -> None:
    require_requests()
    (folder / "example.py").write_text(example("python", service), encoding="utf-8")
    run(folder, sys.executable, "example.py")
    (converted,) = folder.glob("*.webp")
    assert "lighthouse" in converted.name


def test_archive(service: Running, folder: Path) -> None:
    require_requests()
    service.process("optimize", (folder / "photo.jpg").read_bytes(), "harbour.jpg")
    (folder / "example.py").write_text(example("archive", service), encoding="utf-8")
    run(folder, sys.executable, "example.py")
    with zipfile.ZipFile(folder / "images.zip") as archive:
        assert archive.testzip() is None
        assert any("harbour" in name for name in archive.namelist())
