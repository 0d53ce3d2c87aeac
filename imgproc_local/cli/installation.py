"""The checks of `doctor` that need no settings: the program and its libraries."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from imgproc_local.cli.verify import Check
from imgproc_local.domain.image import READ_ONLY_FORMATS

OLDEST_SQLITE = (3, 37, 0)
"""The first version with STRICT tables. Source: SQLite's release history."""


def installation(*, frozen: bool) -> Iterator[Check]:
    """Check the program and its libraries. `frozen` is true in a PyInstaller build: pip can't change its libraries."""
    from imgproc_local import __version__

    def advice(for_python: str) -> str:
        return "Download imgproc-local again and replace this installation." if frozen else for_python

    machine = f"{platform.system()} {platform.machine()}"
    yield Check("program", "ok", f"imgproc-local {__version__} in {Path(__file__).parents[1]}")
    yield Check("python", "ok", f"{platform.python_version()} on {machine}")
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = f"{sqlite3.sqlite_version}; needs {'.'.join(map(str, OLDEST_SQLITE))} or newer"
        yield Check("sqlite", "problem", needed, advice("Use a newer Python."))
    else:
        yield Check("sqlite", "ok", sqlite3.sqlite_version)
    yield _libvips(advice("Reinstall it: pip install --force-reinstall pyvips pyvips-binary"))
    yield _pillow(advice("Reinstall it: pip install --force-reinstall pillow pillow-avif-plugin"))
    yield _extensions(
        advice("Install a C compiler and Python's headers, then install imgproc-local again with all its packages.")
    )


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
    for row in (row for file_format, row in FORMATS.items() if file_format not in READ_ONLY_FORMATS):
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


def _pillow(advice: str) -> Check:
    try:
        from PIL import __version__, features
    except (ImportError, OSError) as error:
        return Check("pillow", "problem", f"can't be loaded ({error})", advice)
    if not features.check("avif"):
        try:
            import pillow_avif  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
        except ImportError:
            return Check("pillow", "problem", f"{__version__}, without AVIF", advice)
    return Check("pillow", "ok", f"{__version__}, with AVIF")


def _extensions(advice: str) -> Check:
    """Whether everything is installed without which pictures are processed, but slower or to larger files."""
    from imgproc_local.codecs import webp_still
    from imgproc_local.codecs.jpeg import encoders
    from imgproc_local.codecs.quality import ssimulacra2

    lacking = []
    if ssimulacra2.backend() != "c":
        lacking.append("the C extension that scores results (libvips takes ten times as long)")
    if not webp_still.has_chroma_extension():
        lacking.append("the C extension that prepares WebP (libwebp takes four times as long)")
    lacking += [f"{package} (JPEG files are a few percent larger)" for package in encoders.missing_packages()]
    if lacking:
        return Check("encoders", "warning", f"without {', '.join(lacking)}", advice)
    return Check("encoders", "ok", "jpegli, mozjpeg and the C extensions are installed")
