"""What a Linux system wants beside the program: unit, desktop entry, icons, manual page, completions, documents.

The Debian package and the archive put the same files below `share/`. Everything comes from this folder or from the
program itself, which is run for its help; `dist` is a folder that build/freeze.py wrote into.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import icons  # noqa: E402 - a script of the folder above, in no package

ROOT = HERE.parents[1]
NAME = "imgproc-local"
APPSTREAM_NAME = "local.imgproc.ImgprocLocal.metainfo.xml"
ICON_SIZES_PX = (48, 64, 128, 256, 512)
RUN_TIMEOUT_S = 60
COMPLETIONS = {
    "bash": f"bash-completion/completions/{NAME}",
    "zsh": f"zsh/vendor-completions/_{NAME}",
    "fish": f"fish/vendor_completions.d/{NAME}.fish",
}


def program(dist: Path) -> Path:
    """The one-folder program in `dist`. Raises `SystemExit` where there is none."""
    found = dist / NAME / NAME
    if not found.is_file():
        raise SystemExit(f"expected {found}, as `python build/freeze.py --out {dist}` makes it; there is no such file")
    return found


def version(dist: Path) -> str:
    """What the program says its version is."""
    return _told(program(dist), "--version").split()[-1]


def build_time() -> datetime:
    """SOURCE_DATE_EPOCH, or else when the commit was made. Raises `SystemExit` where neither is known."""
    told = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not told:
        asked = ["git", "log", "-1", "--format=%ct"]
        told = subprocess.run(
            asked, cwd=ROOT, capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT_S
        ).stdout.strip()
    if not told.isdigit():
        raise SystemExit("expected a git work tree, or SOURCE_DATE_EPOCH in seconds since 1970, to date the package")
    return datetime.fromtimestamp(int(told), UTC)


def unit(path: str) -> str:
    """The user unit for the program at `path`."""
    return (HERE / f"{NAME}.service").read_text(encoding="utf-8").replace("@PROGRAM@", path)


def write_share(share: Path, dist: Path) -> None:
    """Write everything but the unit below `share`."""
    files = {f"applications/{NAME}.desktop": (HERE / f"{NAME}.desktop").read_bytes()}
    metainfo = (HERE / APPSTREAM_NAME).read_text(encoding="utf-8")
    metainfo = metainfo.replace("@VERSION@", version(dist)).replace("@DATE@", f"{build_time():%Y-%m-%d}")
    files[f"metainfo/{APPSTREAM_NAME}"] = metainfo.encode()
    files |= _icons() | _completions(program(dist))
    files[f"man/man1/{NAME}.1.gz"] = packed(manual_page(program(dist), version(dist)))
    for name in ("README.md", "CHANGELOG.md", "LICENSE"):
        files[f"doc/{NAME}/{name}"] = (ROOT / name).read_bytes()
    files[f"doc/{NAME}/{NAME}.cdx.json"] = (dist / f"{NAME}.cdx.json").read_bytes()
    for name, content in files.items():
        (share / name).parent.mkdir(parents=True, exist_ok=True)
        (share / name).write_bytes(content)
    shutil.copytree(dist / f"{NAME}-licences", share / "doc" / NAME / "licences")


def packed(text: str) -> bytes:
    """gzip without a time or a name in it."""
    return gzip.compress(text.encode(), 9, mtime=0)


def even_out(tree: Path) -> None:
    """Give everything below `tree` the same rights and times wherever it is built."""
    moment = build_time().timestamp()
    for path in (tree, *sorted(tree.rglob("*"))):
        if not path.is_symlink():
            started = path.stat().st_mode & 0o100 and ".so" not in path.suffixes  # libraries are loaded
            path.chmod(0o755 if path.is_dir() or started else 0o644)
        os.utime(path, (moment, moment), follow_symlinks=False)


def manual_page(binary: Path, release: str) -> str:
    """The help of the program and of all its commands as a manual page. Source: man(7)."""
    helps = _helps(binary, ())
    summary = helps[()].split("\n\n")[1].strip()
    lines = [
        f'.TH IMGPROC-LOCAL 1 "{build_time():%Y-%m-%d}" "{NAME} {release}" "User Commands"',
        ".SH NAME",
        f"{NAME} \\- {_roff('image processing service on this machine')}",
        ".SH SYNOPSIS",
        f".B {NAME}",
        ".RI [ OPTIONS ] \\ COMMAND \\ [ ARGS ]...",
        ".SH DESCRIPTION",
        _roff(summary),
    ]
    for words, text in helps.items():
        lines += [f".SH {_roff(' '.join(words).upper())}" if words else ".SH OVERVIEW", ".nf", _roff(text), ".fi"]
    lines += [
        ".SH FILES",
        ".TP",
        f".I ~/.local/share/{NAME}",
        "database, pictures and models of this user",
        ".TP",
        f".I ~/.config/{NAME}/config.toml",
        "settings of this user",
        ".SH SEE ALSO",
        f".I /usr/share/doc/{NAME}/README.md",
    ]
    return "\n".join(lines) + "\n"


def _helps(binary: Path, words: tuple[str, ...]) -> dict[tuple[str, ...], str]:
    text = _told(binary, *words, "--help")
    _, _, commands = text.partition("\nCommands:\n")
    found = {words: text}
    for name in re.findall(r"^  ([a-z-]+)(?:  |$)", commands, re.MULTILINE):
        found |= _helps(binary, (*words, name))
    return found


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", "\\\\&", escaped.rstrip("\n"), flags=re.MULTILINE)


def _completions(binary: Path) -> dict[str, bytes]:
    variable = f"_{NAME.replace('-', '_').upper()}_COMPLETE"
    return {path: _told(binary, **{variable: f"{shell}_source"}).encode() for shell, path in COMPLETIONS.items()}


def _icons() -> dict[str, bytes]:
    apps = "icons/hicolor/{}/apps/" + NAME
    drawn = {apps.format("scalable") + ".svg": icons.DRAWING.read_bytes()}
    return drawn | {apps.format(f"{size}x{size}") + ".png": icons.png(size) for size in ICON_SIZES_PX}


def _told(binary: Path, *arguments: str, **environment: str) -> str:
    """What the program prints, in surroundings that are the same everywhere."""
    surroundings = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"} | environment
    done = subprocess.run(
        [binary.resolve(), *arguments], env=surroundings, capture_output=True, check=False, timeout=RUN_TIMEOUT_S
    )
    if done.returncode != 0 or not done.stdout:
        raise SystemExit(f"{binary} {' '.join(arguments)} ended with {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode()
