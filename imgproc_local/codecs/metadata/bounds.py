"""How much of a file's metadata is read: bytes, counts and depths, all of which a hostile file may choose freely.

What exceeds a bound counts as absent. `Removed.UNREADABLE` is reported for the bounds of XMP, of cleaned texts, of EXIF
texts, and of the number of IPTC datasets and, except in TIFF, EXIF entries. Each bound is a multiple of what real files
have, and small enough that reading, cleaning and writing everything that it admits takes less than a second.
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

MAX_CLEANED_TEXTS = 4_096
"""Texts of one file that are searched for private data. Catalogues give a picture a few hundred keywords at most."""

MAX_XMP_BYTES = 2 * 1024 * 1024
"""The largest XMP packet that is parsed. Larger ones hold previews or the history of a document."""

MAX_XMP_DEPTH = 256
"""The nesting depth of a packet's elements; deeper ones are skipped. Source: libxml2's limit, `xmlParserMaxDepth`."""

MAX_XMP_NODES = 50_000
"""Elements and attributes in a packet; further ones are skipped.

The longest lists in real files are Photoshop's document ancestors; one that fills `MAX_XMP_BYTES` has 32,000 entries.
"""

MAX_PUBLISHED_XMP_DEPTH = 16
"""The nesting depth of a published property; deeper elements are removed. IPTC and PLUS need at most eight levels."""

MAX_PUBLISHED_XMP_NODES = 4_096
"""Elements and attributes in all properties that are published; what follows is removed."""

MAX_PUBLISHED_XMP_BYTES = 1024 * 1024
"""The largest packet that is written, except into a JPEG, whose segments are smaller."""

MAX_IFD_ENTRIES = 512
"""Entries of one IFD of EXIF; cameras write fewer than 100."""

MAX_IPTC_DATASETS = 4_096
"""Datasets of IPTC-IIM; one keyword takes one."""

MAX_IPTC_LENGTH_BYTES = 4
"""Bytes of an extended dataset's length. Source: IIM 4.2, 1.5(c): four are enough for every size below 4 GB."""

MAX_PHOTOSHOP_RESOURCES = 4_096
"""Photoshop's image resources that are searched for IPTC-IIM; Photoshop writes fewer than 100."""

MAX_ICC_TAGS = 100
"""Tags of an ICC profile; the largest profiles have fewer than 40. Source: LittleCMS refuses more than 100."""

MAX_MERGED_VALUES = 64
"""Creators, copyright notices or credits of other blocks that are compared with those of XMP."""
