"""The largest numbers of segments, scans, chunks, boxes and frames that are read from a file.

A hostile file may have any number of them. A file that exceeds a bound is refused with a message that names it, unless
its description says that the rest is not read. Each bound is a multiple of what real files have, and so small that one
pass over all parts takes less than a second.
"""

from __future__ import annotations

MAX_SEGMENTS = 2_000
"""Segments of a JPEG before its picture data, and again within it. A 25 MB file of full segments has about 400."""

MAX_PICTURES = 16
"""Pictures after the first in a JPEG: previews and a gain map. Further ones are not read."""

MAX_PNG_CHUNKS = 50_000
"""Chunks of a PNG. libpng writes 8 KB into each: 25 MB have 3,200."""

MAX_INFLATED_BYTES = 16 * 1024 * 1024
"""The decompressed size of all metadata blocks of a PNG: further ones are not read. Also that of all compressed texts.

A block that is damaged or too large counts as `MAX_BLOCK_BYTES`. libvips decompresses every text, and needs five times
as much memory for it.
"""

MAX_RAW_PROFILES = 16
"""Texts of a PNG that are searched for EXIF, IPTC or XMP. Further ones are not read."""

MAX_GIF_BLOCKS = 50_000
"""Blocks of a GIF: 20,000 frames, each with a graphic control extension, and comments."""

MAX_GIF_SUB_BLOCKS = 1_000_000
"""Sub-blocks of a GIF. A 25 MB file has about 100,000, because all but the last of a block have 255 bytes."""

MAX_WEBP_CHUNKS = 50_000
"""Chunks of a WebP; an animation has one for each frame."""

MAX_CHUNKS_IN_FRAME = 8
"""Chunks in a frame of a WebP, which has one or two."""

MAX_ITEMS = 16_384
"""Boxes in one box of an AVIF, its items and their extents, and entries of its property table.

A grid has one item per tile. Source: libheif's security limits allow 1,000 items of 32 extents each.
"""

MAX_TRACKS = 16
"""Tracks of an AVIF; an animation with alpha has two."""

MAX_CHUNK_OFFSETS = 100_000
"""Entries in the chunk offset tables of an AVIF, which give the positions of its frames."""
