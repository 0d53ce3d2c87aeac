"""Which pictures of a watched folder are complete: those whose size and time have not changed for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from imgproc_local.cli.process.discovery import Picture

SETTLED_S = 2.0
"""A file that has not changed for this time is complete."""
POLL_S = 1.0
SCAN_SHARE = 0.1
"""The most of the time that is spent on searching the folders."""


class Settling:
    """The pictures that were seen, and since when each has been unchanged. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[Path, tuple[int, int, float]] = {}
        self._failed: dict[Path, tuple[int, int]] = {}

    def settled(self, pictures: Sequence[Picture]) -> list[Picture]:
        """Those of the pictures found now that are complete and did not fail in their present state."""
        now = self._clock()
        seen: dict[Path, tuple[int, int, float]] = {}
        settled = []
        for picture in pictures:
            state = (picture.size_bytes, picture.modified_ns)
            if self._failed.get(picture.path) == state:
                continue
            *before, since_s = self._seen.get(picture.path, (*state, now))
            if (*before,) != state:
                since_s = now
            seen[picture.path] = (*state, since_s)
            if now - since_s >= SETTLED_S:
                settled.append(picture)
        self._seen = seen
        present = {picture.path for picture in pictures}
        self._failed = {path: state for path, state in self._failed.items() if path in present}
        return settled

    def failed(self, picture: Picture) -> None:
        """Do not process the picture again until it changes."""
        self._failed[picture.path] = (picture.size_bytes, picture.modified_ns)
