"""Builds the frozen program twice: `python -m tests.ordeals.rebuild`. The same sources must give the same bytes."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.frozen import freeze


def main() -> None:
    sums = []
    with tempfile.TemporaryDirectory(prefix="rebuild-") as work:
        for out in (Path(work, "one"), Path(work, "other")):
            freeze(out)
            sums.append(set((out / "imgproc-local.SHA256SUMS").read_text(encoding="utf-8").splitlines()))
    different = sorted(sums[0] ^ sums[1])
    print(*different, f"{len(sums[0])} files, {len({line.split()[1] for line in different})} differ", sep="\n")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
