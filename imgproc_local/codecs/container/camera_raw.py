"""Recognises camera raw files, so that their refusal names the format: a converter must develop them first."""

from __future__ import annotations

from imgproc_local.codecs.container import Data, tiff
from imgproc_local.domain.errors import BrokenImage

_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"FUJIFILMCCD-RAW", "a Fujifilm raw file (RAF)"),
    (4, b"ftypcrx ", "a Canon raw file (CR3)"),
    (8, b"CR\x02", "a Canon raw file (CR2)"),
    (6, b"HEAPCCDR", "a Canon raw file (CRW)"),
    (0, b"IIRO", "an Olympus or OM System raw file (ORF)"),
    (0, b"IIRS", "an Olympus or OM System raw file (ORF)"),
    (0, b"MMOR", "an Olympus or OM System raw file (ORF)"),
    (0, b"IIU\0", "a Panasonic or Leica raw file (RW2)"),
    (0, b"FOVb", "a Sigma raw file (X3F)"),
    (0, b"\0MRM", "a Minolta raw file (MRW)"),
)
"""Offset and bytes of files that are not TIFFs, and of CR2, which is one."""

_MAKERS = (
    ("NIKON", "a Nikon raw file (NEF)"),
    ("SONY", "a Sony raw file (ARW)"),
    ("PENTAX", "a Pentax raw file (PEF)"),
    ("RICOH", "a Pentax raw file (PEF)"),
    ("SAMSUNG", "a Samsung raw file (SRW)"),
    ("HASSELBLAD", "a Hasselblad raw file (3FR)"),
    ("PHASE ONE", "a Phase One raw file (IIQ)"),
)
_MAKE, _DNG_VERSION = 271, 50706
_SENSOR = (32803, 34892)
"""Photometric interpretations of DNG: a colour filter array, and linear raw."""
_MAX_SUB_DIRECTORIES = 8


def name(data: Data) -> str | None:
    """What the file is, with its article, such as "a Nikon raw file (NEF)"; None if it is not a raw file."""
    for offset, signature, found in _SIGNATURES:
        if data[offset : offset + len(signature)] == signature:
            return found
    if not tiff.matches(data[:4]):
        return None
    try:
        layout, page = tiff.first_directory(data)
        if _DNG_VERSION in page:
            return "a raw file (DNG)"
        if not _holds_sensor_data(data, layout, page):
            return None
        maker = tiff.text(data, page.get(_MAKE)).upper()
    except BrokenImage:
        return None
    return next((found for start, found in _MAKERS if maker.startswith(start)), "a camera raw file")


def _holds_sensor_data(data: Data, layout: tiff.Layout, page: tiff.Directory) -> bool:
    """Whether the first page or a directory below it is what the sensor recorded."""
    places = tiff.numbers(data, layout, page.get(tiff.SUB_IFDS))[:_MAX_SUB_DIRECTORIES]
    pages = [page, *(tiff.directory(data, layout, place)[0] for place in places)]
    return any(set(tiff.numbers(data, layout, each.get(tiff.PHOTOMETRIC))[:1]) & set(_SENSOR) for each in pages)
