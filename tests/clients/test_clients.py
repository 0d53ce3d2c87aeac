"""curl, requests, fetch and PHP do the main job: process, poll, download. They spell `languages` in three ways."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
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


def run_client(service: Running, tmp_path: Path, *arguments: str) -> None:
    """Run a client and check the files that it stored."""
    picture = tmp_path / "Leuchtturm am Meer.jpg"
    picture.write_bytes(pictures.jpeg(640, 480))
    out = tmp_path / "out"
    out.mkdir()
    variables = {"BASE_URL": service.url, "API_KEY": service.key, "PICTURE": str(picture), "OUT": str(out)}
    ended = subprocess.run(
        arguments, env=os.environ | variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr

    check_results(out, picture.name)


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


def test_curl_completes_the_main_job(service: Running, tmp_path: Path) -> None:
    command("curl")
    run_client(service, tmp_path, command("sh"), str(HERE / "curl.sh"))


def test_requests_completes_the_main_job(service: Running, tmp_path: Path) -> None:
    if importlib.util.find_spec("requests") is None:
        pytest.skip("the Python package requests is not installed")
    run_client(service, tmp_path, sys.executable, str(HERE / "requests_client.py"))


def test_fetch_completes_the_main_job(service: Running, tmp_path: Path) -> None:
    run_client(service, tmp_path, node_with_fetch(), str(HERE / "fetch_client.mjs"))


def test_php_completes_the_main_job(service: Running, tmp_path: Path) -> None:
    run_client(service, tmp_path, php_with_curl(), str(HERE / "client.php"))
