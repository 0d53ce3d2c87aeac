"""Compares two builds byte for byte: `python build/compare.py DIR DIR`. Each DIR is an --out folder of freeze.py.

Prints the names of the files that differ or are in only one folder. The exit status is 1 if there are any.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path


def contents(folder: Path) -> dict[str, str]:
    """The files in `folder` by name: the SHA-256 and the permissions of each, or the target of a link."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            files[name] = f"-> {path.readlink()}"
        elif path.is_file():
            files[name] = hashlib.sha256(path.read_bytes()).hexdigest() + f" {path.stat().st_mode & 0o777:o}"
    return files


def differences(one: Path, other: Path) -> list[str]:
    """The names of the files that differ or are in only one of the folders."""
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
