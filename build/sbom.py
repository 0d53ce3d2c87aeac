"""Writes the software bill of materials (SBOM) of a frozen program in CycloneDX format, and a folder with the licences.

`freeze.py` runs `sbom.py CONTENTS SITE FOLDER NAME` with the interpreter of the build environment. CONTENTS is a JSON
file with the files that PyInstaller collected and their origins. SITE is the `site-packages` folder in which this
project is installed. NAME.cdx.json and NAME-licences/ are written to FOLDER. Every collected file must come from a
wheel, the interpreter, a system library or this project, and its licence must be known; otherwise the build fails.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
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
SPDX_EXPRESSION = re.compile(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*")
SPDX_BY_CLASSIFIER = {
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
}
BOOTLOADER_WHEEL = "pyinstaller"
"""The wheel that contains the bootloader, which becomes the program's executable file. CONTENTS does not list it."""
UNKNOWN_VERSION = "unknown: neither the wheel's metadata nor its compiled libraries state it"

Component = dict[str, Any]


def main(contents: Path, site: Path, folder: Path, name: str) -> None:
    entries = [entry for table in json.loads(contents.read_text()).values() for entry in table]
    sources = [Path(source) for _, source, typecode in entries if typecode != "SYMLINK"]
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
            "component": {"type": "application", **_wheel_component(project)},
        },
        "components": components,
    }
    (folder / f"{name}.cdx.json").write_text(json.dumps(sbom, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    bundled = sum(len(component.get("components", ())) for component in components)
    print(f"{name}: {len(components)} components, {bundled} libraries bundled in wheels")


def _components(sources: list[Path], site: Path, licences: Path) -> Iterator[Component]:
    wheels, owners = {}, {}
    for distribution in distributions():
        wheels[_normalized_name(distribution)] = distribution
        for file in distribution.files or ():
            owners[Path(str(distribution.locate_file(file))).resolve()] = _normalized_name(distribution)
    used = {BOOTLOADER_WHEEL}
    system: dict[Path, None] = {}
    others = [*_standard_library(), site.resolve().parent, BUILD]
    for source in sources:
        real = source.resolve()
        if real in owners:
            used.add(owners[real])
        elif source.name.startswith(("libpython", "python3")) or any(map(real.is_relative_to, others)):
            continue
        elif str(source) != "-":  # a namespace package has no file
            system[real] = None
    for name in used:
        _copy_licences(wheels[name], licences, *BUNDLED["wheels"].get(name, {}).get("texts", ()))
        nested = bundled_libraries(wheels[name])
        yield {"type": "library", **_wheel_component(wheels[name])} | ({"components": nested} if nested else {})
    yield _interpreter_component(licences)
    for library in system:
        yield _system_component(library, licences)


def _normalized_name(distribution: Distribution) -> str:
    """The normalized name. Source: PEP 503."""
    return re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()


def _standard_library() -> list[Path]:
    return [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib")]


# ---- libraries bundled in wheels ----


def bundled_libraries(distribution: Distribution) -> list[Component]:
    """The libraries that `bundled.toml` lists for a wheel, with their licences and versions.

    A version that the wheel does not state is recorded as unknown, with the reason.
    """
    name = _normalized_name(distribution)
    libraries = BUNDLED["wheels"].get(name, {}).get("libraries", {})
    if not libraries:
        return []
    version_data = _version_data(distribution)
    components = []
    for library, entry in libraries.items():
        component = {"type": "library", "name": library, **_licence(entry["licence"])}
        stated = re.search(entry["version"].encode(), version_data) if "version" in entry else None
        if stated is not None:
            component["version"] = stated[1].decode()
        else:
            component["properties"] = [{"name": "imgproc-local:version", "value": UNKNOWN_VERSION}]
            if "version" in entry:
                print(f"sbom: no version of {library} in {name} matches its pattern in bundled.toml", file=sys.stderr)
        components.append(component)
    return components


def _version_data(distribution: Distribution) -> bytes:
    """The data in which the version patterns of `bundled.toml` are searched.

    It has a line "name version" for each component in the SBOMs of the wheel, and, for each shared library, a line with
    its file name and its contents.
    """
    data = b""
    for file in (Path(str(distribution.locate_file(file))) for file in distribution.files or ()):
        if file.name.endswith(".cdx.json"):
            listed = json.loads(file.read_text(encoding="utf-8"))["components"]
            data += "".join(f"{part['name']} {part.get('version')}\n" for part in listed).encode()
        elif SHARED_LIBRARY.fullmatch(file.name):
            data += f"\n{file.name}\n".encode() + file.read_bytes()
    return data


# ---- one component ----


def _wheel_component(distribution: Distribution) -> Component:
    metadata, version = distribution.metadata, distribution.version
    name = metadata["Name"]
    licence = metadata.get("License-Expression") or metadata.get("License") or ""
    if not SPDX_EXPRESSION.fullmatch(licence):
        known = [SPDX_BY_CLASSIFIER.get(classifier) for classifier in metadata.get_all("Classifier") or ()]
        licence = " AND ".join(filter(None, known)) or licence
    if not licence:
        raise SystemExit(f"sbom: {name} {version} declares no licence")
    purl = f"pkg:pypi/{_normalized_name(distribution)}@{version}"
    return {"bom-ref": purl, "name": name, "version": version, "purl": purl, **_licence(licence)}


def _licence(licence: str) -> Component:
    """The licence fields of a component: an SPDX expression unchanged, any other text shortened to its first line."""
    if SPDX_EXPRESSION.fullmatch(licence):
        return {"licenses": [{"expression": licence}]}
    return {"licenses": [{"license": {"name": licence.strip().splitlines()[0][:100]}}]}


def _copy_licences(distribution: Distribution, licences: Path, *extra_texts: str) -> None:
    """Copy the licence files of a wheel, and those of `build/licences/` that `extra_texts` names."""
    folder = licences / _normalized_name(distribution)
    folder.mkdir(parents=True)
    for file in sorted(distribution.files or (), key=str):
        _, metadata, path = file.as_posix().rpartition(".dist-info/")
        if metadata and LICENCE_FILE.match(path):
            name = path.removeprefix("licenses/").replace("/", "-")
            shutil.copyfile(str(distribution.locate_file(file)), folder / name)
    for text in extra_texts:
        shutil.copyfile(BUILD / "licences" / f"{text}.txt", folder / f"{text}.txt")
    if not any(folder.iterdir()):
        # some wheels have no licence file; their metadata declares the licence
        (folder / "METADATA").write_text(distribution.read_text("METADATA") or "", encoding="utf-8")


def _interpreter_component(licences: Path) -> Component:
    version = platform.python_version()
    folders = [*_standard_library(), Path(f"/usr/share/doc/python{version.rpartition('.')[0]}")]
    texts = [folder / name for folder in folders for name in ("LICENSE.txt", "LICENSE", "copyright")]
    _copy_text(next((text for text in texts if text.exists()), None), licences / "python", "Python")
    component = {"type": "platform", "bom-ref": f"cpython@{version}", "name": "CPython", "version": version}
    return component | _licence("Python-2.0.1")


def _system_component(file: Path, licences: Path) -> Component:
    """A system library, with the version of its package and the licence in `bundled.toml`."""
    licence = next((BUNDLED["system"][key] for key in BUNDLED["system"] if file.name.startswith(f"{key}.")), None)
    if licence is None:
        raise SystemExit(f"sbom: {file} belongs to no wheel, and bundled.toml has no licence for it")
    package, version = _package(file)
    texts = [Path(f"/usr/share/doc/{package}/copyright"), *sorted(Path(f"/usr/share/licenses/{package}").glob("*"))]
    text = next((text for text in texts if text.exists()), None)
    _copy_text(text, licences / file.name.partition(".so")[0], file.name)
    return {
        "type": "library",
        "bom-ref": f"system/{file.name}",
        "name": file.name,
        "version": version,
        **_licence(licence),
        "description": f"of the package {package}",
    }


def _package(file: Path) -> tuple[str, str]:
    """The name and version of the system package that owns a file; empty strings if none does."""
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


def _copy_text(text: Path | None, folder: Path, component: str) -> None:
    if text is None:
        missing = f"no licence text for {component} on this machine; only the licence name is recorded"
        print(f"sbom: {missing}", file=sys.stderr)
        return
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(text, folder / text.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
