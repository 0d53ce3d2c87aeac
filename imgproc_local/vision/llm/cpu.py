"""Checks whether this processor can run llama.cpp, before it is loaded: an illegal instruction would end the process.

The portable x86-64 build needs the instructions of Haswell (2013). On other architectures, the builds only use
instructions that every processor has. The features are read from glibc, which queries the processor itself and checks
whether the kernel saves the wide registers. The fallback is `/proc/cpuinfo`, which inside a user-mode emulator
describes the host instead of the emulated processor.
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
    """The position of a feature in glibc's table, where `leaf` 0 is leaf 1 of CPUID, and 1 is leaf 7.

    Source: glibc, sys/platform/x86.h and bits/platform/x86.h.
    """

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
    """Four registers of one leaf: the features of the processor, and those that are usable. Source: as `_CpuidBit`."""

    _fields_ = (("cpuid", ctypes.c_uint * 4), ("active", ctypes.c_uint * 4))


FeatureSource = Callable[[], set[str] | None]
"""Returns the names of the processor's features; None if it can't determine them."""


@cache
def processor_problem() -> str | None:
    """Why this processor can't run llama.cpp; None if it can, or if its features are unknown."""
    return find_problem(platform.machine(), (features_from_glibc, features_from_cpuinfo))


def find_problem(machine: str, sources: Sequence[FeatureSource]) -> str | None:
    """Why a processor of the architecture `machine` can't run llama.cpp; None if it can or its features are unknown.

    The features are those from the first of `sources` that knows them.
    """
    if machine.lower() not in ("x86_64", "amd64"):
        return None
    features = next((known for source in sources if (known := source()) is not None), None)
    missing = [] if features is None else [name for name in REQUIRED if name not in features]
    if not missing:
        return None
    return f"A vision model needs a processor with AVX2, FMA, F16C and BMI2; this one lacks {', '.join(missing)}."


def features_from_glibc() -> set[str] | None:
    """The names in `REQUIRED` that the processor has and the kernel supports; None without glibc 2.33 or newer."""
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
    """The flags of the first processor in `path`; None if the file is missing or has no line of flags."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((set(line.split()) for line in lines if line.startswith("flags")), None)
