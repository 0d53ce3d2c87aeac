"""Records what the service makes of a set of pictures, and compares two such records.

    python -m tests.gate record FILE [FOLDER …]    # process the project's own pictures and those of the folders
    python -m tests.gate compare BEFORE AFTER      # list every difference; exit status 1 if something was lost

A record is one JSON object with an entry per picture and operation: status and errors, sizes, scores against the
original (SSIMULACRA 2.1 of the first frame, as a browser shows it), CPU seconds of the service and its workers, texts
in `LANGUAGES`, the kinds that were removed, the metadata fields of each result as `exiftool` reads them, and whether
optimizing the result again changes it. Pictures go through the HTTP interface, so that a record outlives any change
inside.

Sizes, scores, texts and fields do not depend on the load of the machine; CPU seconds do, a little.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyvips

from imgproc_local.codecs.quality import score as ssimulacra2
from tests.codecs import pictures
from tests.faults.server_process import make_key, serving
from tests.support.processes import descendants
from tests.support.service import Service

SAMPLE = Path(__file__).parent / "sample" / "IMG_4711.jpg"
LANGUAGES = "en,de,fr,ja,ar,cs"
ACCEPTED = {
    "process": (".jpg", ".jpeg", ".png", ".gif", ".webp"),
    "convert": (".jpg", ".jpeg", ".png"),
    "optimize": (".avif",),
}
"""The operation for each kind of file: `process` to WebP; `convert` to AVIF; `optimize` for what `process` refuses."""
FIELD_GROUPS = ("EXIF", "IFD0", "ExifIFD", "GPS", "IPTC", "XMP", "PNG", "GIF", "ICC", "Photoshop", "MakerNotes", "C2PA")
TECHNICAL = (
    "BitDepth", "ColorType", "Compression", "Filter", "Interlace", "ImageWidth", "ImageHeight", "XMPToolkit", "Exif",
    "Gamma", "BackgroundColor", "Palette", "Transparency", "SRGBRendering", "PixelsPerUnit", "PixelUnits", "Version",
    "AnimationIterations", "FrameCount", "Duration", "HasColorMap", "ColorResolution", "BitsPerPixel", "ProfileName",
    "CurrentIPTCDigest", "CodedCharacterSet", "Resolution", "YCbCrPositioning", "WhitePoint", "PrimaryChromaticities",
    "RedX", "RedY", "GreenX", "GreenY", "BlueX", "BlueY", "SignificantBits", "AnimationFrames", "AnimationPlays",
)  # fmt: skip
"""Beginnings of the names of fields that say how pixels are stored, not what people wrote."""
SIZE_TOLERANCE, SCORE_TOLERANCE = 0.01, 0.5
WAIT_S = 600


def own_pictures(folder: Path) -> Path:
    """Write the project's own pictures into a folder: the sample, and one per format with metadata in all fields."""
    shutil.copy(SAMPLE, folder / "sample.jpg")
    drawn = {
        "metadata.jpg": pictures.jpeg_with_metadata(),
        "metadata.png": pictures.png_with_metadata(),
        "metadata.webp": pictures.webp_with_metadata(),
        "metadata.avif": pictures.avif_with_metadata(),
        "metadata.gif": pictures.gif_with_metadata(),
        "graphic.png": pictures.saved(pictures.graphic(), "PNG"),
        "graphic-alpha.png": pictures.saved(pictures.graphic(alpha=True), "PNG"),
        "photo.png": pictures.saved(pictures.photo(), "PNG"),
        "wide.jpg": pictures.saved(pictures.photo(), "JPEG", quality=95, icc_profile=pictures.wide_profile()),
        "animated.webp": pictures.animated("WEBP", [40, 80, 120]),
    }
    for name, data in drawn.items():
        (folder / name).write_bytes(data)
    return folder


class Shown:
    """A picture as a browser shows it: its first frame upright, in sRGB, without alpha on a grey ground."""

    def __init__(self, data: bytes) -> None:
        image = pyvips.Image.new_from_buffer(data, "", fail_on="error").autorot()
        if image.get_typeof("icc-profile-data"):
            image = image.icc_transform("srgb", embedded=True, intent="relative")
        image = image.colourspace("srgb").cast("uchar")
        if image.hasalpha():
            image = image.flatten(background=128)
        self.image = image if image.bands == 3 else image[0].bandjoin([image[0], image[0]])

    def score(self, other: Shown) -> float | None:
        """The score of the other picture against this one; None if their sizes differ."""
        one, two = self.image, other.image
        if (one.width, one.height) != (two.width, two.height):
            return None
        reference = ssimulacra2.Reference(one.write_to_memory(), one.width, one.height)
        return round(reference.score(two.write_to_memory()), 2)


def fields_of(data: bytes, suffix: str) -> dict[str, str] | None:
    """The metadata fields of a file by group and name; None without exiftool."""
    if shutil.which("exiftool") is None:
        return None
    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        file.write(data)
        file.flush()
        options = ("-j", "-G0:1", "-a", "-struct", "-charset", "utf8", "-api", "largefilesupport")
        done = subprocess.run(["exiftool", *options, file.name], capture_output=True, check=False)
    (found,) = json.loads(done.stdout or b"[{}]")
    fields = {}
    for key, value in found.items():
        groups, _, name = key.rpartition(":")
        if groups.split(":")[0] in FIELD_GROUPS and not name.startswith(TECHNICAL):
            fields[f"{groups}:{name}"] = json.dumps(value, ensure_ascii=False)
    return fields


def run(service: Service, pid: int, operation: str, name: str, data: bytes, **form: str) -> dict[str, Any]:
    """The entry of one operation on one picture, with the files in `results`. `pid` is the process of the service."""
    before_s = _cpu_s(pid)
    answer = service.client.post(f"/images/{operation}", files={"image": (name, data)}, data=form)
    if answer.status_code != 202:
        return {"status": answer.status_code, "errors": answer.json(), "results": {}}
    job_id = answer.json()["data"]["job_id"]
    service.final(job_id, WAIT_S)
    job = service.client.get(f"/jobs/{job_id}?include=removed").json()["data"]
    image = job["image"]
    files = {which: service.client.get(f"/images/{image['id']}/{which}") for which in ("optimized", "converted")}
    entry = {
        "status": job["status"],
        "errors": job.get("errors", []),
        "cpu_s": round(_cpu_s(pid) - before_s, 2),
        "texts": {
            each["language_code"]: [each["seo_filename"], each["seo_alt_text"], each["source"], each["needs_text"]]
            for each in image["translations"]
        },
        "removed": image.get("removed", []),
        "results": {which: response.content for which, response in files.items() if response.status_code == 200},
    }
    service.client.delete(f"/jobs/{job_id}")
    return entry


def _cpu_s(service_pid: int) -> float:
    """The CPU time of the service, its living workers, and those that have ended."""
    total = 0
    for pid in (service_pid, *descendants(service_pid)):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def recorded(service: Service, pid: int, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries of one picture, by operation."""
    data = path.read_bytes()
    for operation, suffixes in ACCEPTED.items():
        if path.suffix.lower() not in suffixes:
            continue
        target = {"process": "webp", "convert": "avif"}.get(operation)
        form = {"languages": LANGUAGES} if operation == "process" else {}
        entry = run(service, pid, operation, path.name, data, **form, **({"format": target} if target else {}))
        for which, result in entry.pop("results").items():
            suffix = f".{target}" if which == "converted" else path.suffix
            again = run(service, pid, "optimize", f"again{suffix}", result)["results"].get("optimized", b"")
            entry[which] = {
                "bytes": len(result),
                "score": _score(data, result),
                "fields": fields_of(result, suffix),
                "stable": again == result,
            }
        yield operation, entry


def _score(original: bytes, result: bytes) -> float | None:
    try:
        return Shown(original).score(Shown(result))
    except pyvips.Error:
        return None


def record(file: Path, folders: list[Path]) -> None:
    """Write the record of the project's own pictures and those below the folders."""
    entries: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        own = Path(temporary, "own")
        own.mkdir()
        sources = {own_pictures(own): "own", **{folder: folder.name for folder in folders}}
        data_dir = Path(temporary, "data")
        key = make_key(data_dir)
        with serving(data_dir) as server, Service(server.wait_ready(), key) as service:
            for folder, label in sources.items():
                for path in sorted(each for each in folder.rglob("*") if each.is_file()):
                    for operation, entry in recorded(service, server.pid, path):
                        name = f"{label}/{path.relative_to(folder)}"
                        entries[f"{operation} {name}"] = entry
                        print(f"{operation} {name}: {entry['status']}", flush=True)
    file.write_text(json.dumps(entries, ensure_ascii=False, indent=1), encoding="utf-8")


def compare(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Print the differences of two records. Returns whether nothing was lost: no picture, word, score or stability."""
    kept = True
    compared: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for name, old in before.items():
        new = after.get(name, {"status": "missing"})
        for part in ("status", "errors", "texts", "removed"):
            if old.get(part) != new.get(part):
                kept = kept and part != "status"
                print(f"{name}: {part}\n  before {_line(old.get(part))}\n  after  {_line(new.get(part))}")
        for which in ("optimized", "converted"):
            if which in old and which in new:
                kept = _compare_files(f"{name}: {which}", old[which], new[which]) and kept
                suffix = Path(name).suffix.lower().replace(".jpeg", ".jpg")
                scores = [each[which]["score"] for each in (old, new)]
                gained = 0 if None in scores else scores[1] - scores[0]
                row = (1, old[which]["bytes"], new[which]["bytes"], gained, old["cpu_s"], new["cpu_s"])
                compared[f"{name.split()[0]} {suffix} {which}"].append(row)
            elif which in old:
                kept = False
                print(f"{name}: {which} is missing")
    heads = ("pictures", "bytes before", "after", "ratio", "score", "CPU s before", "after")
    print(f"\n{'':<28}" + "".join(f"{head:>14}" for head in heads))
    for kind, rows in sorted(compared.items()):
        count, old_bytes, new_bytes, gained, old_s, new_s = map(sum, zip(*rows, strict=True))
        ratio = new_bytes / old_bytes
        kept = kept and ratio <= 1 + SIZE_TOLERANCE
        print(
            f"{kind:<28}{count:>14.0f}{old_bytes:>14,.0f}{new_bytes:>14,.0f}{ratio:>14.4f}{gained / count:>+14.3f}"
            f"{old_s:>14.1f}{new_s:>14.1f}"
        )
    return kept


def _compare_files(name: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Print how one result differs. Returns whether its score and its stability were kept."""
    kept = True
    if old["stable"] and not new["stable"]:
        kept = False
        print(f"{name}: changes when it is optimized again")
    if old["score"] is not None and (new["score"] is None or new["score"] < old["score"] - SCORE_TOLERANCE):
        kept = False
        print(f"{name}: score {old['score']} → {new['score']}")
    before, after = old["fields"] or {}, new["fields"] or {}
    for field in sorted(before.keys() | after.keys()):
        if before.get(field) != after.get(field):
            print(f"{name}: {field} {_line(before.get(field))} → {_line(after.get(field))}")
    return kept


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:400]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("folders", type=Path, nargs="*")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "record":
        record(arguments.file, arguments.folders)
        return 0
    before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (arguments.before, arguments.after))
    return 0 if compare(before, after) else 1


if __name__ == "__main__":
    sys.exit(main())
