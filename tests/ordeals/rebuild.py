"""Builds the frozen program twice: `python -m tests.ordeals.rebuild`. The same sources must give the same bytes."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.frozen import build_module, freeze


def main() -> None:
    compare = build_module("compare")
    with tempfile.TemporaryDirectory(prefix="rebuild-") as work:
        one, other = Path(work, "one"), Path(work, "other")
        for out in (one, other):
            freeze(out)
        different = compare.differences(one, other)
        print(*different, f"{len(compare.contents(one))} files, {len(different)} differ", sep="\n")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
