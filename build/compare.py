"""Compares two builds byte for byte: `python build/compare.py DIR DIR`, two --out folders of freeze.py.

Prints the names of the files that differ or that only one folder has. Exit status 1 if there are any.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path


def contents(folder: Path) -> dict[str, str]:
    """For each file by name: its SHA-256 and permissions, or the target of a link."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            files[name] = f"-> {path.readlink()}"
        elif path.is_file():
            files[name] = hashlib.sha256(path.read_bytes()).hexdigest() + f" {path.stat().st_mode & 0o777:o}"
    return files


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
