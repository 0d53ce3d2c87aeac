"""Makes the Debian package of a one-folder build: `python packaging/debian/build.py [--dist DIR] [--out DIR]`.

The program is installed in /opt/imgproc-local, a link in /usr/bin, and the accompanying files below /usr. The same
build gives the same package: times are those of the commit or SOURCE_DATE_EPOCH, and all files belong to root. Needs
dpkg-deb, pyvips for the icons, and bash for its completion.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from email.utils import format_datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "linux"), str(HERE.parents[1] / "build")]
import objects  # noqa: E402 - scripts in other folders, which are not packages
import share as linux_share  # noqa: E402

NAME = linux_share.NAME
INSTALLED = f"/opt/{NAME}"
SCRIPTS = ("postinst", "prerm", "postrm")
FILES = {
    "copyright": f"usr/share/doc/{NAME}/copyright",
    "lintian-overrides": f"usr/share/lintian/overrides/{NAME}",
    "config.toml": f"etc/{NAME}/config.toml",
    "sysusers.conf": f"usr/lib/sysusers.d/{NAME}.conf",
    "system.conf": f"usr/lib/systemd/system/{NAME}.service.d/10-system.conf",
}
"""Files of this folder, and where they are installed."""
MAINTAINER = f"{NAME} packagers <packagers@{NAME}.invalid>"
TOOL_TIMEOUT_S = 600


def main() -> None:
    parser = linux_share.parser("Makes the Debian package of a one-folder build.")
    parser.add_argument("--maintainer", default=MAINTAINER, metavar="NAME <ADDRESS>", help="who distributes it")
    parser.add_argument("--version", help="version to use instead of the program's, to test upgrades")
    arguments = parser.parse_args()
    out = arguments.out or arguments.dist
    print(build(arguments.dist.resolve(), out, arguments.maintainer, arguments.version))


def build(dist: Path, out: Path, maintainer: str, version: str | None = None) -> Path:
    """Make the package in the folder `out` and return its path. Raises `SystemExit`."""
    version = version or linux_share.version(dist).replace(".dev", "~dev")  # sorts before the release
    out = linux_share.output_folder(out)
    architecture = _run("dpkg", "--print-architecture").strip()
    with tempfile.TemporaryDirectory(prefix="deb-") as scratch:
        tree = Path(scratch) / "tree"
        _write_tree(tree, dist, maintainer, version)
        sums = linux_share.checksums(tree, "md5")
        (tree / "DEBIAN").mkdir()
        for script in SCRIPTS:
            shutil.copy(HERE / script, tree / "DEBIAN" / script)
        (tree / "DEBIAN" / "conffiles").write_text(f"/{FILES['config.toml']}\n", encoding="utf-8")
        (tree / "DEBIAN" / "md5sums").write_text(sums, encoding="utf-8")
        (tree / "DEBIAN" / "control").write_text(_control(tree, maintainer, version, architecture), encoding="utf-8")
        linux_share.normalize(tree)
        for script in SCRIPTS:
            (tree / "DEBIAN" / script).chmod(0o755)
        package = out / f"{NAME}_{version}_{architecture}.deb"
        part = package.with_suffix(".part")
        _run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(part))
        part.replace(package)
    return package


def _write_tree(tree: Path, dist: Path, maintainer: str, version: str) -> None:
    documents = tree / "usr/share/doc" / NAME
    shutil.copytree(linux_share.program(dist).parent, tree / INSTALLED[1:], symlinks=True)
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin" / NAME).symlink_to(f"{INSTALLED}/{NAME}")
    linux_share.write_share(tree / "usr/share", dist)
    # Debian has one place and one format for the licence of every package
    (documents / "LICENSE").unlink()
    changelog = (
        f"{NAME} ({version}) stable; urgency=medium\n\n  * See CHANGELOG.md.\n\n"
        f" -- {maintainer}  {format_datetime(linux_share.build_time())}\n"
    )
    (documents / "changelog.gz").write_bytes(linux_share.gzipped(changelog))
    for manager in ("user", "system"):
        unit = tree / "usr/lib/systemd" / manager / f"{NAME}.service"
        unit.parent.mkdir(parents=True)
        unit.write_text(linux_share.unit(f"{INSTALLED}/{NAME}"), encoding="utf-8")
    for source, target in FILES.items():
        (tree / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / source, tree / target)


def _control(tree: Path, maintainer: str, version: str, architecture: str) -> str:
    """The package's fields: the file `control` of this folder, with those of this build put in."""
    size_kib = sum((path.lstat().st_size + 1023) // 1024 for path in tree.rglob("*") if not path.is_dir())
    glibc = ".".join(map(str, max(map(objects.needs_glibc, objects.objects(tree)))))
    fields = {"version": version, "architecture": architecture, "maintainer": maintainer, "size_kib": size_kib}
    return (HERE / "control").read_text(encoding="utf-8").format(glibc=glibc, **fields)


def _run(*command: str) -> str:
    # dpkg-deb writes this time into the package, or else that of the build
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(int(linux_share.build_time().timestamp()))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=TOOL_TIMEOUT_S)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
