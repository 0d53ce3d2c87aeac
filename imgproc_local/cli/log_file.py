"""The logs: on the console, and in the data folder the log file of the server and the audit log.

The log file is for servers without a console. Keys and tokens are removed from all messages. The size of both files is
bounded, with `_OLDER_FILES` rotated files each. If one can't be written, that is printed to the console once, and the
program continues.
"""

from __future__ import annotations

import logging
import re
import time
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

import click

from imgproc_local.storage.accounts import audit, audit_log, request_id
from imgproc_local.system.files import open_own_file

_FOLDER, _LOG_FILE, _AUDIT_FILE = "logs", "imgproc.log", "audit.log"
_MAX_BYTES = 1_000_000
_AUDIT_MAX_BYTES = 10_000_000
"""With the rotated files, enough for about 250,000 requests."""
_OLDER_FILES = 4
_NO_ROTATION = 0
"""The value of `max_bytes` that disables rotation. Source: Python's documentation of `RotatingFileHandler`."""
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_AUDIT_FORMAT = "%(asctime)s %(message)s"

_WINDOW_S = 60.0
_MAX_RECORDS, _MAX_TRACEBACKS = 30, 5
"""The most messages of one kind that a log has in `_WINDOW_S` seconds, and the most that have a long traceback."""

_KEY = re.compile(r"\bimgp_[A-Za-z0-9]+")
_TOKEN = re.compile(r"(?i)\b(token=|bearer |basic |hf_)[\w.~+/=-]+")

lifecycle = logging.getLogger("imgproc_local.lifecycle")
"""Logs starts and stops to the log file only, because `serve` prints messages of its own to the console."""
lifecycle.propagate = False
lifecycle.setLevel(logging.INFO)


def without_secrets(text: str) -> str:
    """`text` with API keys and tokens replaced by `…`."""
    return _TOKEN.sub(r"\1…", _KEY.sub("imgp_…", text))


def _log_to_console() -> None:
    """Log to standard error, unless the root logger already has a handler. Silence the `info` messages of libraries."""
    root = logging.getLogger()
    if not root.handlers:
        console = logging.StreamHandler()
        console.setFormatter(_Line(FORMAT))
        console.addFilter(_FloodLimit())
        root.addHandler(console)
        root.setLevel(logging.INFO)
    for verbose in ("uvicorn", "pyvips", "httpx", "httpx2"):
        logging.getLogger(verbose).setLevel(logging.WARNING)


def log_to_file(data_dir: Path, max_bytes: int = _MAX_BYTES) -> None:
    """Log to the console and to the log file.

    Only the process that holds the lock of the data folder may call this, because the file is rotated.
    """
    _log_to_console()  # first, because it adds no handler once the root logger has the file's
    if handler := _opened(data_dir, max_bytes, _LOG_FILE):
        handler.addFilter(_FloodLimit())
        logging.getLogger().addHandler(handler)
        lifecycle.addHandler(handler)


def audit_to_file(data_dir: Path) -> None:
    """Write the audit log to its file. The caller holds the lock of the data folder, as for `log_to_file`."""
    if handler := _opened(data_dir, _AUDIT_MAX_BYTES, _AUDIT_FILE):
        audit_log.addHandler(handler)


def log_act(data_dir: Path, act: str, **facts: str | int) -> None:
    """Append an act of this command to the audit log. The process does not hold the lock of the data folder.

    If the file can't be opened, that is printed, and the act is not stored.
    """
    if handler := _opened(data_dir, _NO_ROTATION, _AUDIT_FILE):
        audit_log.addHandler(handler)
        try:
            audit(act, **facts, by="command")
        finally:
            audit_log.removeHandler(handler)
            handler.close()


def log_refused_start(data_dir: Path, reason: str) -> Path:
    """Append why `serve` did not start. Returns the log file. Raises: OSError, if it can't be opened.

    A start from a desktop or at login has no terminal that would show the reason. This process does not hold the lock
    of the data folder, so it appends one line and does not rotate the file.
    """
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    handler = _open_log(data_dir, _NO_ROTATION, _LOG_FILE)
    handler.handle(lifecycle.makeRecord(lifecycle.name, logging.ERROR, "", 0, "not started: %s", (reason,), None))
    handler.close()
    return data_dir / _FOLDER / _LOG_FILE


def _opened(data_dir: Path, max_bytes: int, name: str) -> logging.Handler | None:
    """The handler of a log in the data folder. If the file can't be opened, that is printed, and there is none."""
    try:
        return _open_log(data_dir, max_bytes, name)
    except OSError as error:
        path = data_dir / _FOLDER / name
        click.echo(f"The log file {path} can't be written ({error.strerror}): lines will be missing there.", err=True)
        return None


def _open_log(data_dir: Path, max_bytes: int, name: str) -> logging.Handler:
    """Raises: OSError."""
    path = data_dir / _FOLDER / name
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handler = _PrivateLogFile(path, maxBytes=max_bytes, backupCount=_OLDER_FILES, encoding="utf-8", errors="replace")
    handler.setFormatter(_Line(FORMAT) if name == _LOG_FILE else _Utc(_AUDIT_FORMAT))
    return handler


class _FloodLimit(logging.Filter):
    """Limits how many messages of one kind a handler writes, so that clients can't fill the disk with log lines.

    The kind is the line of code and the type of the exception. The last message that is written says that it is.
    """

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[tuple[str, int, type[BaseException] | None], tuple[float, int]] = {}
        """When the window of each kind began, and how many messages it had."""

    def filter(self, record: logging.LogRecord) -> bool:
        exception = record.exc_info[0] if record.exc_info else None
        kind, now_s = (record.pathname, record.lineno, exception), time.monotonic()
        began_s, count = self._counts.get(kind, (now_s, 0))
        if now_s - began_s >= _WINDOW_S:
            began_s, count = now_s, 0
        self._counts[kind] = began_s, count + 1
        most = _MAX_TRACEBACKS if exception else _MAX_RECORDS
        record.is_last_of_kind = count + 1 == most
        return count < most


class _Utc(logging.Formatter):
    """Writes times in RFC 3339, in UTC."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


class _Line(logging.Formatter):
    """Adds what `_FloodLimit` found, and the identifier of the current request, if there is one. Removes secrets."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        message, identifier = super().formatMessage(record), request_id.get()
        if getattr(record, "is_last_of_kind", False):
            message += f" (more messages of this kind are not logged within {_WINDOW_S:g} seconds)"
        return message + (f" (request {identifier})" if identifier else "")

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class _PrivateLogFile(RotatingFileHandler):
    """A log file that only its owner can read, and that reports the first failed write to the console."""

    _failure_reported = False

    def _open(self) -> TextIOWrapper:
        file = open_own_file(Path(self.baseFilename), "ab", permissions=0o600)
        return TextIOWrapper(file, encoding=self.encoding, errors=self.errors)

    def emit(self, record: logging.LogRecord) -> None:
        # another thread may log meanwhile, which would open the file again; mypy does not know the attribute
        if not getattr(self, "_closed", False):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._failure_reported:
            self._failure_reported = True
            click.echo(f"{self.baseFilename} can't be written now: lines will be missing there.", err=True)
