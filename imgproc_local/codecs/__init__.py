"""Bytes to pixels and back: what a picture is, what it carries, and how small each format can make it.

Blocking functions for worker threads. Every error that leaves this room is one of `domain.errors`.
"""

import os

# libvips reads these when it is loaded, so they stand before any module of the room that imports it
os.environ.setdefault("VIPS_CONCURRENCY", "1")  # one thread per call: the pool is the caller's
os.environ.setdefault("VIPS_WARNING", "0")  # warnings to nobody: what matters comes as an error
