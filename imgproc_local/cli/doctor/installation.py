"""What `doctor` says of the program and the libraries it was installed with."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from imgproc_local.cli.doctor.check import Check

OLDEST_SQLITE = (3, 37, 0)
"""The first with STRICT tables."""


def installation() -> Iterator[Check]:
    from imgproc_local import __version__

    yield Check("program", "ok", f"imgproc-local {__version__} in {Path(__file__).parents[2]}")
    yield Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield _sqlite()
    yield _libvips()
    yield _pillow()
    yield _scoring()
    yield _jpeg()
    yield _processor()


def _sqlite() -> Check:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        return Check(
            "sqlite", "problem", f"{sqlite3.sqlite_version}; {oldest} or newer is needed", "Use a newer Python."
        )
    return Check("sqlite", "ok", sqlite3.sqlite_version)


def _libvips() -> Check:
    """Writes a tiny picture in every format: a library may list a format and still lack its encoder."""
    from imgproc_local.domain.image import TRAITS

    advice = "Install it again: pip install --force-reinstall pyvips pyvips-binary"
    try:
        import pyvips
    except (ImportError, OSError) as error:
        return Check("libvips", "problem", f"It can't be loaded ({error}).", advice)
    version = ".".join(str(pyvips.version(part)) for part in range(3))
    works, missing = [], []
    for traits in TRAITS.values():
        try:
            pyvips.Image.black(16, 16, bands=3).write_to_buffer(f".{traits.extensions[0]}")
            works.append(traits.name)
        except pyvips.Error:
            missing.append(traits.name)
    detail = f"{version}, pyvips {pyvips.__version__}; writes {', '.join(works) or 'nothing'}"
    if missing:
        return Check("libvips", "problem", f"{detail}; can't write {', '.join(missing)}", advice)
    if not pyvips.API_mode:
        return Check("libvips", "warning", f"{detail}; in its slow ABI mode", advice)
    return Check("libvips", "ok", detail)


def _pillow() -> Check:
    advice = "Install it again: pip install --force-reinstall pillow"
    try:
        from PIL import __version__, features
    except (ImportError, OSError) as error:
        return Check("pillow", "problem", f"It can't be loaded ({error}).", advice)
    if features.check("avif"):
        return Check("pillow", "ok", f"{__version__}, with AVIF")
    try:
        import pillow_avif  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return Check("pillow", "problem", f"{__version__}, without AVIF", "pip install pillow-avif-plugin")
    return Check("pillow", "ok", f"{__version__}, AVIF through pillow-avif-plugin {pillow_avif.__version__}")


def _scoring() -> Check:
    """What scores pictures while their quality is searched."""
    from imgproc_local.codecs.quality import ssimulacra2 as quality

    if quality.backend() == "c":
        return Check("scoring", "ok", "SSIMULACRA 2.1 by the C extension")
    advice = "Install a C compiler and Python's headers, then install the program again."
    return Check("scoring", "warning", "SSIMULACRA 2.1 by libvips, ten times slower", advice)


def _jpeg() -> Check:
    """What makes JPEGs smallest."""
    from imgproc_local.codecs.jpeg import encoders

    missing = encoders.missing()
    if not missing:
        return Check("jpeg", "ok", "jpegli, stored colours kept by the C extension, scans packed by mozjpeg")
    advice = "Install a C compiler and Python's headers, then install the program again."
    return Check("jpeg", "warning", f"without {', '.join(missing)}: files are some percent larger", advice)


def _processor() -> Check:
    """Whether vision models can run here."""
    from imgproc_local.vision.llm.cpu import processor_problem

    problem = processor_problem()
    if problem is not None:
        return Check("processor", "warning", problem, "Without one, texts tell what files say for certain.")
    return Check("processor", "ok", f"{platform.machine()}, can run vision models")
