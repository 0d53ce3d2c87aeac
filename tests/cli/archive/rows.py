"""The row of a picture in the manifest of an archive, as a run writes it."""

from __future__ import annotations

from msgspec import structs

from imgproc_local.archive.picture import Row
from imgproc_local.batch import ResultFile
from imgproc_local.domain.image import Format
from imgproc_local.domain.result import TextSource, Translation

NEEDS_TEXT = (Translation("en", "a", "", TextSource.PIXELS),)


def row(source: str = "wing/a.jpg", **changes: object) -> Row:
    """A picture of 4,000 bytes that is done: its optimized file has 3,000 and its WebP file 1,000."""
    done = Row(
        source=source,
        version="1",
        size_bytes=4000,
        options="one",
        format=Format.JPEG,
        optimized=ResultFile(f"{source}-1.jpg", "00", 3000, Format.JPEG),
        converted=ResultFile(f"{source}-1.webp", "00", 1000, Format.WEBP),
        translations=(Translation("en", "a", f"A text of {source}", TextSource.FACTS),),
    )
    return structs.replace(done, **changes)
