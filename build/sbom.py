"""Writes what a frozen program contains: a CycloneDX bill of materials (SBOM), and a folder with the licences.

`freeze.py` runs `sbom.py CONTENTS SITE FOLDER NAME` with the interpreter of the build's environment. CONTENTS lists the
files that PyInstaller collected and where they come from, SITE holds this project as installed; NAME.cdx.json and
NAME-licences/ are written to FOLDER. Every file belongs to exactly one of: a wheel, the interpreter, a library of the
system, this project. A file that belongs to none of them, or has no licence, ends the build.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

BUILD = Path(__file__).parent
BUNDLED = tomllib.loads((BUILD / "bundled.toml").read_text(encoding="utf-8"))
LICENCE_FILE = re.compile(r"(^|/)(licen[sc]es?/|licen[sc]e|copying|notice|copyright)[^/]*", re.IGNORECASE)
SHARED_LIBRARY = re.compile(r".*\.(so|dylib|dll|pyd)(\.[\d.]+)?", re.IGNORECASE)
SPDX = re.compile(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*")
CLASSIFIERS = {
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
}
BOOTLOADER = "pyinstaller"
"""PyInstaller's bootloader is the program itself, but is not among the contents that PyInstaller lists."""
UNKNOWN_VERSION = "unknown: neither the wheel's metadata nor its compiled libraries state it"

Component = dict[str, Any]


def main(contents: Path, site: Path, folder: Path, name: str) -> None:
    entries = [entry for kind in json.loads(contents.read_text()).values() for entry in kind]
    sources = [Path(source) for _, source, kind in entries if kind != "SYMLINK"]
    licences = folder / f"{name}-licences"
    components = sorted(_components(sources, site, licences), key=lambda component: component["name"].lower())
    project = next(iter(distributions(path=[str(site)])))
    _copy_licences(project, licences)
    sbom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC).isoformat(),
            "component": {"type": "application", **_of_distribution(project)},
        },
        "components": components,
    }
    (folder / f"{name}.cdx.json").write_text(json.dumps(sbom, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    bundled = sum(len(component.get("components", ())) for component in components)
    print(f"{name}: {len(components)} components, {bundled} bundled inside them")


def _components(sources: list[Path], site: Path, licences: Path) -> Iterator[Component]:
    wheels, owners = {}, {}
    for distribution in distributions():
        wheels[_name(distribution)] = distribution
        for file in distribution.files or ():
            owners[Path(str(distribution.locate_file(file))).resolve()] = _name(distribution)
    used = {BOOTLOADER}
    system: dict[Path, None] = {}
    made_by_the_build = [site.resolve().parent, BUILD]
    for source in sources:
        real = source.resolve()
        if real in owners:
            used.add(owners[real])
        elif source.name.startswith(("libpython", "python3")) or _is_below(real, _standard_library()):
            continue
        elif not _is_below(real, made_by_the_build) and str(source) != "-":
            system[real] = None
    for name in used:
        _copy_licences(wheels[name], licences, *BUNDLED["wheels"].get(name, {}).get("texts", ()))
        nested = bundled_libraries(wheels[name])
        yield {"type": "library", **_of_distribution(wheels[name]), **({"components": nested} if nested else {})}
    yield _interpreter(licences)
    for library in system:
        yield _of_system(library, licences)


def _name(distribution: Distribution) -> str:
    return re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()


def _is_below(path: Path, folders: list[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _standard_library() -> list[Path]:
    import sysconfig

    return [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib")]


# ---- libraries bundled in wheels ----


def bundled_libraries(distribution: Distribution) -> list[Component]:
    """The libraries that `bundled.toml` lists for a wheel, with their licences and versions.

    A version that the wheel does not state is recorded as unknown, with the reason.
    """
    name = _name(distribution)
    libraries = BUNDLED["wheels"].get(name, {}).get("libraries", {})
    if not libraries:
        return []
    statements = _statements(distribution)
    components = []
    for library, entry in libraries.items():
        component = {"type": "library", "name": library, **_licence(entry["licence"])}
        stated = re.search(entry["version"].encode(), statements) if "version" in entry else None
        if stated is not None:
            component["version"] = stated[1].decode()
        else:
            component["properties"] = [{"name": "imgproc-local:version", "value": UNKNOWN_VERSION}]
            if "version" in entry:
                print(f"sbom: {name} states no version of {library} where bundled.toml expects it", file=sys.stderr)
        components.append(component)
    return components


def _statements(distribution: Distribution) -> bytes:
    """Where a wheel states versions: the entries of its own SBOMs as lines "name version", the names of its shared
    libraries as lines, and their bytes.
    """
    statements = b""
    for file in (Path(str(distribution.locate_file(file))) for file in distribution.files or ()):
        if file.name.endswith(".cdx.json"):
            listed = json.loads(file.read_text(encoding="utf-8"))["components"]
            statements += "".join(f"{part['name']} {part.get('version')}\n" for part in listed).encode()
        elif SHARED_LIBRARY.fullmatch(file.name):
            statements += f"\n{file.name}\n".encode() + file.read_bytes()
    return statements


# ---- one component ----


def _of_distribution(distribution: Distribution) -> Component:
    name, version = distribution.metadata["Name"], distribution.version
    terms = distribution.metadata["License-Expression"] or distribution.metadata["License"]
    if not terms or not SPDX.fullmatch(terms):
        classifiers = distribution.metadata.get_all("Classifier") or ()
        terms = " AND ".join(CLASSIFIERS[each] for each in classifiers if each in CLASSIFIERS) or terms
    if not terms:
        raise SystemExit(f"sbom: {name} {version} names no licence")
    purl = f"pkg:pypi/{_name(distribution)}@{version}"
    return {"bom-ref": purl, "name": name, "version": version, "purl": purl, **_licence(terms)}


def _licence(terms: str) -> Component:
    """SPDX terms unchanged, other licences by their first line."""
    if SPDX.fullmatch(terms):
        return {"licenses": [{"expression": terms}]}
    return {"licenses": [{"license": {"name": terms.strip().splitlines()[0][:100]}}]}


def _copy_licences(distribution: Distribution, licences: Path, *texts: str) -> None:
    folder = licences / _name(distribution)
    folder.mkdir(parents=True)
    for file in sorted(distribution.files or (), key=str):
        _, metadata, path = file.as_posix().rpartition(".dist-info/")
        if metadata and LICENCE_FILE.match(path):
            name = path.removeprefix("licenses/").replace("/", "-")
            shutil.copyfile(str(distribution.locate_file(file)), folder / name)
    for text in texts:
        shutil.copyfile(BUILD / "licences" / f"{text}.txt", folder / f"{text}.txt")
    if not any(folder.iterdir()):
        # some wheels name their licence only in their metadata
        (folder / "METADATA").write_text(distribution.read_text("METADATA") or "", encoding="utf-8")


def _interpreter(licences: Path) -> Component:
    version = platform.python_version()
    folders = [*_standard_library(), Path(f"/usr/share/doc/python{version.rpartition('.')[0]}")]
    texts = [folder / name for folder in folders for name in ("LICENSE.txt", "LICENSE", "copyright")]
    _copy_text(next((text for text in texts if text.exists()), None), licences / "python", "Python")
    return {"type": "platform", "bom-ref": f"cpython@{version}", "name": "CPython", "version": version} | _licence(
        "Python-2.0.1"
    )


def _of_system(file: Path, licences: Path) -> Component:
    """A library of the system, with its package's version and licence if the system knows them."""
    terms = next((BUNDLED["system"][key] for key in BUNDLED["system"] if file.name.startswith(f"{key}.")), None)
    if terms is None:
        raise SystemExit(f"sbom: {file} belongs to no wheel, and bundled.toml has no licence for it")
    package, version = _package(file)
    texts = [Path(f"/usr/share/doc/{package}/copyright"), *sorted(Path(f"/usr/share/licenses/{package}").glob("*"))]
    text = next((text for text in texts if text.exists()), None)
    _copy_text(text, licences / file.name.partition(".so")[0], file.name)
    facts = {"name": file.name, "version": version, **_licence(terms)}
    return {"type": "library", "bom-ref": f"system/{file.name}", **facts, "description": f"of the package {package}"}


def _package(file: Path) -> tuple[str, str]:
    """The name and version of the system's package that owns a file; empty if no package manager knows it."""
    queries = {
        "dpkg-query": (["-S", f"*/{file.name}"], ["-W", "-f", "${Version}"]),
        "rpm": (["-qf", "--qf", "%{NAME}:\n", str(file)], ["-q", "--qf", "%{VERSION}-%{RELEASE}"]),
    }
    for tool, (owner_query, version_query) in queries.items():
        if not shutil.which(tool):
            continue
        owner = subprocess.run([tool, *owner_query], capture_output=True, text=True, check=False)
        if owner.returncode == 0:
            package = owner.stdout.splitlines()[0].rpartition(": ")[0].split(",")[0] or owner.stdout.split(":")[0]
            version = subprocess.run([tool, *version_query, package], capture_output=True, text=True, check=False)
            return package.partition(":")[0], version.stdout.strip()
    return "", ""


def _copy_text(text: Path | None, folder: Path, of: str) -> None:
    if text is None:
        print(f"sbom: this machine has no licence text of {of}; only the licence's name is recorded", file=sys.stderr)
        return
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(text, folder / text.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
