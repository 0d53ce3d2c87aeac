"""Picture files in, picture files out: optimization in the same format, and conversion to WebP and AVIF.

Blocking functions. Every error that leaves this package is one of `domain.errors`.
"""

LARGE_PIXELS = 24_000_000
"""Pictures and animations of at least this many pixels, all frames together, are large: they get the least effort and
memory.
"""
