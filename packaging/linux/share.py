"""Writes the files that accompany the program on Linux: desktop entry, icons, manual page, completions, documents.

The Debian package and the archive contain the same of these files below `share/`. Their sources are this folder, the
documents of the repository, the commands of the source tree for the manual page, and the program itself, which is run
for its version and completions. `dist` is the folder that build/freeze.py wrote.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import icons  # noqa: E402 - scripts in these folders, which are not packages
import manual  # noqa: E402

ROOT = HERE.parents[1]
NAME = "imgproc-local"
DOCUMENTS = ("README.md", "CHANGELOG.md", "LICENSE")
"""Copied with their paths to the package's folder for documents, with all that they link to: no link there is dead."""
LINK = re.compile(r"\]\(([^):#\s]+)[)#]")
"""The target of a link in Markdown, of which addresses (with a colon) and places in the same file (#) are none."""
APPSTREAM_NAME = "local.imgproc.ImgprocLocal.metainfo.xml"
ICON_SIZES_PX = (48, 64, 128, 256, 512)
RUN_TIMEOUT_S = 60
COMPLETIONS = {
    "bash": f"bash-completion/completions/{NAME}",
    "zsh": f"zsh/vendor-completions/_{NAME}",
    "fish": f"fish/vendor_completions.d/{NAME}.fish",
}


def parser(description: str) -> argparse.ArgumentParser:
    """The options that both packagers have."""
    options = argparse.ArgumentParser(description=description)
    dist = ROOT / "dist"
    options.add_argument("--dist", type=Path, default=dist, metavar="DIR", help="folder that freeze.py wrote  [dist/]")
    options.add_argument("--out", type=Path, metavar="DIR", help="folder for the result, created if needed  [the same]")
    return options


def checksums(tree: Path, algorithm: str) -> str:
    """Checksums of every file, as `sha256sum -c` and dpkg read them."""
    lines = []
    for path in sorted(tree.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, algorithm).hexdigest()
            lines.append(f"{digest}  {path.relative_to(tree).as_posix()}\n")
    return "".join(lines)


def output_folder(folder: Path) -> Path:
    """The absolute path of `folder`, which is created if needed. Raises `SystemExit` if it can't be written to."""
    folder = folder.resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemExit(f"expected a folder for --out; {folder} can't be created: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise SystemExit(f"expected a folder for --out that can be written to; {folder} can't")
    return folder


def program(dist: Path) -> Path:
    """The one-folder program in `dist`. Raises `SystemExit` if there is none."""
    binary = dist / NAME / NAME
    if not binary.is_file():
        raise SystemExit(f"there is no {binary}; `python build/freeze.py --out {dist}` makes it")
    return binary


def version(dist: Path) -> str:
    """The version that the program prints."""
    return _output(program(dist), "--version").split()[-1]


def build_time() -> datetime:
    """SOURCE_DATE_EPOCH, or the commit's time. Raises `SystemExit` if neither is known."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not seconds:
        command = ["git", "-c", "log.showSignature=false", "log", "-1", "--format=%ct"]
        git = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT_S)
        seconds = git.stdout.strip()
    if not seconds.isdigit():
        raise SystemExit(
            "set SOURCE_DATE_EPOCH in seconds since 1970, or build in a git work tree, to date the package"
        )
    return datetime.fromtimestamp(int(seconds), UTC)


def unit(path: str) -> str:
    """The systemd user unit for the program at `path`."""
    return (HERE / f"{NAME}.service").read_text(encoding="utf-8").replace("@PROGRAM@", path)


def write_share(share: Path, dist: Path) -> None:
    """Write these files below the folder `share`, all but the systemd unit."""
    files = {f"applications/{NAME}.desktop": (HERE / f"{NAME}.desktop").read_bytes()}
    metainfo = (HERE / APPSTREAM_NAME).read_text(encoding="utf-8")
    metainfo = metainfo.replace("@VERSION@", version(dist)).replace("@DATE@", f"{build_time():%Y-%m-%d}")
    files[f"metainfo/{APPSTREAM_NAME}"] = metainfo.encode()
    files |= _icons() | _completions(program(dist))
    release = version(dist).partition(".dev")[0]  # the footer of a page has no room for more
    files[f"man/man1/{NAME}.1.gz"] = gzipped(manual.page(release, f"{build_time():%Y-%m-%d}"))
    files |= {f"doc/{NAME}/{path.relative_to(ROOT).as_posix()}": path.read_bytes() for path in documents()}
    files[f"doc/{NAME}/{NAME}.cdx.json"] = (dist / f"{NAME}.cdx.json").read_bytes()
    for name, content in files.items():
        (share / name).parent.mkdir(parents=True, exist_ok=True)
        (share / name).write_bytes(content)
    shutil.copytree(dist / f"{NAME}-licences", share / "doc" / NAME / "licences")


def documents() -> set[Path]:
    """The documents, and the files that are reached from them by links, directly or within a folder."""
    found: set[Path] = set()
    waiting = [ROOT / name for name in DOCUMENTS]
    while waiting:
        path = waiting.pop()
        if path.is_dir():
            waiting += [file for file in path.iterdir() if file.name != "__pycache__"]
        elif path not in found:
            found.add(path)
            if path.suffix == ".md":
                waiting += [(path.parent / link).resolve() for link in LINK.findall(path.read_text(encoding="utf-8"))]
    return found


def gzipped(text: str) -> bytes:
    """`text` compressed by gzip, whose header contains no time and no name."""
    return gzip.compress(text.encode(), 9, mtime=0)


def normalize(tree: Path) -> None:
    """Set the permissions and times of everything in `tree`, so that they do not depend on the machine of the build."""
    moment = build_time().timestamp()
    for path in (tree, *sorted(tree.rglob("*"))):
        if not path.is_symlink():
            executable = path.stat().st_mode & 0o100 and ".so" not in path.suffixes  # libraries need no execute bit
            path.chmod(0o755 if path.is_dir() or executable else 0o644)
        os.utime(path, (moment, moment), follow_symlinks=False)


def _completions(binary: Path) -> dict[str, bytes]:
    variable = f"_{NAME.replace('-', '_').upper()}_COMPLETE"
    return {path: _output(binary, **{variable: f"{shell}_source"}).encode() for shell, path in COMPLETIONS.items()}


def _icons() -> dict[str, bytes]:
    apps = "icons/hicolor/{}/apps/" + NAME
    drawing = {apps.format("scalable") + ".svg": icons.DRAWING.read_bytes()}
    return drawing | {apps.format(f"{size}x{size}") + ".png": icons.png(size) for size in ICON_SIZES_PX}


def _output(binary: Path, *arguments: str, **environment: str) -> str:
    """What the program prints, in an environment that is the same everywhere."""
    environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"} | environment
    command = [binary.resolve(), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=RUN_TIMEOUT_S)
    if done.returncode != 0 or not done.stdout:
        raise SystemExit(f"{binary} {' '.join(arguments)} ended with {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode()
