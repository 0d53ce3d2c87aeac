"""Tells whether two builds are the same, byte for byte: `python build/compare.py DIR DIR`, two --out of freeze.py.

Ends with 1 and the names of the files that differ, or that only one of them has.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path


def contents(folder: Path) -> dict[str, str]:
    """Every file by its name: the SHA-256, whether it may be run, or what a link points to."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest() + f" {path.stat().st_mode & 0o777:o}"
    return found


def differences(one: Path, other: Path) -> list[str]:
    """The names of files that are not the same in both folders."""
    left, right = contents(one), contents(other)
    return sorted(name for name in left | right if left.get(name) != right.get(name))


def main() -> None:
    one, other = map(Path, sys.argv[1:3])
    different = differences(one, other)
    for name in different:
        print(name)
    print(f"{len(contents(one))} and {len(contents(other))} files, {len(different)} differ", file=sys.stderr)
    raise SystemExit(1 if different else 0)


if __name__ == "__main__":
    main()
