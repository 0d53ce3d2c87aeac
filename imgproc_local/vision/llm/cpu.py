"""Whether llama.cpp can run on this processor: asked before any of it is loaded, for otherwise the process would end.

The portable build needs what x86-64 processors have since Haswell (2013); other architectures have one baseline that
their builds keep to. The C library is asked first: it has the processor's own answer and knows whether the system saves
the wider registers. `/proc/cpuinfo` is the kernel's, also in an emulator that runs single programs.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from pathlib import Path
from typing import NamedTuple

CPUINFO = Path("/proc/cpuinfo")


class _Bit(NamedTuple):
    """Where glibc keeps a feature. Source: glibc, sys/platform/x86.h and bits/platform/x86.h."""

    leaf: int
    register: int
    bit: int


EBX, ECX = 1, 2
NEEDED = {"avx2": _Bit(1, EBX, 5), "fma": _Bit(0, ECX, 12), "f16c": _Bit(0, ECX, 29), "bmi2": _Bit(1, EBX, 8)}
"""What the build of llama.cpp uses, by the names of /proc/cpuinfo."""


class _Feature(ctypes.Structure):
    _fields_ = (("cpuid", ctypes.c_uint * 4), ("active", ctypes.c_uint * 4))


@cache
def processor_problem() -> str | None:
    """Why no vision model can run here; None where nothing is known against it."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return None
    found = _from_glibc()
    if found is None:
        found = _from_cpuinfo()
    missing = [] if found is None else [name for name in NEEDED if name not in found]
    if not missing:
        return None
    return f"A vision model needs a processor with AVX2, FMA, F16C and BMI2; this one lacks {', '.join(missing)}."


def _from_glibc() -> set[str] | None:
    """Those of `NEEDED` that the processor has and the system lets it use; None before glibc 2.33 and elsewhere."""
    try:
        ask = getattr(ctypes.CDLL(None), "__x86_get_cpuid_feature_leaf")
    except (AttributeError, OSError, TypeError):  # no such function, no such library, Windows
        return None
    ask.argtypes, ask.restype = [ctypes.c_uint], ctypes.POINTER(_Feature)
    return {name for name, place in NEEDED.items() if ask(place.leaf).contents.active[place.register] >> place.bit & 1}


def _from_cpuinfo() -> set[str] | None:
    """Those that the kernel names; None where there is no such file or no such line."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((set(line.split()) for line in lines if line.startswith("flags")), None)
