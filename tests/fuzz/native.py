"""Fuzzing the C extensions, compiled with AddressSanitizer and UndefinedBehaviorSanitizer.

`python -m tests.fuzz.native --seconds 60 --seed 1` compiles them with gcc or clang into a temporary folder and tries
mutated JPEGs on the decoder of `_splice.c`, and pictures of odd sizes on the others. The first error of a sanitizer
ends the run, shows its report and leaves the input in the folder `--findings`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.machinery
import importlib.util
import os
import random
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.fuzz.mutate import mutated
from tests.support import pictures

ROOT = Path(__file__).parents[2]
SOURCES = {
    "_splice": ROOT / "imgproc_local/codecs/jpeg/_splice.c",
    "_ssimulacra2": ROOT / "imgproc_local/codecs/quality/_ssimulacra2.c",
    "_webp_chroma": ROOT / "imgproc_local/codecs/_webp_chroma.c",
}
FLAGS = ("-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SANITIZER_OPTIONS = {
    # Python and Pillow keep memory until their end; the extensions must take a refusal of memory
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
MAX_SIDE_PX = 48


def compiler() -> str | None:
    """The path of a compiler with sanitizers; None if there is none."""
    return shutil.which("gcc") or shutil.which("clang")


def compiled(folder: Path) -> None:
    """Compiles the extensions into `folder`. Raises: CalledProcessError."""
    include = sysconfig.get_paths()["include"]
    for name, source in SOURCES.items():
        out = folder / f"{name}.so"
        command = [str(compiler()), "-std=c11", "-shared", "-fPIC", *FLAGS, f"-I{include}", str(source), "-o", str(out)]
        subprocess.run([*command, "-lm"], check=True, capture_output=True, text=True)


def loaded(folder: Path, name: str) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(name, str(folder / f"{name}.so"))
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.so", loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@cache
def jpeg(size: tuple[int, int], subsampling: int, option: str | None) -> bytes:
    options = {option: 3 if option == "restart_marker_blocks" else True} if option else {}
    return pictures.encoded(pictures.photo(*size), "JPEG", quality=85, subsampling=subsampling, **options)


def splice_input(source: random.Random) -> tuple[bytes, bytes, int]:
    """Brightness of one JPEG, colour of a mutated one of the same size, and an orientation."""
    width, height = source.choice(((16, 16), (17, 9), (40, 24), (8, 33)))
    luma = jpeg((width, height), 2, None)
    orientation = source.choice((1, 1, 2, 3, 4, 5, 6, 7, 8))
    size = (height, width) if orientation >= 5 else (width, height)
    option = source.choice((None, "progressive", "progressive", "restart_marker_blocks", "optimize"))
    chroma = jpeg(size, source.choice((0, 1, 2)), option)
    if source.random() < 0.1:
        luma = mutated(luma, source, (chroma,))
    # an unchanged one sometimes, so that what follows the decoder is reached
    return luma, mutated(chroma, source, (luma,)) if source.random() < 0.98 else chroma, orientation


def run_splice(module: Any, source: random.Random, keep: Callable[[bytes], None]) -> bool:
    luma, chroma, orientation = splice_input(source)
    keep(bytes((orientation,)) + len(luma).to_bytes(4, "big") + luma + chroma)
    try:
        module.spliced(luma, chroma, orientation)
    except ValueError:
        return False
    return True


def pixels_input(source: random.Random) -> tuple[int, int, int, bytes]:
    """A picture of any size and number of bands, also with a buffer of a wrong length."""
    width, height = source.randrange(-1, MAX_SIDE_PX), source.randrange(-1, MAX_SIDE_PX)
    if source.random() < 0.02:
        width, height = source.choice(((1, 2_000), (2_000, 3), (17_000, 3)))
    bands = source.choice((0, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 5))
    size = max(0, width * height * bands) + source.choice((0, 0, 0, 0, -1, 1, 100))
    return width, height, bands, source.randbytes(max(0, size))


def run_ssimulacra2(module: Any, source: random.Random, keep: Callable[[bytes], None]) -> bool:
    width, height, bands, pixels = pixels_input(source)
    keep(repr((width, height, bands, len(pixels))).encode())
    try:
        reference = module.Reference(pixels, width, height, bands, source.choice((0, 255, 128)))
        reference.norms(pixels)
    except (ValueError, MemoryError, OverflowError):
        return False
    with contextlib.suppress(ValueError):
        reference.norms(pixels[: source.randrange(len(pixels) + 1)])
    return True


def run_webp_chroma(module: Any, source: random.Random, keep: Callable[[bytes], None]) -> bool:
    width, height, bands, pixels = pixels_input(source)
    keep(repr((width, height, bands, len(pixels))).encode())
    try:
        module.adjusted(pixels, width, height, bands)
    except ValueError:
        return False
    return True


def fuzz(folder: Path, seconds: float, seed: int) -> None:
    """The child: runs until the time is over, with the input in a file before each execution."""
    runs = {"_splice": run_splice, "_ssimulacra2": run_ssimulacra2, "_webp_chroma": run_webp_chroma}
    last = folder / "last-input"
    for name, run in runs.items():
        module, source = loaded(folder, name), random.Random(seed)
        executions = accepted = 0
        end_s = time.monotonic() + seconds / len(runs)
        slowest_s = 0.0
        while time.monotonic() < end_s:
            started_s = time.process_time()
            accepted += run(module, source, last.write_bytes)
            slowest_s = max(slowest_s, time.process_time() - started_s)
            executions += 1
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"{name}.c: seed {seed}, sanitizers: {executions:,} executions, {accepted:,} accepted, 0 errors,"
            f" slowest {slowest_s:.2f} s with its making, peak memory {peak} MiB, CPU {time.process_time():.0f} s",
            flush=True,
        )


def run(seconds: float, seed: int, findings: Path) -> int:
    """Compiles, starts the child under the sanitizers, and returns its exit status."""
    runtime = subprocess.run(
        [str(compiler()), "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="imgproc-local-native-") as name:
        folder = Path(name)
        compiled(folder)
        environment = {**os.environ, **SANITIZER_OPTIONS, "LD_PRELOAD": runtime}
        command = [sys.executable, "-m", "tests.fuzz.native", "--child", str(folder)]
        command += ["--seconds", str(seconds), "--seed", str(seed)]
        ended = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        if ended.returncode:
            findings.mkdir(parents=True, exist_ok=True)
            print("input:", shutil.copy(folder / "last-input", findings / f"native-{seed}"))
    return ended.returncode


def main(arguments: Any = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.native", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--findings", type=Path, default=Path(tempfile.gettempdir()) / "imgproc-local-findings")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child is not None:
        fuzz(options.child, options.seconds, options.seed)
        return 0
    if compiler() is None:
        sys.exit("A C compiler with sanitizers is expected: install gcc or clang.")
    return run(options.seconds, options.seed, options.findings)


if __name__ == "__main__":
    sys.exit(main())
