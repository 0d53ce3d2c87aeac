"""Tells on how old a system and processor each object of a frozen program runs: `python build/objects.py FOLDER`.

Two ceilings. glibc: the highest version whose symbols an object needs; the highest of all is what the program needs.
The processor: x86-64 objects compiled for this program, which are the codec extension and llama.cpp, may use nothing
beyond AVX2, FMA, F16C and BMI (Haswell); llama.cpp is only loaded where the processor has these. Other objects hold
faster code besides and choose when they run (libvips, libavif and jpegli by Highway's or their own tables, libcrypto,
libgomp and zlib-ng by CPUID), so what they contain tells nothing; `tests/build` runs them on an emulated processor.
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

OWN = re.compile(r"_(ssimulacra2|splice)\..*|lib(ggml.*|llama|mtmd)\.so.*")
"""Compiled when the program is built, without a choice at run time."""
CEILING = (2, 36)
EVEX_PREFIX = re.compile(r"^((2e|36|3e|26|64|65|66|67|f0|f2|f3) )*62 ")
"""In 64-bit code this byte begins every instruction of AVX-512 and of AVX10, whatever registers it uses, and no other.
Source: Intel SDM, volume 2, section 2.7."""
BEYOND = re.compile(
    r"\{vex\}|v?pdp[bw][su]sds?|vpdp[bw]\w+|tdp\w+|tile\w+|ldtilecfg|sttilecfg|sha(1|256|512)\w+|vsha512\w+|vsm[34]\w+"
    r"|v?gf2p8\w+|vpmadd52\w+|vbcstne\w+|vcvtne\w+|k(mov|or|and|xor|not|unpck|shift|test|add)\w*[bwdq]|\w*zmm\w*"
)
"""Mnemonics in other encodings that came after Haswell: VNNI, AMX, SHA, GFNI, IFMA, and masks."""


def objects(folder: Path) -> list[Path]:
    """Every object once, whatever its links."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and is_elf(path))


def needs_glibc(path: Path) -> tuple[int, ...]:
    """The highest version of glibc that the object needs; () where it needs none."""
    return max(Elf(path).glibc_versions(), default=())


def beyond_haswell(path: Path) -> Counter[str]:
    """How often each instruction occurs that a Haswell does not have. Reads the whole disassembly of `objdump`."""
    objdump = shutil.which("objdump")
    if objdump is None:
        raise SystemExit("objects: objdump, of binutils, is needed to look at instructions")
    found: Counter[str] = Counter()
    seen = 0
    with subprocess.Popen([objdump, "-d", "-w", path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            parts = line.rstrip("\n").split("\t")
            if len(parts) < 3 or not parts[2]:
                continue
            seen += 1
            mnemonic = parts[2].split(" ", 1)[0]
            if EVEX_PREFIX.match(parts[1]) or BEYOND.fullmatch(mnemonic):
                found[mnemonic] += 1
    if process.returncode or not seen:
        raise SystemExit(f"objects: {path} can't be disassembled")
    return found


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
    print(f"\nThe program needs glibc {_text(highest)}; it may need at most {_text(CEILING)}.")
    refused = highest[:2] > CEILING
    for path in (path for path in objects(folder) if OWN.fullmatch(path.name)):
        found = beyond_haswell(path)
        refused |= bool(found)
        print(f"{path.relative_to(folder)}: {dict(found) if found else 'nothing beyond AVX2, FMA, F16C and BMI2'}")
    raise SystemExit(1 if refused else 0)


if __name__ == "__main__":
    main()
