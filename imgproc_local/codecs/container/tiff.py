"""The metadata in the tags of a TIFF's first page, which are read like those of EXIF. Read only.

Of a BigTIFF, which stores its tags otherwise, nothing is read here.
Source: TIFF 6.0; XMP specification part 3, 3.2; IPTC-IIM and Photoshop's resources in Adobe's TIFF technical notes.
"""

from __future__ import annotations

from collections.abc import Iterator

from imgproc_local.codecs.container import Blocks, Data
from imgproc_local.codecs.metadata import exif, iptc
from imgproc_local.codecs.metadata.blocks import MAX_BLOCK_BYTES
from imgproc_local.domain.privacy import Removed

_SUBFILE, _EXTRA_SAMPLES, _DNG_VERSION = 254, 338, 50706
_XMP, _IPTC, _PHOTOSHOP, _ICC = 700, 33723, 34377, 34675
_LAST_TIFF_TAG = 532
"""Fields up to this number are those of TIFF 6.0; they describe the pixels, except for those of `exif.TIFF_TAGS`."""


def is_camera_raw(data: Data) -> bool:
    """Whether the first page is what a sensor recorded (DNG), or only the preview that cameras store before it."""
    page = exif.read_ifd(data)
    return bool(page.number(_SUBFILE) & 1) or _DNG_VERSION in page.fields


def has_mask(data: Data) -> bool:
    """Whether the first extra sample of the first page is a mask or a spot colour, not transparency."""
    page = exif.read_ifd(data)
    return _EXTRA_SAMPLES in page.fields and page.number(_EXTRA_SAMPLES) == 0


def read_blocks(data: Data) -> Blocks:
    """The metadata of the first page; a block that is too large or lies outside the file counts as absent."""
    page = exif.read_ifd(data)
    datasets, resources = _bytes(page, _IPTC), _bytes(page, _PHOTOSHOP)
    if datasets is not None and datasets[:1] != b"\x1c" and datasets[3:4] == b"\x1c":
        # some programs store the datasets as 32-bit numbers in the byte order of the file
        datasets = b"".join(datasets[at : at + 4][::-1] for at in range(0, len(datasets), 4))
    if datasets is None and resources is not None:
        datasets = iptc.from_photoshop(resources)
    return Blocks(xmp=_bytes(page, _XMP), iptc=datasets, icc=_bytes(page, _ICC), tiff=data)


def dropped(data: Data) -> Iterator[Removed | None]:
    """The kinds of private data in Photoshop's resources, and in fields that are neither of pixels nor read."""
    page = exif.read_ifd(data)
    yield from iptc.kinds_of_resources(_bytes(page, _PHOTOSHOP) or b"")
    known = exif.TIFF_TAGS | {_XMP, _IPTC, _PHOTOSHOP, _ICC}
    if any(tag not in known and tag > _LAST_TIFF_TAG for tag in page.fields):
        yield Removed.OTHER


def with_blocks(_data: Data, _blocks: Blocks) -> bytes:
    """TIFFs are read only: results are JPEG, PNG, WebP or AVIF."""
    raise NotImplementedError("TIFF files are not written")


def _bytes(page: exif.Ifd, tag: int) -> bytes | None:
    field = page.fields.get(tag)
    if field is None or not 0 < field.end - field.start <= MAX_BLOCK_BYTES:
        return None
    return bytes(page.tiff[field.start : field.end])
