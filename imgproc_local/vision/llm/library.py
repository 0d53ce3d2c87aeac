"""llama.cpp's bindings, loaded once and quietly, and what of the machine decides whether and how they run."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections import deque
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.llm.cpu import processor_problem

SPINS = "1000"
"""How often a thread looks whether the others are done before it sleeps: some microseconds."""
ERROR_LEVEL = 4
"""Source: ggml.h, `enum ggml_log_level`."""

NOT_INSTALLED = (
    "llama-cpp-python is not installed: install imgproc-local[vision]. "
    "This compiles llama.cpp, which needs a C++ compiler and takes about four minutes."
)


class Library:
    """The bindings, imported without their package's `__init__`, which would load NumPy and 60 modules more."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("llama_cpp")
        if spec is None or spec.submodule_search_locations is None:
            raise ModelUnusable(NOT_INSTALLED)
        if problem := processor_problem():
            raise ModelUnusable(problem)
        # read by libgomp when it is loaded. Threads that spin while they wait for one another starve where other work,
        # our own codecs for instance, takes a core: 30 s instead of 0.3 s were seen
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
        # a failed assertion is told as it is, and starts no debugger
        os.environ.setdefault("GGML_NO_BACKTRACE", "1")
        if "llama_cpp" not in sys.modules:
            package = ModuleType("llama_cpp")
            package.__path__ = list(spec.submodule_search_locations)
            package.__spec__ = spec
            sys.modules["llama_cpp"] = package
        try:
            import llama_cpp.llama_cpp as low
            import llama_cpp.mtmd_cpp as mtmd
        except (ImportError, OSError, RuntimeError) as error:
            raise ModelUnusable(f"llama-cpp-python can't be loaded: {error}") from error
        # untyped: the bindings' annotations are of ctypes' private classes
        self.low: Any = low
        self.mtmd: Any = mtmd
        self.told: deque[str] = deque(maxlen=20)
        # llama.cpp keeps the pointer: it must live as long as the process
        self._log = low.llama_log_callback(self._hear)
        low.llama_log_set(self._log, ctypes.c_void_p(0))
        mtmd.mtmd_log_set(self._log, ctypes.c_void_p(0))
        mtmd.mtmd_helper_log_set(self._log, ctypes.c_void_p(0))
        low.llama_backend_init()
        self.gpu = bool(low.llama_supports_gpu_offload())
        # `bool (*)(void *)` that never needs the interpreter: strlen of "" is false, of one character true
        libc = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
        self.is_set = ctypes.cast(libc.strlen, low.ggml_abort_callback)

    def _hear(self, level: int, message: bytes, _: object) -> None:
        if level == ERROR_LEVEL:
            self.told.append(message.decode("utf-8", "replace").strip())

    def reason(self, path: Path) -> str:
        """What llama.cpp said last, without the folder it said it of."""
        said = [line for line in self.told if line and "failed to load model" not in line]
        return (said[-1] if said else "llama.cpp gave no reason").replace(str(path), path.name)


@cache
def library() -> Library:
    """The one library of this process. Raises `ModelUnusable` where it is not installed or can't run here."""
    return Library()


def physical_cores() -> int:
    """Cores that this process may use, two threads of one core counted once."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = set()
    for cpu in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings.read_text() if siblings.exists() else str(cpu))
    return len(cores)
