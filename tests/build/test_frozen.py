"""The frozen program: what it contains, and that it does everything that the source does."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from PIL import Image, ImageDraw

from imgproc_local.domain.languages import LANGUAGES
from tests.faults.server_process import SOURCE, clean_environment, serving
from tests.support.frozen import one_file, one_folder
from tests.support.pictures import encoded
from tests.support.scripts import PACKAGING, script
from tests.support.tiny import MMPROJ, TEXT

TIMEOUT_S = 120
MAX_FOLDER_BYTES, MAX_ONE_FILE_BYTES = 90_000_000, 44_000_000
"""Six million bytes are tables of languages: readings of Japanese and Chinese words, and letter sequences. Seven
million are libjxl, which compresses to three.
"""
EMULATED_TIMEOUT_S = 300
CHECK_TIMEOUT_S = 600
MODULES_OF_ARCHIVES = (
    b"dask.config",
    b"distributed.scheduler",
    b"fsspec.spec",
    b"pyarrow.parquet",
    b"tornado.ioloop",
    b"imgproc_local.cli.archive",
)

objects = script("build/objects.py")

needs_linux_x86 = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the limits are for Linux on x86-64"
)
needs_emulator = pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="qemu-user is not installed")


def program() -> Path:
    return one_folder() / "imgproc-local"


def picture(kind: str = "JPEG") -> bytes:
    """A red circle left of a blue square, which the tiny model knows."""
    image = Image.new("RGB", (320, 240), "grey")
    draw = ImageDraw.Draw(image)
    draw.ellipse((40, 60, 140, 160), fill="red")
    draw.rectangle((190, 60, 290, 160), fill="blue")
    return encoded(image, kind)


def run(command: Sequence[str | Path], folder: Path, *arguments: str | Path, timeout_s: float = TIMEOUT_S) -> str:
    """The output of a command on the data folder in `folder`, run with an empty environment."""
    done = subprocess.run(
        [*command, "--data-dir", folder / "data", *arguments],
        cwd=folder,
        env={} if command != SOURCE else clean_environment() | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- contents ----


def test_the_folder_is_small_and_contains_no_model_no_numpy_and_libvips_as_a_file_that_can_be_replaced() -> None:
    files = [path for path in one_folder().rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) <= MAX_FOLDER_BYTES
    names = [path.relative_to(one_folder()).as_posix().lower() for path in files]
    assert not [name for name in names if name.endswith(".gguf") or "numpy" in name or "openblas" in name]
    assert len([path for path in files if path.match("libvips*.so*")]) == 1


@needs_linux_x86
def test_no_object_needs_a_newer_glibc() -> None:
    needs = {path.name: objects.needs_glibc(path) for path in objects.objects(one_folder())}
    assert len(needs) > 40
    assert not {name: version for name, version in needs.items() if version[:2] > objects.MAX_GLIBC}


@needs_linux_x86
@pytest.mark.skipif(not shutil.which("objdump"), reason="no objdump")
def test_code_compiled_by_the_build_runs_on_a_haswell() -> None:
    compiled = [path for path in objects.objects(one_folder()) if objects.COMPILED_WITH_PROGRAM.fullmatch(path.name)]
    own = ("_ssimulacra2", "_requantize", "_webp_chroma")
    of_llama_cpp = ("libggml", "libggml-base", "libggml-cpu", "libllama", "libmtmd")
    assert {path.name.partition(".")[0] for path in compiled} == {*own, *of_llama_cpp}
    assert not {path.name: dict(newer) for path in compiled if (newer := objects.newer_than_haswell(path))}
    (computing,) = (path for path in compiled if path.name.startswith("libggml-cpu"))
    assert "vfmadd231ps" in subprocess.check_output(["objdump", "-d", computing], text=True), (
        "compiled without AVX2, FMA"
    )


def test_it_contains_nothing_of_what_only_archives_need(tmp_path: Path) -> None:
    # the names of modules are not compressed
    contents = [path.read_bytes() for path in one_folder().rglob("*") if path.is_file() and not path.is_symlink()]
    found = {name for name in MODULES_OF_ARCHIVES for content in contents if name in content}
    assert found == {b"imgproc_local.cli.archive"}
    refused = subprocess.run(
        [program(), "archive", tmp_path, tmp_path / "target", "--data-dir", tmp_path / "data"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "needs the extra `cluster`" in refused.stderr


def test_the_sbom_lists_every_component_and_the_licences_are_beside_it() -> None:
    beside = one_folder().parent
    sbom = json.loads((beside / "imgproc-local.cdx.json").read_text())
    assert sbom["bomFormat"] == "CycloneDX"
    components = {component["name"]: component for component in sbom["components"]}
    assert components.keys() >= {"CPython", "litestar", "pillow", "pyvips-binary", "llama_cpp_python", "pyinstaller"}
    assert not components.keys() & {"numpy", "pip", "setuptools", "Faker", "hf-xet"}
    assert all(component["licenses"] and component["version"] for component in components.values())
    of_system = [path for path in (one_folder() / "_internal").glob("lib*.so*") if not path.is_symlink()]
    for library in of_system:
        stem = library.name.partition(".so")[0]
        assert stem.startswith("libpython") or any(name.startswith(f"{stem}.") for name in components), stem
    inside = {part["name"]: part["licenses"][0]["expression"] for part in components["pyvips-binary"]["components"]}
    assert inside["libvips"] == "LGPL-2.1-or-later"
    assert inside["libheif"] == "LGPL-3.0-or-later"
    assert all("version" in part or part["properties"] for part in components["pyvips-binary"]["components"])
    folders = {path.name for path in (beside / "imgproc-local-licences").iterdir() if any(path.iterdir())}
    assert folders >= {"imgproc-local", "python", "pillow", "pyvips-binary", "llama-cpp-python", "pyinstaller"}
    assert (beside / "imgproc-local-licences" / "pyvips-binary" / "LGPL-3.0.txt").exists()


def test_every_file_has_a_checksum() -> None:
    beside = one_folder().parent
    lines = (beside / "imgproc-local.SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    files = {path.relative_to(beside).as_posix() for path in beside.rglob("*") if path.is_file()}
    assert sums.keys() == files - {"imgproc-local.SHA256SUMS"}
    assert sums["imgproc-local/imgproc-local"] == hashlib.sha256(program().read_bytes()).hexdigest()


# ---- behaviour ----


def test_it_keeps_the_contract_without_a_network() -> None:
    command = [sys.executable, PACKAGING / "check.py", program()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_serves_the_page(tmp_path: Path) -> None:
    with serving(tmp_path / "data", program=(program(),)) as server:
        assert httpx.get(f"{server.wait_ready()}/static/app.js", timeout=10).status_code == 200
        assert server.terminate() == 0


def test_it_writes_the_same_texts_as_the_source_in_every_language(tmp_path: Path) -> None:
    file = tmp_path / "DSC_1.jpg"
    image = Image.open(io.BytesIO(picture()))
    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "Maker", "Camera"  # texts name a date only for photographs
    exif[0x8769] = {0x9003: "2024:05:17 12:00:00"}
    image.save(file, exif=exif)
    frames = [image.convert("P"), Image.new("P", image.size)]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:], duration=2700)
    codes = list(LANGUAGES)
    for start in range(0, len(codes), 10):
        asked = ("process", file, tmp_path / "moving.gif", "--json", "--languages", ",".join(codes[start : start + 10]))
        texts = []
        for name, command in (("frozen", (program(),)), ("source", SOURCE)):
            results = json.loads(run(command, tmp_path, *asked, "--out", tmp_path / f"{name}-{start}"))
            texts.append([result["translations"] for result in results])
        assert texts[0] == texts[1]
        assert len(texts[0][0]) == len(codes[start : start + 10])
        # the name of the month comes from CLDR; Thai uses another era
        assert all("2024" in each["seo_alt_text"] or each["language_code"] == "th" for each in texts[0][0])


def test_every_command_runs(tmp_path: Path) -> None:
    from imgproc_local.cli import COMMANDS

    for name in COMMANDS:
        assert "Usage:" in run((program(),), tmp_path, name, "--help")
    assert "smolvlm2-500m" in run((program(),), tmp_path, "models", "list")


def test_programs_started_from_it_find_their_own_libraries(tmp_path: Path) -> None:
    """A browser may fail to start if it finds the libraries of the frozen program first."""
    seen = tmp_path / "environment"
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\nenv > {seen}.part && mv {seen}.part {seen}\n")
    browser.chmod(0o755)
    import pty

    master, slave = pty.openpty()
    environment = {"BROWSER": f"{browser} %s", "PATH": os.environ["PATH"], "LD_LIBRARY_PATH": "/opt/own"}
    server = subprocess.Popen(
        [program(), "--data-dir", tmp_path / "data", "serve", "--port", "0"],
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        close_fds=True,
    )
    os.close(slave)
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while not seen.exists():
            assert time.monotonic() < deadline, f"no browser was started in {TIMEOUT_S} s"
            with pytest.raises(subprocess.TimeoutExpired):
                server.wait(0.05)
    finally:
        server.kill()
        server.wait()
        os.close(master)
    assert "LD_LIBRARY_PATH=/opt/own" in seen.read_text().splitlines()


# ---- on other processors ----


def emulated(processor: str) -> tuple[str | Path, ...]:
    """The program on an emulated processor.

    The bootloader restarts itself to set the path of its libraries, and the kernel would run the new process on the
    real processor. The variables below make it believe that it has been restarted already.
    """
    restarted = {
        "_PYI_ARCHIVE_FILE": program(),
        "_PYI_PARENT_PROCESS_LEVEL": "-1",
        "LD_LIBRARY_PATH": one_folder() / "_internal",
    }
    settings = [part for name, value in restarted.items() for part in ("-E", f"{name}={value}")]
    return ("qemu-x86_64", *settings, "-cpu", processor, program())


@needs_emulator
def test_it_does_everything_on_an_old_processor(tmp_path: Path) -> None:
    """Haswell is the oldest processor that has all instructions of llama.cpp."""
    run((program(),), tmp_path, "models", "import", TEXT, MMPROJ, "--name", "tiny")
    (tmp_path / "a.png").write_bytes(picture("PNG"))
    asked = ("process", tmp_path / "a.png", "--json", "--out", tmp_path / "o")
    (result,) = json.loads(run(emulated("Haswell"), tmp_path, *asked, timeout_s=EMULATED_TIMEOUT_S))
    assert result["translations"][0]["source"] == "vision"
    assert (result["status"], result["errors"]) == ("completed", [])


# ---- as a single file ----


def test_the_single_file_is_small_and_describes(tmp_path: Path) -> None:
    """The child process that tests the model runs from the folder that its parent unpacked."""
    assert one_file().stat().st_size <= MAX_ONE_FILE_BYTES
    run((one_file(),), tmp_path, "models", "import", TEXT, MMPROJ, "--name", "tiny")
    results_of_selftest = [*(tmp_path / "data" / "models" / "tiny").glob("selftest*")]
    (tmp_path / "a.png").write_bytes(picture("PNG"))
    results = json.loads(run((one_file(),), tmp_path, "process", tmp_path / "a.png", "--json", "--out", tmp_path / "o"))
    assert results[0]["translations"][0]["source"] == "vision"
    left = [*(tmp_path / "data" / "models" / "tiny").glob("selftest*")]
    assert left == results_of_selftest, "a second start tested the model again"
