"""The bindings of llama.cpp, loaded once per process and without output to the terminal, and what interrupts it when a
stage times out or is cancelled."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from imgproc_local.domain.errors import CheckStop, ModelUnusable, how_to_install

NOT_INSTALLED = (
    f"llama-cpp-python is not installed. {how_to_install('vision')}"
    " This compiles llama.cpp, which needs a C++ compiler and takes two to eight minutes on two cores."
)


class Bindings:
    """The low-level modules `llama` and `mtmd` of llama-cpp-python.

    The `__init__` of their package is not run, because it would load NumPy. `errors` are the last error messages of
    llama.cpp; `gpu` says whether this build can use a GPU.

    Raises: ModelUnusable, if llama-cpp-python is not installed or can't run on this machine.
    """

    def __init__(self) -> None:
        spec = importlib.util.find_spec("llama_cpp")
        if spec is None or spec.submodule_search_locations is None:
            raise ModelUnusable(NOT_INSTALLED)
        # libgomp reads GOMP_SPINCOUNT when it is loaded. By default its idle threads poll for a long time; if other
        # work, such as the codecs, occupies a core, this delays the threads that compute: 30 s instead of 0.3 s were
        # measured. Polling 1000 times takes microseconds
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
        # otherwise ggml starts a debugger to print a backtrace when an assertion fails
        os.environ.setdefault("GGML_NO_BACKTRACE", "1")
        if "llama_cpp" not in sys.modules:
            package = ModuleType("llama_cpp")
            package.__path__ = list(spec.submodule_search_locations)
            package.__spec__ = spec
            sys.modules["llama_cpp"] = package
        try:
            import llama_cpp.llama_cpp as llama
            import llama_cpp.mtmd_cpp as mtmd
        except (ImportError, OSError, RuntimeError) as error:
            raise ModelUnusable(f"llama-cpp-python can't be loaded: {error}") from error
        # untyped: the annotations of the bindings are private classes of ctypes
        self.llama: Any = llama
        self.mtmd: Any = mtmd
        self.errors: deque[str] = deque(maxlen=20)
        # llama.cpp stores the pointer, so the callback must live as long as the process
        self._log = llama.llama_log_callback(self._record)
        llama.llama_log_set(self._log, ctypes.c_void_p(0))
        mtmd.mtmd_log_set(self._log, ctypes.c_void_p(0))
        mtmd.mtmd_helper_log_set(self._log, ctypes.c_void_p(0))
        llama.llama_backend_init()
        self.gpu = bool(llama.llama_supports_gpu_offload())
        # llama.cpp expects `bool (*)(void *)` and calls it for every operation of the graph; a Python function would
        # need the GIL each time. strlen can be called like that: it returns 0 for the flag "" and 1 for one character
        libc = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
        self.abort_callback = ctypes.cast(libc.strlen, llama.ggml_abort_callback)

    def _record(self, level: int, message: bytes, _: object) -> None:
        """The log callback of llama.cpp: stores error messages and drops all others."""
        if level == 4:  # GGML_LOG_LEVEL_ERROR in ggml.h
            self.errors.append(message.decode("utf-8", "replace").strip())

    def last_error(self, path: Path) -> str:
        """The last error message of llama.cpp that gives a reason, with `path` replaced by its file name."""
        messages = [line for line in self.errors if line and "failed to load model" not in line]
        return (messages[-1] if messages else "llama.cpp gave no reason").replace(str(path), path.name)


bindings = cache(Bindings)
"""The bindings of this process. Raises: ModelUnusable, if they can't be loaded here."""


class Interruption:
    """Whether the call of llama.cpp in progress must stop.

    `flag` is a C string: "" at first, and one character when it must stop. llama.cpp reads it between two operations.
    Invariant: it is the same string for all calls, because llama.cpp keeps its address.
    """

    def __init__(self) -> None:
        self.flag = ctypes.create_string_buffer(2)
        self._error: BaseException | None = None

    @contextmanager
    def watching(self, check_stop: CheckStop) -> Iterator[None]:
        """Call `check_stop` at once, and then repeatedly during the block, whose calls of llama.cpp read `flag`.

        Raises: what the first call of `check_stop` raises.
        """
        check_stop()
        self.flag[0] = b"\0"
        done = threading.Event()
        thread = threading.Thread(target=self._watch, args=(check_stop, done), name="vision-stop", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self._error = None

    def _watch(self, check_stop: CheckStop, done: threading.Event) -> None:
        while not done.wait(0.05):
            try:
                check_stop()
            except BaseException as error:  # raised again on the thread that does the work
                self._error = error
                self.flag[0] = b"\x01"
                return

    def may_continue(self) -> bool:
        """False after `check_stop` raised during the call in progress."""
        return self._error is None

    def raise_if_stopped(self) -> None:
        """Raises: what `check_stop` raised during the call in progress."""
        if self._error is not None:
            raise self._error
