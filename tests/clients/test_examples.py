"""The examples on the page for authors of plugins do what they say."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from tests.support import pictures
from tests.support.service import GatedDescriber, Running, running

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "imgproc_local/api/plugins.md").read_text(encoding="utf-8")
TIMEOUT_S = 120
ADDRESS, KEY = "http://127.0.0.1:8484/api/v1", "imgp_…"
CAPTION = "A lighthouse above the harbour"


def command(name: str) -> str:
    """The path of an installed program; the test is skipped where it is missing."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def node_with_fetch() -> str:
    """The path of a Node that has fetch and FormData; the test is skipped without one."""
    node = command("node")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    if int(version.removeprefix("v").split(".")[0]) < 18:
        pytest.skip(f"fetch and FormData need Node 18; this is {version.strip()}")
    return node


def php_with_curl() -> str:
    """The path of a PHP that has the curl extension; the test is skipped without one."""
    php = command("php")
    has_curl = subprocess.run([php, "-r", "exit(extension_loaded('curl') ? 0 : 1);"], timeout=30, check=False)
    if has_curl.returncode != 0:
        pytest.skip("this PHP has no curl extension")
    return php


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a picture that has a caption."""
    exif = Image.Exif()
    exif[0x010E] = CAPTION
    (tmp_path / "photo.jpg").write_bytes(pictures.encoded(pictures.photo(), "JPEG", quality=92, exif=exif))
    return tmp_path


def example(name: str, service: Running) -> str:
    """The code of an example, with the address and the key of `service`, and six times its 20 seconds for an answer."""
    found = re.search(rf"<!-- example {name} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    assert 9 <= len(found[1].splitlines()) <= 13
    assert ADDRESS in found[1]
    assert KEY in found[1]
    code = found[1].replace(ADDRESS, service.url).replace(KEY, service.key)
    return re.sub(r"(?i)(timeout\W+|max-time )20\b", r"\g<1>120", code).replace("20_000", "120_000")


def run(folder: Path, *arguments: str, succeeds: bool = True) -> str:
    """What a program prints, on standard output or, if it has to fail, anywhere."""
    ended = subprocess.run(
        arguments, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT_S, check=False
    )
    assert (ended.returncode == 0) == succeeds, ended.stdout + ended.stderr
    return ended.stdout if succeeds else ended.stdout + ended.stderr


def require_requests() -> None:
    """Skip the test where the Python package requests is not installed."""
    if importlib.util.find_spec("requests") is None:
        pytest.skip("the Python package requests is not installed")


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


EXAMPLE = "example.mjs"
"""Node needs this suffix for `await`; the other interpreters need none."""


@pytest.mark.parametrize("name", ["shell", "php", "javascript", "python"])
def test_an_example_has_the_results_and_a_failure_shows_the_message_and_leaves_them(
    service: Running, folder: Path, name: str
) -> None:
    interpreter, code = program(name, service)
    (folder / EXAMPLE).write_text(code, encoding="utf-8")
    good = (folder / "photo.jpg").read_bytes()
    printed = run(folder, interpreter, EXAMPLE)
    results = {path: path.read_bytes() for path in folder.glob("*lighthouse*")}
    if name == "javascript":
        alt_text, _, size = printed.strip().rpartition(" ")
        assert CAPTION in alt_text
        assert int(size) > 0
    else:
        assert sorted(path.suffix for path in results) == ([".jpg", ".webp"] if name == "shell" else [".webp"])
        with Image.open(next(folder.glob("*lighthouse*.webp"))) as converted:
            assert (converted.format, converted.size) == ("WEBP", (320, 240))

    def failure() -> str:
        return run(folder, interpreter, EXAMPLE, succeeds=False)

    (folder / "photo.jpg").write_text("a letter")
    assert "Expected" in failure()
    (folder / "photo.jpg").write_bytes(good[: len(good) // 2])
    assert "damaged" in failure()
    (folder / "photo.jpg").write_bytes(good)
    (folder / EXAMPLE).write_text(code.replace(service.key, "imgp_wrong"), encoding="utf-8")
    assert "Unauthenticated" in failure()

    left = {path.name for path in folder.iterdir()} - {"answer"}
    assert left == {"photo.jpg", EXAMPLE} | {path.name for path in results}
    assert all(path.read_bytes() == content for path, content in results.items())


def run_wordpress(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """What a request of the example prints, with WordPress' functions replaced by those of wordpress.php."""
    functions = (HERE / "wordpress.php").read_text(encoding="utf-8")
    (folder / EXAMPLE).write_text(f"{functions}\n{code}\n$actions['imgproc_alt_text'](7);\n", encoding="utf-8")
    return subprocess.run(
        [php_with_curl(), EXAMPLE], cwd=folder, capture_output=True, encoding="utf-8", timeout=TIMEOUT_S, check=False
    )


@pytest.mark.parametrize("content", [b"a letter", pictures.broken_jpeg()], ids=["refused", "failed"])
def test_wordpress_logs_a_failure_and_does_not_ask_again(service: Running, folder: Path, content: bytes) -> None:
    (folder / "photo.jpg").write_bytes(content)
    ended = run_wordpress(folder, example("wordpress", service))
    assert ended.stdout == ""
    assert "Expected" in ended.stderr or "damaged" in ended.stderr


def test_wordpress_asks_again_for_the_same_job(tmp_path: Path, folder: Path) -> None:
    describer = GatedDescriber()
    describer.open.clear()
    with running(tmp_path / "data", lambda: describer) as service:
        code = example("wordpress", service).replace("wait=15", "wait=0")
        assert json.loads(run_wordpress(folder, code).stdout) == ["imgproc_alt_text", [7]]
        describer.open.set()
        (job,) = service.client.get("/jobs").json()["data"]
        service.final(job["job_id"])
        stored = json.loads(run_wordpress(folder, code).stdout)
        assert stored == [7, "_wp_attachment_image_alt", "Text in en."]
        assert len(service.client.get("/jobs").json()["data"]) == 1


def test_the_events_of_a_job_are_shown(service: Running, folder: Path) -> None:
    (folder / EXAMPLE).write_text(example("events", service), encoding="utf-8")
    with subprocess.Popen(
        [node_with_fetch(), EXAMPLE], cwd=folder, stdout=subprocess.PIPE, encoding="utf-8"
    ) as program:
        assert program.stdout is not None
        end = threading.Timer(TIMEOUT_S, program.kill)
        end.start()
        try:
            while not service.app.state.open_streams.total():
                assert program.poll() is None
                time.sleep(0.02)
            job_id = service.dispatch("analyze", (folder / "photo.jpg").read_bytes())["job_id"]
            assert any(line == f"completed {job_id}\n" for line in program.stdout)
        finally:
            end.cancel()
            program.kill()


def test_archive(service: Running, folder: Path) -> None:
    require_requests()
    service.process("optimize", (folder / "photo.jpg").read_bytes(), "harbour.jpg")
    (folder / "example.py").write_text(example("archive", service), encoding="utf-8")
    run(folder, sys.executable, "example.py")
    with zipfile.ZipFile(folder / "images.zip") as archive:
        assert archive.testzip() is None
        assert any("harbour" in name for name in archive.namelist())
