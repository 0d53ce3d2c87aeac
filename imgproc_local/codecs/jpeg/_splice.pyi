def spliced(luma: bytes, chroma: bytes, orientation: int = 1, /) -> bytes:
    """A JPEG with the luma coefficients of `luma` and the chroma coefficients of `chroma`.

    `orientation` is the EXIF orientation of `chroma`, which is turned upright.
    Raises: ValueError if the two JPEGs can't be combined.
    """
