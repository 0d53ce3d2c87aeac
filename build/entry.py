"""The entry point of the frozen program.

PyInstaller's bootloader sets LD_LIBRARY_PATH to the program's own folder. The original value is restored first, so that
other programs that are started from here, such as a browser, find their own libraries.
"""

import os

ORIGINAL = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
if ORIGINAL is not None:
    os.environ["LD_LIBRARY_PATH"] = ORIGINAL
else:
    os.environ.pop("LD_LIBRARY_PATH", None)

from imgproc_local.__main__ import main  # noqa: E402 - imported only after the environment is restored

main()
