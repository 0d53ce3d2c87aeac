"""libvips with the settings of this program. Every module of `codecs` imports `pyvips` from here.

Loaders that libvips does not consider safe for untrusted files stay blocked.
"""

from __future__ import annotations

import os

# libvips reads these variables when it is loaded
os.environ.setdefault("VIPS_CONCURRENCY", "1")  # one thread per call, because the engine runs several calls at once
os.environ.setdefault("VIPS_WARNING", "0")  # no warnings on standard error: what matters is raised as an error

import pyvips

__all__ = ["of_samples", "pyvips"]

# A Python log handler can be called inside itself, when the garbage collector frees an image there and libvips logs a
# message about it; GLib then ends the process.
pyvips._remove_log_handler()
pyvips.cache_set_max(0)
pyvips.block_untrusted_set(True)


def of_samples(samples: bytes | bytearray, width: int, height: int, bands: int) -> pyvips.Image:
    """A picture in memory of 8-bit samples, row by row without padding: grey or, of three bands and more, sRGB."""
    image = pyvips.Image.new_from_memory(samples, width, height, bands, "uchar")
    return image.copy(interpretation="b-w" if bands < 3 else "srgb")
