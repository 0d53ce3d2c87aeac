"""Reports what each object of a frozen program needs of the system and processor: `python build/objects.py FOLDER`.

Two limits are checked. glibc: the highest version whose symbols an object needs; the highest of all is what the program
needs. The processor: x86-64 objects compiled for this program (the codec extensions and llama.cpp) may use only AVX2,
FMA, F16C and BMI (Haswell); llama.cpp is loaded only if the processor has these. Other objects contain faster code too
and choose at run time (libvips, libavif and jpegli by Highway's or their own tables, libcrypto, libgomp and zlib-ng by
CPUID), so their instructions prove nothing; `tests/build` runs them on an emulated processor.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from elf import Elf, is_elf

COMPILED_HERE = re.compile(r"_(ssimulacra2|splice)\..*|lib(ggml.*|llama|mtmd)\.so.*")
"""Objects compiled with the program, which do not choose code at run time."""
MAX_GLIBC = (2, 36)
EVEX_PREFIX = re.compile(r"^((2e|36|3e|26|64|65|66|67|f0|f2|f3) )*62 ")
"""In 64-bit code this byte starts every AVX-512 and AVX10 instruction, and no other.
Source: Intel SDM, volume 2, section 2.7."""
BEYOND = re.compile(
    r"\{vex\}|v?pdp[bw][su]sds?|vpdp[bw]\w+|tdp\w+|tile\w+|ldtilecfg|sttilecfg|sha(1|256|512)\w+|vsha512\w+|vsm[34]\w+"
    r"|v?gf2p8\w+|vpmadd52\w+|vbcstne\w+|vcvtne\w+|k(mov|or|and|xor|not|unpck|shift|test|add)\w*[bwdq]|\w*zmm\w*"
)
"""Mnemonics of newer instructions in other encodings: VNNI, AMX, SHA, GFNI, IFMA, and mask registers."""


def objects(folder: Path) -> list[Path]:
    """Every object in the folder, without the links to it."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and is_elf(path))


def needs_glibc(path: Path) -> tuple[int, ...]:
    """The highest glibc version that the object needs; () if it needs none."""
    return max(Elf(path).glibc_versions(), default=())


def beyond_haswell(path: Path) -> Counter[str]:
    """Counts of the instructions that a Haswell processor does not have, from the disassembly of `objdump`."""
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
            if EVEX_PREFIX.match(parts[1]) or BEYOND.fullmatch(mnemonic):
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
    for path in (path for path in objects(folder) if COMPILED_HERE.fullmatch(path.name)):
        newer = beyond_haswell(path)
        exceeded |= bool(newer)
        print(f"{path.relative_to(folder)}: {dict(newer) if newer else 'nothing beyond AVX2, FMA, F16C and BMI2'}")
    raise SystemExit(1 if exceeded else 0)


if __name__ == "__main__":
    main()
