"""Where large pictures lie while they are turned: libvips asks the variable TMPDIR, and gives up where that fails."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def use_temporary_folder(data_dir: Path) -> None:
    """Let this process use a temporary folder that can be written. Before the first picture."""
    if os.name == "posix":
        folder = temporary_folder(data_dir)
        if folder != Path(os.environ.get("TMPDIR", "/tmp")):  # noqa: S108 - libvips's default
            os.environ["TMPDIR"] = str(folder)


def temporary_folder(data_dir: Path) -> Path:
    """The system's where it can be written, else the data folder."""
    try:
        folder = Path(tempfile.gettempdir())
        # the last place that Python looks for is whatever folder the program was started in
        return data_dir if folder == Path.cwd() and folder not in _meant_for_it() else folder
    except FileNotFoundError:
        return data_dir


def _meant_for_it() -> set[Path]:
    """Folders that are temporary ones by name. Source: Python's documentation of `tempfile.tempdir`."""
    named = (os.environ.get(variable) for variable in ("TMPDIR", "TEMP", "TMP"))
    return {Path(folder) for folder in (*named, "/tmp", "/var/tmp", "/usr/tmp") if folder}  # noqa: S108
