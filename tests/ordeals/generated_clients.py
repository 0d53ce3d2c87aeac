"""Three client generators: each client is generated from the document of a running service, checked, and run.

`python -m tests.ordeals.generated_clients [--tools FOLDER] [--only typescript|python|php]`

A client processes a picture, polls and downloads, edits a text, exports, and receives errors as typed values: 401, 402,
404 and 409; those in TypeScript and PHP also 413, 422, 429 and the 404 of a file that is not made. The programs are in
tests/clients/generated. The generators are installed into FOLDER, from npm and PyPI, unless they are there; the PHP
client takes Guzzle from the Debian package php-guzzlehttp-guzzle.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from tests.support import pictures
from tests.support.service import Running, running

PROGRAMS = Path(__file__).parents[1] / "clients" / "generated"
GUZZLE = Path("/usr/share/php/GuzzleHttp")
NPM = ["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3", "@types/node@20.19.43"]
PYPI = ["openapi-python-client==0.29.1", "openapi-generator-cli==7.26.0", "mypy==2.4.1"]
NOT_CHECKED = ["imgproc_client.client", "imgproc_client.api.jobs.job_events", "imgproc_client.api.jobs.account_events"]
"""Files that mypy refuses: one that openapi-python-client copies, whatever the document, and those of the event
streams, which none of the generators can read."""
MAX_UPLOAD_BYTES = 500_000
CREDITS = 10
"""Enough for the main job, and too few for one in ten languages."""
TIMEOUT_S = 600


def run(*arguments: str | Path, cwd: Path, **variables: str) -> None:
    """Run a program. Raises: SystemExit with its output, if it fails."""
    environment = os.environ | variables
    done = subprocess.run(
        arguments, cwd=cwd, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{arguments[0]} failed with status {done.returncode}:\n{done.stdout}\n{done.stderr}")


def install(tools: Path) -> None:
    """Install the generators into `tools`, unless they are there."""
    if not (tools / "node_modules").exists():
        (tools / "package.json").write_text('{"type": "module"}', encoding="utf-8")
        run("npm", "install", "--no-audit", *NPM, cwd=tools)
    if not (tools / "python").exists():
        run(sys.executable, "-m", "venv", tools / "python", cwd=tools)
        run(tools / "python/bin/pip", "install", "-q", *PYPI, cwd=tools)


def typescript(tools: Path, document: str, variables: dict[str, str]) -> None:
    folder = fresh(tools / "typescript")
    for name in ("client.ts", "types.mjs"):
        shutil.copy(PROGRAMS / name, folder)
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    run("node", "types.mjs", document, "api.d.ts", cwd=folder)
    options = ["--strict", "--noUncheckedIndexedAccess", "--module", "nodenext", "--target", "es2022"]
    run(tools / "node_modules/.bin/tsc", *options, "--lib", "es2022,dom,dom.iterable", "client.ts", cwd=folder)
    run("node", "client.js", cwd=folder, **variables)


def python(tools: Path, document: str, variables: dict[str, str]) -> None:
    folder, programs = fresh(tools / "python-client"), tools / "python/bin"
    generated = folder / "imgproc_client"
    run(programs / "openapi-python-client", "generate", "--fail-on-warning", "--url", document, "--meta", "none",
        "--output-path", generated, cwd=folder, PATH=f"{programs}:{os.environ['PATH']}")  # fmt: skip
    (generated / "py.typed").touch()
    shutil.copy(PROGRAMS / "client.py", folder)
    skipped = f"[mypy-{','.join(NOT_CHECKED)}]\nignore_errors = True\n"
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = True\n{skipped}", encoding="utf-8")
    run(programs / "mypy", "client.py", "imgproc_client", cwd=folder)
    run(programs / "python", "client.py", cwd=folder, **variables)


def php(tools: Path, document: str, variables: dict[str, str]) -> None:
    folder = fresh(tools / "php-client")
    run(tools / "python/bin/openapi-generator-cli", "generate", "-g", "php", "-i", document, "-o", folder, cwd=folder)
    shutil.copy(PROGRAMS / "client.php", folder)
    for source in [*folder.glob("lib/**/*.php"), folder / "client.php"]:
        run("php", "-l", source, cwd=folder)
    run("php", "client.php", cwd=folder, GUZZLE=str(GUZZLE), **variables)


CLIENTS: dict[str, Callable[[Path, str, dict[str, str]], None]] = {
    "typescript": typescript,
    "python": python,
    "php": php,
}


def fresh(folder: Path) -> Path:
    """An empty folder of this name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def check_client(name: str, tools: Path, service: Running, folder: Path) -> None:
    """Generate and run one client, as an account of its own, and check the files that it stored."""
    (folder / "out").mkdir(parents=True)
    (folder / "photo.jpg").write_bytes(pictures.jpeg(640, 480))
    (folder / "large.jpg").write_bytes(bytes(MAX_UPLOAD_BYTES + 1))
    with service.as_account(name) as account:
        variables = {
            "BASE_URL": account.url,
            "API_KEY": account.key,
            "LIMITED_KEY": account.make_key(name, rate_limit=1),
            "PICTURE": str(folder / "photo.jpg"),
            "LARGE_FILE": str(folder / "large.jpg"),
            "OUT": str(folder / "out"),
        }
        CLIENTS[name](tools, f"{account.url}/openapi.json", variables)
    check_results(folder / "out", "photo.jpg")


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=Path, help="the folder of the generators")
    parser.add_argument("--only", choices=CLIENTS, help="one client instead of all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tools = (options.tools or folder / "tools").absolute()
        tools.mkdir(parents=True, exist_ok=True)
        install(tools)
        # limits so low that the clients reach them
        with running(folder / "data", max_upload_bytes=MAX_UPLOAD_BYTES, first_balance=CREDITS) as service:
            for name in [options.only] if options.only else CLIENTS:
                began_s = time.monotonic()
                check_client(name, tools, service, folder / name)
                print(f"{name}: generated, checked and run in {time.monotonic() - began_s:.0f} s", flush=True)


if __name__ == "__main__":
    main()
