def requantized(data: bytes, luma_steps: bytes = b"", chroma_steps: bytes = b"", orientation: int = 1, /) -> bytes:
    """A YCbCr JPEG with its coefficients quantised anew, turned upright from the EXIF orientation.

    Steps are 64 bytes in zigzag order; without any, the coefficients are copied.
    Raises: ValueError if that is not possible.
    """
