"""Freezes the service into programs that need no Python: `python build/freeze.py [--out DIR]`.

It needs Python 3.11 or newer with the module `venv`, a C and C++ compiler, and a network on the first run. It writes to
DIR (`dist/` by default):

    imgproc-local/imgproc-local     the one-folder program; its parts are in imgproc-local/_internal/
    imgproc-local-onefile           the same program as a single file that unpacks itself when it starts
    imgproc-local.cdx.json          the components of both and their licences, as a CycloneDX bill of materials
    imgproc-local-licences/         the texts of the licences
    imgproc-local.SHA256SUMS        checksums of every file above; check with `sha256sum -c` in DIR

Intermediate files are in a work folder outside the repository (--work, by default below the user's cache folder): one
virtual environment per lock and interpreter, reused by later runs.

Builds are reproducible: on one machine, the same commit gives the same bytes in any folder. File times are those of the
commit, names and hashes have a fixed order, and the project's own compiled code contains no path of the build. Builds
on two machines differ only in the interpreter, the system's libraries (the bill of materials has their versions), the
compiler's output, and llama.cpp. pip compiles llama.cpp once for a work folder, or once before for the environment of
the tests, in a temporary folder with a random name that its assertion messages contain. If it is compiled again, its
five libraries differ in that name.
`diff` of the checksums lists what differs between two builds, `build/objects.py` what a build requires of a system.

The version that the program shows names its commit, see `_with_commit`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
LOCK = ROOT / "requirements-build.lock"
NAME, ONE_FILE = "imgproc-local", "imgproc-local-onefile"
OLDEST_PYTHON = (3, 11)
EARLIEST_TIME = 315532800
"""The beginning of 1980, in seconds since 1970: zip files can't store earlier times."""
CMAKE_ARGS = f"{os.environ.get('CMAKE_ARGS', '')} -DGGML_NATIVE=OFF".strip()
"""Settings for compiling llama.cpp for all x86-64 processors with AVX2, not just for the processor of this machine."""
LLAMA_CPP = BUILD / "llama_cpp.cmake"
"""Read by CMake: says which parts of llama.cpp are compiled, and how much they are optimized."""
COMPILED_WITH = "llama_cpp/compiled-with.txt"
"""In the package that is compiled: the digest of that file and the settings, separated by semicolons."""
SOURCES = ("imgproc_local", "pyproject.toml", "setup.py", "LICENSE", "README.md")
"""The files and folders from which the project's own package is built."""


STEP_TIMEOUT_S = 7200
"""The longest that one command may take, such as pip with llama.cpp to compile."""
ANSWER_TIMEOUT_S = 60
"""The same for a question to git or pip."""


class Unbuildable(Exception):
    """The program can't be built. The message says why and is printed without a traceback."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", metavar="DIR", help="output folder  [dist/]")
    parser.add_argument("--work", type=Path, default=_work_folder(), metavar="DIR", help="work folder  [%(default)s]")
    arguments = parser.parse_args()
    try:
        freeze(arguments.out.resolve(), arguments.work.resolve())
    except (Unbuildable, subprocess.SubprocessError) as error:  # a command that failed, or took too long
        raise SystemExit(f"freeze: {error}") from None


def _work_folder() -> Path:
    caches = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(caches, "imgproc-local-freeze")


def freeze(out: Path, work: Path) -> None:
    """Build both programs, their bill of materials and their licences into `out`.

    Raises: Unbuildable; subprocess.SubprocessError.
    """
    _check_interpreter()
    for folder in (out, work):
        folder.mkdir(parents=True, exist_ok=True)
    print(f"Work folder: {work}", flush=True)
    python = _environment(work)
    with tempfile.TemporaryDirectory(prefix="run-", dir=work) as folder:
        scratch = Path(folder)
        site = _installed_project(python, scratch)
        built = _pyinstaller(python, scratch, site)
        _run([python, BUILD / "sbom.py", scratch / "contents.json", site, built, NAME])
        _move_results(built, out)
    print(f"The programs are in {out}.")


def _check_interpreter() -> None:
    if sys.version_info < OLDEST_PYTHON:
        raise Unbuildable(f"expected Python 3.11 or newer, this is {sys.version.split()[0]}")
    if os.name == "posix" and sys.platform != "darwin" and not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        raise Unbuildable(f"{sys.executable} has no shared libpython, which a frozen program must contain")


# ---- environment ----


def _environment(work: Path) -> Path:
    """The interpreter of a virtual environment with the locked packages, created if there is none."""
    compilation = CMAKE_ARGS.encode() + LLAMA_CPP.read_bytes()
    facts = (LOCK.read_bytes(), sys.version.encode(), sys.base_prefix.encode(), compilation)
    folder = work / f"venv-{hashlib.sha256(b'|'.join(facts)).hexdigest()[:16]}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    complete = folder / "complete"
    if not complete.exists():
        print("Installing the locked packages. If llama.cpp is compiled, that takes some minutes.", flush=True)
        with tempfile.TemporaryDirectory(prefix="run-", dir=work) as scratch:
            venv = Path(scratch, "venv")
            _run([sys.executable, "-m", "venv", venv])
            new = venv / python.relative_to(folder)
            # The user's own pip cache may contain a llama.cpp that was compiled for this processor only, and pip
            # would use it: it finds a compiled package by the address of its source, not by the compiler's settings.
            cache = str(work / f"pip-{hashlib.sha256(compilation).hexdigest()[:16]}")
            _reuse_llama_cpp(new, Path(cache))
            settings = f"{CMAKE_ARGS} {shlex.quote(f'-DCMAKE_PROJECT_llama_cpp_INCLUDE={LLAMA_CPP.as_posix()}')}"
            _pip(new, "install", "--require-hashes", "-r", LOCK, PIP_CACHE_DIR=cache, CMAKE_ARGS=settings)
            (venv / "complete").touch()
            if not complete.exists():  # a build that runs at the same time may have created it
                shutil.rmtree(folder, ignore_errors=True)
                # its scripts would look for the interpreter in the old folder, so `python -m` is used instead of them
                venv.rename(folder)
    return python


def _reuse_llama_cpp(python: Path, cache: Path) -> None:
    """Copy what pip compiled with the same settings, as it does for the tests, from pip's own cache to `cache`."""
    answer = _answer([python, "-m", "pip", "cache", "dir"])  # fails if pip has no cache
    compiled_with = ";".join([_sha256(LLAMA_CPP), *shlex.split(CMAKE_ARGS)]).encode()
    own = Path(answer.stdout.strip())
    for wheel in own.glob("wheels/**/llama_cpp_python-*.whl") if answer.returncode == 0 else ():
        with zipfile.ZipFile(wheel) as files:
            if COMPILED_WITH in files.namelist() and files.read(COMPILED_WITH) == compiled_with:
                shutil.copytree(wheel.parent, cache / wheel.parent.relative_to(own), dirs_exist_ok=True)


def _installed_project(python: Path, scratch: Path) -> Path:
    """A folder in which this project is installed, compiled without paths of this machine."""
    source, site = scratch / "source", scratch / "site"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyd"))
        else:
            shutil.copy(ROOT / name, source / name)
    package = source / "imgproc_local" / "__init__.py"
    package.write_text(re.sub(r'(?<=__version__ = ").*(?=")', _with_commit, package.read_text("utf-8")), "utf-8")
    flags = "" if os.name == "nt" else f"-ffile-prefix-map={source}=. -g0"
    _pip(python, "install", "--no-deps", "--no-build-isolation", "--no-compile", "--target", site, source, CFLAGS=flags)
    return site


def _with_commit(release: re.Match[str]) -> str:
    """The program's version: that of the release only at its tag, and otherwise with the time (UTC) and the commit.

    `0.2.0.dev20261127180503+1a2b3c4d` sorts after versions of earlier commits and before 0.2.0, for pip, and for apt
    with `~dev`. `.dirty` at its end says that files were changed or added since the commit.
    """
    commit = _git("log", "-1", "--abbrev=8", "--date=format-local:%Y%m%d%H%M%S", "--format=%cd+%h")
    if not commit:
        print(f"No commit is known here: the program's version is {release[0]}, as that of the release.", flush=True)
    changes = ".dirty" if _git("status", "--porcelain") else ""
    if not commit or (not changes and f"v{release[0]}" in _git("tag", "--points-at", "HEAD").split()):
        return release[0]
    return f"{release[0]}.dev{commit}{changes}"


# ---- the program ----


def _pyinstaller(python: Path, scratch: Path, site: Path) -> Path:
    """Run PyInstaller, and return the folder with the programs."""
    built = scratch / "built"
    _run(
        [
            *(python, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"),
            *("--distpath", built, "--workpath", scratch / "pyinstaller", BUILD / "imgproc-local.spec"),
        ],
        PYINSTALLER_CONFIG_DIR=str(scratch / "pyinstaller-cache"),
        IMGPROC_FREEZE_SITE=str(site),
        IMGPROC_FREEZE_SCRATCH=str(scratch),
    )
    return built


def _move_results(built: Path, out: Path) -> None:
    """Move the results to `out`, and write their checksums."""
    checksums = []
    for result in sorted(built.iterdir()):
        target = out / result.name
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        shutil.move(result, target)
        files = sorted(target.rglob("*")) if target.is_dir() else [target]
        checksums += [f"{_sha256(file)}  {file.relative_to(out).as_posix()}\n" for file in files if file.is_file()]
    (out / f"{NAME}.SHA256SUMS").write_text("".join(checksums), encoding="utf-8")


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# ---- running commands ----


def _pip(python: Path, *arguments: str | Path, **environment: str) -> None:
    _run([python, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"], **environment)


def _run(command: list[str | Path], **environment: str) -> None:
    """Run a command in an environment that makes its output reproducible. Raises: subprocess.SubprocessError."""
    fixed = {
        "SOURCE_DATE_EPOCH": str(_commit_time()),
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONSAFEPATH": "1",  # import the installed package, not the working tree
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("IMGPROC_", "PYTHON"))}
    words = [str(part) for part in command]
    subprocess.run(words, cwd=ROOT, env=inherited | fixed | environment, check=True, timeout=STEP_TIMEOUT_S)


def _commit_time() -> int:
    """The commit's time in seconds since 1970, or SOURCE_DATE_EPOCH; 1980 if neither is known."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct")
    return int(seconds) if seconds.isdigit() else EARLIEST_TIME


def _git(*arguments: str) -> str:
    """What git answers about this work tree; empty without git, or if ROOT is not the top of a work tree."""
    if not (git := shutil.which("git")):
        return ""
    # an archive of the sources that was unpacked in another project's work tree is not of that project's commit
    top = _answer([git, "rev-parse", "--show-toplevel"]).stdout.strip()
    if not top or Path(top).resolve() != ROOT.resolve():
        return ""
    return _answer([git, "-c", "log.showSignature=false", *arguments]).stdout.strip()


def _answer(command: list[str | Path]) -> subprocess.CompletedProcess[str]:
    """What a command writes about ROOT, with times in UTC. Raises: subprocess.TimeoutExpired."""
    environment = os.environ | {"TZ": "UTC"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=ANSWER_TIMEOUT_S
    )


if __name__ == "__main__":
    main()
