def spliced(luma: bytes, chroma: bytes, orientation: int = 1, /) -> bytes:
    """The brightness of one JPEG with the colour of another, which is turned as its EXIF orientation says.

    Raises: ValueError where they can't be put together.
    """
