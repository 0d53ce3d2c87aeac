"""curl and fetch do the main job: process, poll, download. test_examples.py has requests and PHP too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from tests.support import pictures
from tests.support.service import Running

HERE = Path(__file__).parent
TIMEOUT_S = 120


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


def check_results(out: Path, filename: str) -> None:
    """Check the body of the job and the files that a client stored in `out`, for a picture of 640 × 480 pixels."""
    image = json.loads((out / "job.json").read_bytes())["data"]["image"]
    assert image["original_filename"] == filename
    assert [entry["language_code"] for entry in image["translations"]] == ["en", "de"]
    english, german = image["translations"]
    assert english["seo_alt_text"]
    assert german["seo_alt_text"]
    assert english["seo_alt_text"] != german["seo_alt_text"]
    for name, kind, size in (
        ("optimized.jpg", "JPEG", image["optimized_size"]),
        ("converted.webp", "WEBP", image["converted_size"]),
    ):
        assert (out / name).stat().st_size == size
        with Image.open(out / name) as opened:
            opened.load()
            assert (opened.format, opened.size) == (kind, (640, 480))


@pytest.mark.parametrize("client", ["curl.sh", "fetch_client.mjs"])
def test_a_client_completes_the_main_job(service: Running, tmp_path: Path, client: str) -> None:
    program = command("curl") and command("sh") if client == "curl.sh" else node_with_fetch()
    picture, out = tmp_path / "Leuchtturm am Meer.jpg", tmp_path / "out"
    picture.write_bytes(pictures.jpeg(640, 480))
    out.mkdir()
    variables = {"BASE_URL": service.url, "API_KEY": service.key, "PICTURE": str(picture), "OUT": str(out)}
    arguments = [program, str(HERE / client)]
    ended = subprocess.run(
        arguments, env=os.environ | variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    check_results(out, picture.name)
