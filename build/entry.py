"""Where the frozen program starts.

The bootloader lets the dynamic loader look into the program's own folder first. The loader has read that by now, and
programs started from here, a browser for instance, must find their own libraries again.
"""

import os

ORIGINAL = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
if ORIGINAL is not None:
    os.environ["LD_LIBRARY_PATH"] = ORIGINAL
else:
    os.environ.pop("LD_LIBRARY_PATH", None)

from imgproc_local.cli import main  # noqa: E402 - nothing may be started before

main()
