"""The worker process: calls stage functions on pictures from strangers, with as few rights as the system allows.

The service (`workers.py`) sends one request at a time and receives one answer, both in MessagePack. It does not trust a
worker: it decodes an answer only as the type that it expects.

`workers.py` starts it through `__main__.py`. It ends when its parent, the service, ends or kills it.
"""

from __future__ import annotations

import faulthandler
import importlib
import logging
import os
import tempfile
import traceback
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from imgproc_local.domain.errors import ServiceError, StorageFailed
from imgproc_local.engine.stage import Output
from imgproc_local.system import memory, sandbox
from imgproc_local.system.piped_child import Requests
from imgproc_local.system.threads import started_threads

NICENESS = 5
"""Workers run at a lower priority than the process that answers requests."""
PRELOADED = ("codecs.optimize", "codecs.convert", "codecs.embedded", "engine.analyze")
"""Modules that are imported before the first request, because most requests need them."""
LIBRARY_THREADS = 8
"""About as many as libvips and the encoders start for one picture."""
MAX_LOG_ENTRIES, MAX_LOG_CHARACTERS = 20, 500
"""How much of what one request logs is sent to the service."""
RESULT_FILE = "result"
"""The name, in the worker's folder, of the file that holds `Output.data`."""

OUT_OF_MEMORY = "out_of_memory"
"""The error code of a `MemoryError`."""


# ---- the protocol ----


class Request(Struct, frozen=True, array_like=True):
    """Call `function`, given as `module:name`, with `argument`, whose type is that of the function's first parameter.

    A worker that has not answered after `exit_after_s` ends, so that it does not outlive a service that was killed. One
    that has answered ends `idle_s` later, if it gets no other request.
    """

    function: str
    argument: msgspec.Raw
    memory_limit_bytes: int
    exit_after_s: float
    idle_s: float


class LogEntry(Struct, frozen=True, array_like=True):
    """A log record of the function. `level` is a number of the module `logging`."""

    logger: str
    level: int
    message: str


class Answer(Struct, frozen=True, array_like=True):
    """What the function returned or raised.

    `result` is of the function's return type; `has_file` says that the data of an `Output` is in `RESULT_FILE`.
    `error_code` is that of a domain error, `OUT_OF_MEMORY`, or "" for any other exception, whose traceback is the
    message; None if nothing was raised. `peak_bytes` is the most memory that the worker held, 0 if unknown.
    """

    result: msgspec.Raw = msgspec.Raw(b"\xc0")  # nil
    has_file: bool = False
    error_code: str | None = None
    error_message: str = ""
    peak_bytes: int = 0
    logged: tuple[LogEntry, ...] = ()


class Ready(Struct, frozen=True, array_like=True):
    """The first message of a worker, before any request: the protections that this system lacks."""

    missing_protections: tuple[str, ...] = ()


def path_of(function: Callable[..., Any]) -> str:
    """The import path of a function at the top level of a module, as `module:name`."""
    return f"{function.__module__}:{function.__qualname__}"


def function_at(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def argument_type(function: Callable[..., Any]) -> Any:
    return next(iter(typing.get_type_hints(function).values()))


def return_type(function: Callable[..., Any]) -> Any:
    return typing.get_type_hints(function)["return"]


# ---- the process ----


def run(folder_name: str, parent_pid: int) -> None:
    """Answer requests until the parent ends. Files can be written only in the folder."""
    requests = Requests()
    folder = Path(folder_name)
    sandbox.depend_on_parent(parent_pid)
    sandbox.write_no_core_dumps()
    sandbox.lower_priority(NICENESS)
    # libvips writes large temporary pictures into TMPDIR; on Windows, Python reads TEMP
    os.environ.update(TMPDIR=str(folder), TEMP=str(folder), TMP=str(folder))
    tempfile.tempdir = str(folder)
    for module in PRELOADED:
        importlib.import_module(f"imgproc_local.{module}")
    missing = sandbox.restrict_to(folder)
    collector = _Collector()
    # raises an error where the system refuses threads: libraries would report a damaged picture instead
    started_threads(LIBRARY_THREADS, "imgproc-trial").shutdown()
    requests.start_reading()
    requests.answer(msgspec.msgpack.encode(Ready(missing)))
    while True:
        request = msgspec.msgpack.decode(requests.next(), type=Request)
        # the timer is a thread written in C: it ends the process even if Python code holds the interpreter lock
        faulthandler.dump_traceback_later(request.exit_after_s, exit=True)
        memory.reset_peak()
        sandbox.limit_data(request.memory_limit_bytes)
        answer = _answer(request, folder, collector)
        sandbox.limit_data(0)
        requests.answer(msgspec.msgpack.encode(answer))
        faulthandler.dump_traceback_later(request.idle_s, exit=True)


class _Collector(logging.Handler):
    """Collects what this package logs, for the log of the service."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.entries: list[LogEntry] = []
        logger = logging.getLogger("imgproc_local")
        logger.handlers = [self]
        logger.setLevel(logging.INFO)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.entries) < MAX_LOG_ENTRIES:
            self.entries.append(LogEntry(record.name, record.levelno, record.getMessage()[:MAX_LOG_CHARACTERS]))


def _answer(request: Request, folder: Path, collector: _Collector) -> Answer:
    collector.entries.clear()
    try:
        function = function_at(request.function)
        argument = msgspec.msgpack.decode(request.argument, type=argument_type(function))
        answer = _call(function, argument, folder)
    except ServiceError as error:
        answer = Answer(error_code=error.code, error_message=error.message)
    except MemoryError:
        answer = Answer(error_code=OUT_OF_MEMORY)
    except Exception:
        answer = Answer(error_code="", error_message=traceback.format_exc())
    return msgspec.structs.replace(answer, peak_bytes=memory.peak_resident_bytes(), logged=tuple(collector.entries))


def _call(function: Callable[..., Any], argument: object, folder: Path) -> Answer:
    result = function(argument, _continue)
    has_file = isinstance(result, Output) and result.data is not None
    if has_file:
        try:
            (folder / RESULT_FILE).write_bytes(result.data)
        except OSError as error:
            raise StorageFailed(f"The result of a stage can't be written ({error.strerror}).") from error
        result = msgspec.structs.replace(result, data=None)
    return Answer(result=msgspec.Raw(msgspec.msgpack.encode(result)), has_file=has_file)


def _continue() -> None:
    """The `check_stop` of a worker, which does nothing: the service kills a worker whose work is no longer wanted."""
