"""Fuzzing the C extensions, compiled with AddressSanitizer and UndefinedBehaviorSanitizer.

`python -m tests.fuzz.native --seconds 60 --seed 1` compiles them with gcc or clang into a temporary folder and tries
mutated JPEGs on the decoder of `_requantize.c`, and pictures of odd sizes on the others. The first error of a sanitizer
ends the run, shows its report and leaves the input in the folder `--findings`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.machinery
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import mutated
from tests.support import pictures

ROOT = Path(__file__).parents[2]
FLAGS = ("-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SANITIZER_OPTIONS = {
    # Python and Pillow keep memory until their end; the extensions must take a refusal of memory
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
REFUSED = (ValueError, MemoryError, OverflowError)
MAX_SIDE_PX = 48
Keep = Callable[[bytes], object]
"""Stores the input before it is run."""


def compiler() -> str | None:
    """The path of a compiler with sanitizers; None if there is none."""
    return shutil.which("gcc") or shutil.which("clang")


@cache
def jpeg(size: tuple[int, int], subsampling: int, option: str | None) -> bytes:
    options = {option: 3 if option == "restart_marker_blocks" else True} if option else {}
    return pictures.encoded(pictures.photo(*size), "JPEG", quality=85, subsampling=subsampling, **options)


def run_requantize(module: Any, source: random.Random, keep: Keep) -> None:
    """A mutated JPEG, quantisation steps or none, and an orientation."""
    size = source.choice(((16, 16), (17, 9), (40, 24), (8, 33)))
    orientation = source.choice((1, 1, 2, 3, 4, 5, 6, 7, 8))
    option = source.choice((None, "progressive", "progressive", "restart_marker_blocks", "optimize"))
    data = jpeg(size, source.choice((0, 1, 2)), option)
    # an unchanged one sometimes, so that what follows the decoder is reached
    data = mutated(data, source, (jpeg(size, 2, None),)) if source.random() < 0.98 else data
    luma, chroma = (source.choice((b"", source.randbytes(64), bytes([source.randrange(1, 256)] * 64))) for _ in "12")
    keep(bytes((orientation, len(luma), len(chroma))) + luma + chroma + data)
    module.requantized(data, luma, chroma, orientation)


def pixels(source: random.Random, keep: Keep) -> tuple[bytes, int, int, int]:
    """A picture of any size and number of bands, also with a buffer of a wrong length."""
    width, height = source.randrange(-1, MAX_SIDE_PX), source.randrange(-1, MAX_SIDE_PX)
    if source.random() < 0.02:
        width, height = source.choice(((1, 2_000), (2_000, 3), (17_000, 3)))
    bands = source.choice((0, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 5))
    size = max(0, width * height * bands) + source.choice((0, 0, 0, 0, -1, 1, 100))
    keep(repr((width, height, bands, size)).encode())
    return source.randbytes(max(0, size)), width, height, bands


def run_ssimulacra2(module: Any, source: random.Random, keep: Keep) -> None:
    data, *size = pixels(source, keep)
    reference = module.Reference(data, *size, source.choice((0, 255, 128)))
    reference.norms(data)
    with contextlib.suppress(ValueError):
        reference.norms(data[: source.randrange(len(data) + 1)])


def run_webp_chroma(module: Any, source: random.Random, keep: Keep) -> None:
    module.adjusted(*pixels(source, keep))


EXTENSIONS: dict[str, Callable[[Any, random.Random, Keep], None]] = {
    "jpeg/_requantize.c": run_requantize,
    "quality/_ssimulacra2.c": run_ssimulacra2,
    "_webp_chroma.c": run_webp_chroma,
}


def compiled(source: Path, folder: Path) -> Path:
    """Compile an extension into `folder`. Raises: CalledProcessError."""
    out = folder / f"{source.stem}.so"
    include = sysconfig.get_paths()["include"]
    options = ["-std=c11", "-shared", "-fPIC", *FLAGS, f"-I{include}", str(source), "-o", str(out), "-lm"]
    subprocess.run([str(compiler()), *options], check=True, capture_output=True, text=True)
    return out


def loaded(library: Path) -> Any:
    loader = importlib.machinery.ExtensionFileLoader(library.stem, str(library))
    spec = importlib.util.spec_from_file_location(library.stem, library, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def fuzz(folder: Path, seconds: float, seed: int) -> None:
    """The child: runs until the time is over, with the input in a file before each execution."""
    for name, run_one in EXTENSIONS.items():
        module, source = loaded(folder / f"{Path(name).stem}.so"), random.Random(seed)
        executions = refused = 0
        end_s = time.monotonic() + seconds / len(EXTENSIONS)
        while time.monotonic() < end_s:
            executions += 1
            try:
                run_one(module, source, (folder / "last-input").write_bytes)
            except REFUSED:
                refused += 1
        print(
            f"{name}: seed {seed}: {executions:,} executions, {executions - refused:,} accepted, 0 errors", flush=True
        )


def run(seconds: float, seed: int, findings: Path) -> int:
    """Compile, start the child under the sanitizers, and return its exit status."""
    runtime = subprocess.run(
        [str(compiler()), "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="imgproc-local-native-") as name:
        folder = Path(name)
        for source in EXTENSIONS:
            compiled(ROOT / "imgproc_local/codecs" / source, folder)
        command = [sys.executable, "-m", "tests.fuzz.native", "--child", name]
        command += ["--seconds", str(seconds), "--seed", str(seed)]
        environment = {**os.environ, **SANITIZER_OPTIONS, "LD_PRELOAD": runtime}
        ended = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        if ended.returncode:
            findings.mkdir(parents=True, exist_ok=True)
            print("input:", shutil.copy(folder / "last-input", findings / f"native-{seed}"))
    return ended.returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.native", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--findings", type=Path, default=Path(tempfile.gettempdir()) / "imgproc-local-findings")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        fuzz(options.child, options.seconds, options.seed)
        return 0
    if compiler() is None:
        sys.exit("A C compiler with sanitizers is expected: install gcc or clang.")
    return run(options.seconds, options.seed, options.findings)


if __name__ == "__main__":
    sys.exit(main())
