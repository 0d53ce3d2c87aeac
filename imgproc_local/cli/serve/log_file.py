"""The server's log in the data folder: what the console shows, for those who have none, without keys and tokens.

Bounded: `MAX_BYTES` a file, `OLDER_FILES` besides the one that is written. Where the disk refuses, the console is told
once and the server goes on.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

import click

from imgproc_local.cli.doctor.redaction import without_secrets

FOLDER, FILE = "logs", "imgproc.log"
MAX_BYTES = 1_000_000
OLDER_FILES = 4
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

own = logging.getLogger("imgproc_local.life")
"""For lines that only the file gets: starts and stops."""
own.propagate = False
own.setLevel(logging.INFO)


def log_to_console() -> None:
    logging.basicConfig(level=logging.INFO, format=FORMAT)
    for chatty in ("uvicorn", "pyvips", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def write_log_file(data_dir: Path) -> None:
    """From here on, the log goes to the file too. Only for the owner of the data folder."""
    log_to_console()  # first: it does nothing where there is a handler already
    path = data_dir / FOLDER / FILE
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        handler = _LogFile(path, maxBytes=MAX_BYTES, backupCount=OLDER_FILES, encoding="utf-8", errors="replace")
    except OSError as error:
        click.echo(f"The log can't be written to {path} ({error.strerror}); it is shown here only.", err=True)
        return
    handler.setFormatter(_WithoutSecrets(FORMAT))
    logging.getLogger().addHandler(handler)
    own.addHandler(handler)


def last_lines(data_dir: Path, count: int) -> list[str]:
    """The newest lines of the log. Raises: OSError."""
    newest: deque[str] = deque(maxlen=count)
    for path in (data_dir / FOLDER / f"{FILE}.1", data_dir / FOLDER / FILE):
        if path.exists():
            with path.open(encoding="utf-8", errors="replace") as file:
                newest.extend(line.rstrip("\n") for line in file)
    return list(newest)


class _WithoutSecrets(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class _LogFile(RotatingFileHandler):
    """Readable by its owner alone."""

    _failed = False

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return os.fdopen(descriptor, "a", encoding=self.encoding, errors=self.errors)

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._failed:
            self._failed = True
            click.echo(f"The log {self.baseFilename} can't be written now; it is shown here only.", err=True)
