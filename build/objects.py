"""Reports which glibc and which processor the objects of a frozen program require: `python build/objects.py FOLDER`.

The exit status is 1 if one of two limits is exceeded:

- glibc: the program requires the highest version of the symbols that its objects use; it must not be above `MAX_GLIBC`.
- processor: the x86-64 objects that are compiled together with the program (the codec extensions and llama.cpp) may use
  no instructions newer than AVX2, FMA, F16C and BMI2 (Haswell). llama.cpp is loaded only if the processor has these.

The instructions of other objects are not checked, because these objects choose between several variants of their code
when they run (libvips, libavif and jpegli by tables, libcrypto, libgomp and zlib-ng by CPUID). `tests/build` runs them
on an emulated processor.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from elf import is_elf

COMPILED_WITH_PROGRAM = re.compile(r"_(ssimulacra2|requantize|webp_chroma)\..*|lib(ggml.*|llama|mtmd)\.so.*")
"""The names of the objects that are compiled together with the program and do not choose code when they run."""
MAX_GLIBC = (2, 36)
GLIBC = re.compile(rb"GLIBC_(\d+)\.(\d+)(?![\d.])")
"""The name of a version in the string table of an object. Three-part versions are not counted: all are below 2.4."""
EVEX_PREFIX = re.compile(r"^((2e|36|3e|26|64|65|66|67|f0|f2|f3) )*62 ")
"""Matches the bytes of AVX-512 and AVX10 instructions: in 64-bit code they alone begin with 62, after legacy prefixes.
Source: Intel SDM, volume 2, section 2.7.
"""
NEWER_MNEMONICS = re.compile(
    r"\{vex\}|v?pdp[bw][su]sds?|vpdp[bw]\w+|tdp\w+|tile\w+|ldtilecfg|sttilecfg|sha(1|256|512)\w+|vsha512\w+|vsm[34]\w+"
    r"|v?gf2p8\w+|vpmadd52\w+|vbcstne\w+|vcvtne\w+|k(mov|or|and|xor|not|unpck|shift|test|add)\w*[bwdq]|\w*zmm\w*"
)
"""Mnemonics of newer instructions that do not begin with 62: VNNI, AMX, SHA, GFNI, IFMA, and mask registers."""


def objects(folder: Path) -> list[Path]:
    """All ELF objects in the folder and its subfolders; symbolic links are left out."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and is_elf(path))


def needs_glibc(path: Path) -> tuple[int, ...]:
    """The highest glibc version that the object needs; () if it needs none above 2.4."""
    return max(((int(major), int(minor)) for major, minor in GLIBC.findall(path.read_bytes())), default=())


def newer_than_haswell(path: Path) -> Counter[str]:
    """How often the object uses each instruction that a Haswell processor does not have, disassembled by `objdump`."""
    objdump = shutil.which("objdump")
    if objdump is None:
        raise SystemExit("objects: install binutils; its objdump disassembles the objects")
    counts: Counter[str] = Counter()
    instructions = 0
    with subprocess.Popen([objdump, "-d", "-w", path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            parts = line.rstrip("\n").split("\t")
            if len(parts) < 3 or not parts[2]:
                continue
            instructions += 1
            mnemonic = parts[2].split(" ", 1)[0]
            if EVEX_PREFIX.match(parts[1]) or NEWER_MNEMONICS.fullmatch(mnemonic):
                counts[mnemonic] += 1
    if process.returncode or not instructions:
        raise SystemExit(f"objects: objdump can't disassemble {path}")
    return counts


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version)) or "none"


def main() -> None:
    folder = Path(sys.argv[1])
    highest: tuple[int, ...] = ()
    print(f"{'glibc':<8} object")
    for path in sorted(objects(folder), key=needs_glibc, reverse=True):
        version = needs_glibc(path)
        highest = max(highest, version)
        print(f"{_text(version):<8} {path.relative_to(folder)}")
    print(f"\nThe program needs glibc {_text(highest)}; the limit is {_text(MAX_GLIBC)}.")
    exceeded = highest[:2] > MAX_GLIBC
    for path in (path for path in objects(folder) if COMPILED_WITH_PROGRAM.fullmatch(path.name)):
        newer = newer_than_haswell(path)
        exceeded |= bool(newer)
        print(f"{path.relative_to(folder)}: {dict(newer) if newer else 'nothing beyond AVX2, FMA, F16C and BMI2'}")
    raise SystemExit(1 if exceeded else 0)


if __name__ == "__main__":
    main()
