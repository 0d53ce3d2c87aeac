"""The inputs that fuzzing begins with, made by code: a valid file of each kind, and hostile ones that are small."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from PIL import ImageCms

from imgproc_local.codecs.container import avif_writer
from imgproc_local.domain.image import CodedColours
from tests.codecs import pictures as codec_pictures
from tests.codecs.metadata.profiles import PROFILES, planted
from tests.faults.floods import FLOODS
from tests.support import pictures as small_pictures

SMALL_FLOODS = (
    "xmp-nested-200.png",
    "xmp-entities.png",
    "exif-loop.jpg",
    "frames-declared.png",
    "extents-of-4-gib.avif",
)
"""Those floods (files with deep, long or numerous parts) that have few bytes, so that mutating them is quick."""

FORMATS = ("jpeg", "png", "gif", "webp", "avif", "jxl", "tiff", "heic")

FORM = (
    b"multipart/form-data; boundary=----a\n"
    b'------a\r\nContent-Disposition: form-data; name="languages"\r\n\r\nen,de\r\n'
    b'------a\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n'
    b"Content-Type: image/png\r\n\r\n\x89PNG\r\n\x1a\n\r\n------a--\r\n"
)
"""An input of `fuzz_multipart`: the value of Content-Type in the first line, then the body of the request."""
TEXTS = (
    "Two gulls above the harbour of Example at 52.5189, 13.4003, write to ada@example.org",
    '{"lat": 52.1, "lon": 13.2, "owner": "Ada"} <gpx><trkpt lat="54.22"/></gpx> https://www.google.com/maps/@1.1,2.2',
    "S/N 5822-QW N 66° 31.606 W 006° 07.606 30U XC 99316 10163 9C3XGV4C+9F 64°31'26.4\"N ISO: 100; Gain: 3",
)
"""Descriptions with what is removed from texts: coordinates in several notations, addresses, serial numbers."""


@cache
def seeds(target: str) -> tuple[bytes, ...]:
    """The seeds of a target of `tests/fuzz/targets.py`."""
    if target in FORMATS:
        return _of_format(target)
    return _parts()[target]


def _of_format(name: str) -> tuple[bytes, ...]:
    """A plain file of the format, one with metadata in all fields, animated and progressive ones, and hostile ones."""
    full, plain = {
        "jpeg": (codec_pictures.jpeg_with_metadata, small_pictures.jpeg),
        "png": (codec_pictures.png_with_metadata, small_pictures.png),
        "gif": (codec_pictures.gif_with_metadata, small_pictures.gif),
        "webp": (codec_pictures.webp_with_metadata, small_pictures.webp),
        "avif": (codec_pictures.avif_with_metadata, small_pictures.avif),
        "jxl": (codec_pictures.jxl_with_metadata, codec_pictures.small_jxl),
        "tiff": (codec_pictures.tiff_with_metadata, lambda *size: _encoded("TIFF")),
        "heic": (
            lambda: codec_pictures.as_heic(codec_pictures.avif_with_metadata()),
            lambda *size: codec_pictures.as_heic(small_pictures.avif(*size)),
        ),
    }[name]
    more = [_encoded("JPEG", progressive=True)] if name == "jpeg" else []
    if name == "jxl":
        more.append(codec_pictures.jxl_of(_encoded("JPEG")))
    if name in ("png", "gif", "webp", "avif"):
        more.append(codec_pictures.animated(name.upper(), [100] * 3))
    if name == "png":
        chunks = (codec_pictures.chunk(b"cICP", bytes((9, 16, 0, 1))), codec_pictures.chunk(b"cLLI", bytes(8)))
        more.append(codec_pictures.with_png_chunks(plain(16, 16), *chunks))
    if name == "avif":
        more.append(avif_writer.with_colours(plain(16, 16), CodedColours(9, 16, 400)))
    suffix = "jpg" if name == "jpeg" else name
    hostile = [FLOODS[file]() for file in SMALL_FLOODS if file.endswith(suffix)]
    small = plain(2, 8, 8) if name == "gif" else plain(16, 16)
    return (small, full(), *more, *hostile)


def _encoded(name: str, **options: object) -> bytes:
    return small_pictures.encoded(small_pictures.photo(16, 16), name, **options)


def _parts() -> Mapping[str, tuple[bytes, ...]]:
    return {
        "xmp": (codec_pictures.xmp_packet(),),
        "exif": (codec_pictures.tiff(),),
        "iptc": (codec_pictures.photoshop(codec_pictures.iptc_datasets()), codec_pictures.iptc_datasets()),
        "icc": (ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes(), *PROFILES.values(), planted()),
        "texts": tuple(text.encode() for text in TEXTS),
        "multipart": (FORM,),
    }
