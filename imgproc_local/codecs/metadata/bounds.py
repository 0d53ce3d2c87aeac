"""How much of a file's metadata is read: bytes, counts and depths, all of which a hostile file may choose freely.

What exceeds a bound counts as absent, and is reported as `Removed.UNREADABLE` if it is XMP, a text that is cleaned, or
EXIF. Each bound is a multiple of what real files have, and small enough that reading, cleaning and writing everything
that it admits takes about a second.
"""

from __future__ import annotations

MAX_BLOCK_BYTES = 8 * 1024 * 1024
"""The largest metadata block that is read, after decompression: ICC profiles of printers have up to 3 MB."""

MAX_TEXT_BYTES = 64 * 1024
"""The largest PNG text or GIF comment that is read, after decompression."""

MAX_TEXTS = 32
"""The number of PNG texts or GIF comments that are read from one file."""

MAX_CLEANED_CHARACTERS = 128 * 1024
"""Characters in all texts of one file that are searched for private data, which takes up to 5 µs each.

The longest single text that is preserved has 32 Ki. `clean_text` caches its results, so that a text that several blocks
hold is searched once.
"""

MAX_SCANNED_CHARACTERS = 16 * 1024
"""Characters of removed comments and unknown fields that are searched for further kinds of private data."""

MAX_XMP_BYTES = 2 * 1024 * 1024
"""The largest XMP packet that is parsed. Larger ones hold previews or the history of a document."""

MAX_XMP_DEPTH = 256
"""The nesting depth of a packet's elements; deeper ones are skipped. Source: libxml2's limit, `xmlParserMaxDepth`."""

MAX_PUBLISHED_XMP_NODES = 4_096
"""Elements and attributes in all properties that are published; what follows is removed."""

MAX_IFD_ENTRIES = 512
"""Entries of one IFD of EXIF; cameras write fewer than 100."""
