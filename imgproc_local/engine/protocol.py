"""What the service and its worker processes send to each other: one request, one answer, both in MessagePack.

A worker is not trusted: the service decodes an answer only as the type that it expects.
"""

from __future__ import annotations

import importlib
import typing
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

RESULT_FILE = "result"
"""The name, in the worker's folder, of the file that holds `Output.data`."""

OUT_OF_MEMORY = "out_of_memory"
"""The error code of a `MemoryError`."""


class Request(Struct, frozen=True, array_like=True):
    """Call `function`, given as `module:name`, with `argument`, whose type is that of the function's first parameter.

    A worker that has not answered after `exit_after_s` ends, so that it does not outlive a service that was killed.
    """

    function: str
    argument: msgspec.Raw
    memory_limit_bytes: int
    exit_after_s: float


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
