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

from tests.clients.test_clients import TIMEOUT_S, command, node_with_fetch, php_with_curl
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


def fail(folder: Path, *arguments: str) -> str:
    """What a program prints that has to fail."""
    ended = subprocess.run(
        arguments, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT_S, check=False
    )
    assert ended.returncode != 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


READ_FILE = 'import { readFile } from "node:fs/promises";\nconst file = new Blob([await readFile("photo.jpg")]);\n'


def program(name: str, service: Running) -> tuple[str, str]:
    """The interpreter of an example and its whole code; the test is skipped without the interpreter."""
    code = example(name, service)
    if name == "shell":
        command("jq")
        return command("sh"), code
    if name == "php":
        return php_with_curl(), "<?php\n" + code
    if name == "javascript":
        return node_with_fetch(), READ_FILE + code
    require_requests()
    return sys.executable, code


def example_file(folder: Path) -> Path:
    return folder / "example.mjs"  # Node needs this suffix for `await`; the other interpreters need none


@pytest.mark.parametrize("name", ["shell", "php", "javascript", "python"])
def test_a_failure_shows_the_message_and_leaves_no_result(service: Running, folder: Path, name: str) -> None:
    """Each failure comes after a good run in the same folder, whose results must stay as they are."""
    interpreter, code = program(name, service)
    example_file(folder).write_text(code, encoding="utf-8")
    good = (folder / "photo.jpg").read_bytes()
    run(folder, interpreter, "example.mjs")
    results = {path: path.read_bytes() for path in folder.glob("*lighthouse*")}

    (folder / "photo.jpg").write_text("a letter")
    assert "Expected" in fail(folder, interpreter, "example.mjs")
    (folder / "photo.jpg").write_bytes(good[: len(good) // 2])
    assert "damaged" in fail(folder, interpreter, "example.mjs")
    (folder / "photo.jpg").write_bytes(good)
    example_file(folder).write_text(code.replace(service.key, "imgp_wrong"), encoding="utf-8")
    assert "Unauthenticated" in fail(folder, interpreter, "example.mjs")

    left = {path.name for path in folder.iterdir()} - {"answer"}
    assert left == {"photo.jpg", "example.mjs"} | {path.name for path in results}
    assert all(path.read_bytes() == content for path, content in results.items())


def test_the_shell_example_has_the_results_of_the_picture_that_is_there(service: Running, folder: Path) -> None:
    interpreter, code = program("shell", service)
    example_file(folder).write_text(code, encoding="utf-8")
    run(folder, interpreter, "example.mjs")
    exif = Image.Exif()
    exif[0x010E] = "A bridge in fog"
    other = pictures.encoded(pictures.photo(200, 100), "JPEG", quality=92, exif=exif)
    (folder / "photo.jpg").write_bytes(other)
    run(folder, interpreter, "example.mjs")
    for suffix in (".jpg", ".webp"):
        (result,) = (path for path in folder.glob(f"*bridge*{suffix}"))
        with Image.open(result) as opened:
            assert opened.size == (200, 100)


def test_php(service: Running, folder: Path) -> None:
    php = php_with_curl()
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
    php = php_with_curl()
    functions = (HERE / "wordpress.php").read_text(encoding="utf-8")
    code = f"{functions}\n{example('wordpress', service)}\n$actions['imgproc_alt_text'](7);\n"
    (folder / "example.php").write_text(code, encoding="utf-8")
    post_id, key, alt_text = json.loads(run(folder, php, "example.php"))
    assert (post_id, key) == (7, "_wp_attachment_image_alt")
    assert CAPTION in alt_text


@pytest.mark.parametrize("content", [b"a letter", pictures.broken_jpeg()], ids=["refused", "failed"])
def test_wordpress_logs_a_failure_and_does_not_ask_again(service: Running, folder: Path, content: bytes) -> None:
    php = php_with_curl()
    (folder / "photo.jpg").write_bytes(content)
    functions = (HERE / "wordpress.php").read_text(encoding="utf-8")
    code = f"{functions}\n{example('wordpress', service)}\n$actions['imgproc_alt_text'](7);\n"
    (folder / "example.php").write_text(code, encoding="utf-8")
    ended = subprocess.run(
        [php, "example.php"], cwd=folder, capture_output=True, encoding="utf-8", timeout=TIMEOUT_S, check=False
    )
    assert ended.stdout == ""
    assert "Expected" in ended.stderr or "damaged" in ended.stderr


def test_wordpress_asks_again_for_the_same_job(tmp_path: Path, folder: Path) -> None:
    php = php_with_curl()
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
    node = node_with_fetch()
    (folder / "example.mjs").write_text(READ_FILE + example("javascript", service), encoding="utf-8")
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
