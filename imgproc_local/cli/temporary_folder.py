"""The folder for the temporary files of large pictures. libvips uses TMPDIR and fails where it can't write there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def use_temporary_folder(data_dir: Path) -> None:
    """Set TMPDIR for this process to a folder that can be written. Call it before the first picture is decoded."""
    if os.name == "posix":
        folder = temporary_folder(data_dir)
        if folder != Path(os.environ.get("TMPDIR", "/tmp")):  # noqa: S108 - libvips's default
            os.environ["TMPDIR"] = str(folder)


def temporary_folder(data_dir: Path) -> Path:
    """The system's temporary folder; the data folder if no temporary folder of the system can be written."""
    try:
        folder = Path(tempfile.gettempdir())
        # `tempfile` falls back to the current folder, where temporary files don't belong
        return data_dir if folder == Path.cwd() and folder not in _named_temporary() else folder
    except FileNotFoundError:
        return data_dir


def _named_temporary() -> set[Path]:
    """Folders that are meant for temporary files. Source: Python's documentation of `tempfile.tempdir`."""
    from_environment = (os.environ.get(variable) for variable in ("TMPDIR", "TEMP", "TMP"))
    return {Path(folder) for folder in (*from_environment, "/tmp", "/var/tmp", "/usr/tmp") if folder}  # noqa: S108
