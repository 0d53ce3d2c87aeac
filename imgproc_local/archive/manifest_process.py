"""A child process of the client that calls functions which load PyArrow, so that their memory is given back.

PyArrow and the rows that it holds would otherwise stay in the client for the whole run. The child uses neither network
nor credentials: the client reads and writes the stores, and gives it the content of parts and the names of local
files. What is sent is pickled, because both ends are the same program.
"""

from __future__ import annotations

import os
import pickle
import signal
import time
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from types import TracebackType
from typing import Any, TypeVar

from msgspec import Struct

from imgproc_local.domain.errors import ServiceError
from imgproc_local.system.piped_child import ChildEnded, PipedChild, Requests, program

T = TypeVar("T")

COMMAND = "archive-manifest"
CALL_S = 600.0
"""The longest that a call may take for each part that it handles. The first call includes the start of the child."""
POLL_S = 0.2
"""How soon Ctrl+C is noticed on Windows, where it does not interrupt a wait."""


class ManifestProcess:
    """The child, which is started by the first call and killed at the end of the block."""

    def __init__(self) -> None:
        self._child: PipedChild | None = None

    def __enter__(self) -> ManifestProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.kill()

    def call(self, function: Callable[..., T], *arguments: Any, parts: int = 1) -> T:
        """The result of a function at the top level of a module. `parts` is the number of parts that it handles.

        Raises: OSError, as the function does; ServiceError, if the child can't be started, ends early or takes too
        long; RuntimeError with the traceback of any other exception.
        """
        timeout_s = CALL_S * parts
        ends_s = time.monotonic() + timeout_s
        try:
            if self._child is None:
                self._child = PipedChild(program(COMMAND), os.environ)
            self._child.send(pickle.dumps((function, arguments)))
            while (frame := self._child.receive(POLL_S)) is None:
                if time.monotonic() > ends_s:
                    raise ServiceError(
                        f"Expected an answer from the process for the manifest within {timeout_s:,.0f} s. Run the same"
                        " command again to continue."
                    )
        except ChildEnded as ended:
            raise ServiceError(
                f"The process for the manifest ended early ({ended.cause}). Run the same command again to continue."
                f" {ended.last_error_line}".rstrip()
            ) from None
        except OSError as error:
            raise ServiceError(f"The process for the manifest can't be started ({error.strerror or error}).") from error
        answer: _Answer = pickle.loads(frame)  # noqa: S301 - from this program
        if answer.error is not None:
            raise answer.error
        result: T = answer.result
        return result


class _Answer(Struct, frozen=True):
    """What a function returned, or the exception that it raised."""

    result: Any = None
    error: Exception | None = None


def require_pyarrow() -> None:
    """Raises: ModuleNotFoundError, if PyArrow is not installed. It is not loaded here."""
    if find_spec("pyarrow") is None:
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")


def run() -> None:
    """Run the child: answer requests until the client kills it or ends."""
    requests = Requests()
    # the client decides when a run ends, also if a service manager sends its signal to all processes
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    requests.start_reading()
    while True:
        requests.answer(pickle.dumps(_answer(requests.next())))


def _answer(request: bytes) -> _Answer:
    try:
        import pyarrow

        # Arrow's own allocator returns memory late: for a million rows, 149 MB in one process instead of 111
        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
        function, arguments = pickle.loads(request)  # noqa: S301 - from this program
        return _Answer(function(*arguments))
    except OSError as error:
        return _Answer(error=error)
    except Exception:
        return _Answer(error=RuntimeError(f"In the process for the manifest:\n{traceback.format_exc()}"))
