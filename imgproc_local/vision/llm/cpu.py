"""Whether this processor can run llama.cpp. It is checked before loading, because an illegal instruction is a crash.

The portable x86-64 build needs the instructions of Haswell (2013); on other architectures the builds use the baseline
that every processor has. glibc is asked first: it reads the processor itself and knows whether the kernel saves the
wide registers. `/proc/cpuinfo` is the fallback; it describes the host, also inside a user-mode emulator.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

CPUINFO = Path("/proc/cpuinfo")


class _CpuidBit(NamedTuple):
    """The position of a feature in glibc's table. Source: glibc, sys/platform/x86.h and bits/platform/x86.h."""

    leaf: int
    register: int
    bit: int


EBX, ECX = 1, 2
REQUIRED = {
    "avx2": _CpuidBit(1, EBX, 5),
    "fma": _CpuidBit(0, ECX, 12),
    "f16c": _CpuidBit(0, ECX, 29),
    "bmi2": _CpuidBit(1, EBX, 8),
}
"""Features that the build of llama.cpp uses, named as in /proc/cpuinfo."""


class _CpuidFeature(ctypes.Structure):
    _fields_ = (("cpuid", ctypes.c_uint * 4), ("active", ctypes.c_uint * 4))


FeatureSource = Callable[[], set[str] | None]


@cache
def processor_problem() -> str | None:
    """Why no vision model can run here; None if the processor is suitable or unknown."""
    return find_problem(platform.machine(), (features_from_glibc, features_from_cpuinfo))


def find_problem(machine: str, sources: Sequence[FeatureSource]) -> str | None:
    """The same for the architecture `machine`, whose features are those of the first source that knows any."""
    if machine.lower() not in ("x86_64", "amd64"):
        return None
    features = next((known for source in sources if (known := source()) is not None), None)
    missing = [] if features is None else [name for name in REQUIRED if name not in features]
    if not missing:
        return None
    return f"A vision model needs a processor with AVX2, FMA, F16C and BMI2; this one lacks {', '.join(missing)}."


def features_from_glibc() -> set[str] | None:
    """Those of `REQUIRED` that the processor has and the system supports; None without glibc 2.33 or newer."""
    try:
        get_leaf = getattr(ctypes.CDLL(None), "__x86_get_cpuid_feature_leaf")
    except (AttributeError, OSError, TypeError):  # an older glibc, another C library, Windows
        return None
    get_leaf.argtypes, get_leaf.restype = [ctypes.c_uint], ctypes.POINTER(_CpuidFeature)
    return {
        name
        for name, place in REQUIRED.items()
        if get_leaf(place.leaf).contents.active[place.register] >> place.bit & 1
    }


def features_from_cpuinfo(path: Path = CPUINFO) -> set[str] | None:
    """All feature flags in `path`; None if there is no such file or no line of flags."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((set(line.split()) for line in lines if line.startswith("flags")), None)
