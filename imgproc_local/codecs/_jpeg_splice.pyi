def spliced(luma: bytes, chroma: bytes, /) -> bytes:
    """The brightness of one JPEG with the colour of another. Raises: ValueError where they can't be put together."""
