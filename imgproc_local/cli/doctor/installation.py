"""The checks of the program, its libraries and the processor."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from imgproc_local.cli.doctor.check import Check
from imgproc_local.domain.image import READ_ONLY_FORMATS

OLDEST_SQLITE = (3, 37, 0)
"""The first version with STRICT tables. Source: SQLite's release history."""


def installation(*, frozen: bool) -> Iterator[Check]:
    """Check the program and its libraries. `frozen` is true in a PyInstaller build: pip can't change its libraries."""
    from imgproc_local import __version__

    yield Check("program", "ok", f"imgproc-local {__version__} in {Path(__file__).parents[2]}")
    yield Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield _sqlite(_advice("Use a newer Python.", frozen))
    yield _libvips(_advice("Reinstall it: pip install --force-reinstall pyvips pyvips-binary", frozen))
    yield _pillow(
        _advice("Reinstall it: pip install --force-reinstall pillow", frozen),
        _advice("Install the plugin: pip install pillow-avif-plugin", frozen),
    )
    compiler_advice = _advice("Install a C compiler and Python's headers, then install imgproc-local again.", frozen)
    yield _scoring(compiler_advice)
    yield _jpeg(compiler_advice)
    yield _webp(compiler_advice)
    yield _processor()


def _advice(for_python: str, frozen: bool) -> str:
    return "Download imgproc-local again and replace this installation." if frozen else for_python


def _sqlite(advice: str) -> Check:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        return Check("sqlite", "problem", f"{sqlite3.sqlite_version}; needs {oldest} or newer", advice)
    return Check("sqlite", "ok", sqlite3.sqlite_version)


def _libvips(advice: str) -> Check:
    """Encode a small image in every format, because libvips may list a format although its encoder is missing."""
    from imgproc_local.codecs.container.heic import HOW_TO_INSTALL, can_decode
    from imgproc_local.codecs.picture.formats import FORMATS

    try:
        import pyvips
    except (ImportError, OSError) as error:
        return Check("libvips", "problem", f"can't be loaded ({error})", advice)
    version = ".".join(str(pyvips.version(part)) for part in range(3))
    writable, missing = [], []
    for file_format, row in FORMATS.items():
        if file_format in READ_ONLY_FORMATS:
            continue
        try:
            pyvips.Image.black(16, 16, bands=3).write_to_buffer(f".{row.extensions[0]}")
            writable.append(row.name)
        except pyvips.Error:
            missing.append(row.name)
    also_reads = "TIFF and HEIC" if can_decode() else "TIFF, not HEIC"
    detail = f"{version}, pyvips {pyvips.__version__}; writes {', '.join(writable) or 'no format'}; reads {also_reads}"
    if missing:
        return Check("libvips", "problem", f"{detail}; can't write {', '.join(missing)}", advice)
    if not pyvips.API_mode:
        return Check("libvips", "warning", f"{detail}; pyvips runs in ABI mode, which is slow", advice)
    return Check("libvips", "ok", detail, None if can_decode() else HOW_TO_INSTALL)


def _pillow(advice: str, avif_advice: str) -> Check:
    try:
        from PIL import __version__, features
    except (ImportError, OSError) as error:
        return Check("pillow", "problem", f"can't be loaded ({error})", advice)
    if features.check("avif"):
        return Check("pillow", "ok", f"{__version__}, with AVIF")
    try:
        import pillow_avif  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return Check("pillow", "problem", f"{__version__}, without AVIF", avif_advice)
    return Check("pillow", "ok", f"{__version__}, with AVIF by pillow-avif-plugin {pillow_avif.__version__}")


def _scoring(advice: str) -> Check:
    """Which implementation of SSIMULACRA 2.1 the quality search uses."""
    from imgproc_local.codecs.quality import ssimulacra2 as quality

    if quality.backend() == "c":
        return Check("scoring", "ok", "SSIMULACRA 2.1 by the C extension")
    return Check("scoring", "warning", "SSIMULACRA 2.1 by libvips, ten times slower than the C extension", advice)


def _jpeg(advice: str) -> Check:
    """Whether all packages that make JPEG files smaller are installed."""
    from imgproc_local.codecs.jpeg import encoders

    missing = encoders.missing_packages()
    if not missing:
        return Check("jpeg", "ok", "jpegli, chroma preserved by the C extension, scans optimized by mozjpeg")
    return Check("jpeg", "warning", f"without {', '.join(missing)}: files are a few percent larger", advice)


def _webp(advice: str) -> Check:
    """Which implementation prepares the chroma of lossy WebP files."""
    from imgproc_local.codecs import webp_still

    if webp_still.has_chroma_extension():
        return Check("webp", "ok", "chroma prepared by the C extension")
    return Check("webp", "warning", "chroma prepared by libwebp, four times slower than by the C extension", advice)


def _processor() -> Check:
    """Whether llama.cpp can run vision models on this processor."""
    from imgproc_local.vision.llm.cpu import processor_problem

    problem = processor_problem()
    if problem is not None:
        return Check("processor", "warning", problem, "Without a vision model, pictures are described from metadata.")
    return Check("processor", "ok", f"{platform.machine()}, can run vision models")
