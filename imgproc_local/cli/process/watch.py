"""Which pictures of a watched folder are complete: those whose size and time have not changed for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from imgproc_local.cli.process.discovery import Picture

SETTLED_S = 2.0
"""A file that has not changed for this time is complete."""
POLL_S = 1.0
"""The shortest pause between two searches."""
SCAN_SHARE = 0.1
"""The largest share of the time that is spent on searching the folders."""


class CompletePictures:
    """Remembers since when each picture of the watched folders has been unchanged. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unchanged_since: dict[Path, tuple[int, int, float]] = {}
        self._failed: dict[Path, tuple[int, int]] = {}

    def among(self, pictures: Sequence[Picture]) -> list[Picture]:
        """Those of `pictures`, the result of the latest search, that are complete.

        A picture that failed is left out until it changes.
        """
        now = self._clock()
        unchanged_since: dict[Path, tuple[int, int, float]] = {}
        complete = []
        for picture in pictures:
            state = (picture.size_bytes, picture.modified_ns)
            if self._failed.get(picture.path) == state:
                continue
            *before, since_s = self._unchanged_since.get(picture.path, (*state, now))
            if (*before,) != state:
                since_s = now
            unchanged_since[picture.path] = (*state, since_s)
            if now - since_s >= SETTLED_S:
                complete.append(picture)
        self._unchanged_since = unchanged_since
        present = {picture.path for picture in pictures}
        self._failed = {path: state for path, state in self._failed.items() if path in present}
        return complete

    def mark_failed(self, picture: Picture) -> None:
        """Do not process the picture again until it changes."""
        self._failed[picture.path] = (picture.size_bytes, picture.modified_ns)
