"""Packs a one-folder build into an archive for any Linux: `python packaging/linux/build.py [--dist DIR] [--out DIR]`.

The archive contains one folder, which contains `install.sh`. The same build always gives the same archive.
"""

from __future__ import annotations

import gzip
import platform
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import share

NAME = share.NAME


def main() -> None:
    arguments = share.parser("Packs a one-folder build into an archive for any Linux.").parse_args()
    print(build(arguments.dist.resolve(), arguments.out or arguments.dist))


def build(dist: Path, out: Path) -> Path:
    """Make the archive in the folder `out` and return its path. Raises `SystemExit`."""
    folder = f"{NAME}-{share.version(dist)}-linux-{platform.machine()}"
    out = share.output_folder(out)
    with tempfile.TemporaryDirectory(prefix="archive-") as scratch:
        tree = Path(scratch) / folder
        shutil.copytree(share.program(dist).parent, tree / NAME, symlinks=True)
        share.write_share(tree / "share", dist)
        for name in ("install.sh", f"{NAME}.service"):
            shutil.copy(share.HERE / name, tree / name)
        (tree / "SHA256SUMS").write_text(share.checksums(tree, "sha256"), encoding="utf-8")
        share.normalize(tree)
        archive = out / f"{folder}.tar.gz"
        part = archive.with_suffix(".part")
        _pack(tree, part)
        part.replace(archive)
    return archive


def _pack(tree: Path, archive: Path) -> None:
    def as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        tar.add(tree, tree.name, filter=as_root)  # each folder in the order of its names


if __name__ == "__main__":
    main()
