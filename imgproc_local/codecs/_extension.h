/* What the C extensions have in common: Python's stable ABI and compiler-specific keywords. Include it first. */

#ifndef IMGPROC_EXTENSION_H
#define IMGPROC_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <pyconfig.h>
#ifndef Py_GIL_DISABLED
#define Py_LIMITED_API 0x030B0000 /* one binary for CPython 3.11 and later */
#endif
#include <Python.h>

#if defined(_MSC_VER)
#define INLINE static __forceinline
#define RESTRICT __restrict
#else
#define INLINE static inline __attribute__((always_inline))
#define RESTRICT restrict
#endif

/* For functions whose loops gain from AVX2, which not every x86-64 has: compiled twice where the loader can choose. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define WIDE __attribute__((target_clones("avx2", "default")))
#endif
#endif
#ifndef WIDE
#define WIDE
#endif

/* In the slots of every module: the extensions change no state that the interpreter's lock would have to protect. */
#ifdef Py_GIL_DISABLED
#define WITHOUT_GIL {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#else
#define WITHOUT_GIL
#endif

#endif
