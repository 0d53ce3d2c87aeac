"""Dates, camera and rating in results: preserved where a setting asks for them, and gone where it does not.

exiftool writes them into the pictures and reads them from the results.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.codecs.alt_texts import FileTexts, write_alt_texts
from imgproc_local.codecs.metadata import exif
from imgproc_local.codecs.metadata.blocks import Blocks
from imgproc_local.codecs.metadata.record import packed, read_record, unpacked
from imgproc_local.domain.image import Disclosure, Kept
from imgproc_local.domain.privacy import Removed
from imgproc_local.domain.result import Words
from tests.codecs import pictures
from tests.codecs.operations import CONVERT, whole
from tests.codecs.pictures import never_stop
from tests.support.reading import encode_file, optimize_file, picture, private_kinds, probe

WRITTEN: Mapping[Kept | None, Mapping[str, str]] = {
    Kept.DATES: {
        "ExifIFD:DateTimeOriginal": "2024:05:06 07:08:09",
        "ExifIFD:CreateDate": "2024:05:06 07:08:10",
        "IFD0:ModifyDate": "2024:05:07 11:12:13",
        "ExifIFD:OffsetTimeOriginal": "+02:00",
        "ExifIFD:SubSecTimeOriginal": "42",
        "XMP-xmp:CreateDate": "2024:05:06 07:08:10+02:00",
        "XMP-xmp:ModifyDate": "2024:05:07 11:12:13+02:00",
        "XMP-photoshop:DateCreated": "2024:05:06 07:08:09+02:00",
    },
    Kept.CAMERA: {
        "IFD0:Make": "NIKON CORPORATION",
        "IFD0:Model": "NIKON Z 8",
        "ExifIFD:LensMake": "Nikon",
        "ExifIFD:LensModel": "NIKKOR Z 24-120mm f/4 S",
        "ExifIFD:LensInfo": "24-120mm f/4",
        "ExifIFD:ExposureTime": "1/250",
        "ExifIFD:FNumber": "5.6",
        "ExifIFD:ISO": "400",
        "ExifIFD:ExposureCompensation": "-0.3",
        "ExifIFD:FocalLength": "70.0 mm",
        "ExifIFD:FocalLengthIn35mmFormat": "70 mm",
        "ExifIFD:Flash": "Off, Did not fire",
        "XMP-tiff:Model": "NIKON Z 8",
        "XMP-aux:Lens": "NIKKOR Z 24-120mm f/4 S",
        "XMP-exifEX:LensModel": "NIKKOR Z 24-120mm f/4 S",
        "XMP-exif:ISO": "400",
    },
    Kept.RATING: {"IFD0:Rating": "4", "XMP-xmp:Rating": "4", "XMP-xmp:Label": "Red"},
    None: {
        "ExifIFD:SerialNumber": "6012345",
        "ExifIFD:LensSerialNumber": "20054321",
        "ExifIFD:OwnerName": "Anna Owner",
        "ExifIFD:ImageUniqueID": "0123456789abcdef0123456789abcdef",
        "ExifIFD:UserComment": "a note",
        "IFD0:Software": "Ver.02.01",
        "IFD0:HostComputer": "Annas Mac",
        "XMP-aux:SerialNumber": "6012345",
        "XMP-aux:OwnerName": "Anna Owner",
        "XMP-exifEX:LensSerialNumber": "20054321",
        "XMP-xmp:CreatorTool": "Ver.02.01",
        "XMP-xmp:MetadataDate": "2024:05:08 01:02:03+02:00",
        "XMP-photoshop:History": "opened",
        "GPS:GPSDateStamp": "2024:05:06",
    },
}
"""What cameras and catalogues write, by what preserves it; None is never preserved."""
KIND_OF = {Kept.DATES: Removed.DATE, Kept.CAMERA: Removed.CAMERA}

pytestmark = pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool is not installed")


def from_camera(folder: Path, name: str) -> Path:
    """A picture with everything in `WRITTEN`."""
    path = pictures.write(folder, pictures.saved(pictures.scene(), name, quality=97), f"source.{name.lower()}")
    arguments = [f"-{tag}={value}" for tags in WRITTEN.values() for tag, value in tags.items()]
    subprocess.run(["exiftool", "-q", "-overwrite_original", *arguments, path], check=True, timeout=60)
    return path


def tags_of(*paths: Path) -> list[dict[str, Any]]:
    """Those of the tags in `WRITTEN` that each file has."""
    shown = subprocess.run(["exiftool", "-j", "-G1", "-s", "-a", *paths], check=True, capture_output=True, timeout=60)
    files = json.loads(shown.stdout)
    return [{tag: str(file[tag]) for tags in WRITTEN.values() for tag in tags if tag in file} for file in files]


def results(path: Path, name: str, disclosure: Disclosure) -> list[Path]:
    """The optimized and the converted file, or of a TIFF the file that it becomes."""
    info, made = probe(path), {}
    if name == "TIFF":
        made["jpeg"], _ = encode_file(path, info, never_stop, disclosure=disclosure)
    else:
        made[name.lower()] = whole(optimize_file(path, info, never_stop, disclosure=disclosure))
    target = "WEBP" if name == "JPEG" else "AVIF"
    if name in ("JPEG", "WEBP"):
        made[target.lower()] = CONVERT[target](path, info, never_stop, disclosure=disclosure)
    return [pictures.write(path.parent, data, f"result.{suffix}") for suffix, data in made.items()]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        *((name, kept) for name in ("JPEG", "PNG", "WEBP", "AVIF", "TIFF") for kept in (tuple(Kept), ())),
        *(("JPEG", (kept,)) for kept in Kept),
    ],
)
def test_a_result_has_what_a_setting_asks_for_and_nothing_else(
    tmp_path: Path, name: str, kept: tuple[Kept, ...]
) -> None:
    path, disclosure = from_camera(tmp_path, name), Disclosure(kept=frozenset(kept))
    made = results(path, name, disclosure)
    stored, *found = tags_of(path, *made)
    assert len(stored) == sum(map(len, WRITTEN.values()))
    expected = {tag: stored[tag] for kind, tags in WRITTEN.items() if kind in kept for tag in tags}
    assert found == [expected] * len(made)
    assert [private_kinds(result, probe(result), disclosure) for result in made] == [()] * len(made)
    removed = set(private_kinds(path, probe(path), disclosure))
    assert removed >= {KIND_OF[each] for each in KIND_OF if each not in kept} | {Removed.IDENTIFIER, Removed.PERSON}


@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP", "AVIF"])
def test_words_that_are_written_into_a_result_leave_what_it_keeps(tmp_path: Path, name: str) -> None:
    path = from_camera(tmp_path, name)
    info, disclosure = probe(path), Disclosure(kept=frozenset(Kept))
    result = pictures.write(tmp_path, whole(optimize_file(path, info, never_stop, disclosure=disclosure)), "result")
    words = Words("Two gulls above the harbour", ("gull", "harbour"), "Example Press")
    written = write_alt_texts(result, probe(result), FileTexts(), never_stop, words=words)
    before, after = tags_of(result, pictures.write(tmp_path, written, "written"))
    assert after == before


def test_a_stored_record_has_the_fields_and_is_read_again_for_other_settings(tmp_path: Path) -> None:
    path, disclosure = from_camera(tmp_path, "JPEG"), Disclosure(kept=frozenset({Kept.CAMERA}))
    record = picture(path, disclosure=disclosure).record
    restored = unpacked(packed(record, disclosure), disclosure)
    assert restored is not None
    assert restored.fields == record.fields
    assert restored.properties.keys() == record.properties.keys()
    assert unpacked(packed(record, disclosure), Disclosure()) is None


@pytest.mark.parametrize(
    ("field", "stored"),
    [
        ((2, b"NIKON Z 8\0"), (2, b"NIKON Z 8\0")),
        ((2, b"NIKON Z 8\0SN 6012345\0"), (2, b"NIKON Z 8\0")),
        ((2, b"NIKON Z 8, serial number: 6012345\0"), None),
        ((2, b"N" * 65), None),
        ((7, b"6012345\0"), None),
        ((3, b"\x08\0"), (3, b"\x08\0")),
    ],
)
def test_a_text_is_preserved_up_to_its_end_and_only_if_nothing_in_it_is_private(
    field: tuple[int, bytes], stored: tuple[int, bytes] | None
) -> None:
    out = bytearray(b"II*\0\x08\0\0\0")
    pictures._ifd(out, {exif.MODEL: field})
    record = read_record(Blocks(exif=bytes(out)), Disclosure(kept=frozenset(Kept)))
    assert record.fields.main == ({} if stored is None else {exif.MODEL: stored})
    assert bool(record.removed) is (stored is None)
