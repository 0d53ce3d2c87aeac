"""Reads the headers of GGUF files: what kind of model they hold. Whether two belong together, the self-test finds out.

The header is not trusted: every count and length is checked against a limit and against the size of the file before it
is used, so reading a hostile file takes little memory and time.

Source: the GGUF specification, version 3 (ggml-org/ggml, docs/gguf.md).
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import IO

from msgspec import Struct

from imgproc_local.domain.errors import ModelUnusable

MAGIC = b"GGUF"
VERSIONS = (2, 3)
PROJECTOR_ARCHITECTURE = "clip"

USED_KEYS = ("general.architecture", "split.count", "clip.has_vision_encoder")
"""The metadata that is used."""
MAX_ENTRIES = 20_000
"""Limit for the number of metadata entries and for the number of tensors. Large models have about a thousand."""
MAX_ARRAY = 8_000_000
"""Limit for the elements of one array. The largest vocabularies have 262,144 tokens and half a million merges."""
MAX_STRINGS = 2_000_000
"""Limit for the strings of all arrays together, because each string must be skipped separately."""
MAX_KEY_BYTES = 4096
MAX_STRING_BYTES = 65_536
"""Limit for the text of a used key; other text is skipped."""
# the types of metadata values, those of numbers with their format in the module struct
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}


class Header(Struct, frozen=True):
    """The header of a GGUF file. `has_vision_encoder` is only False if the file says so."""

    architecture: str
    has_vision_encoder: bool = True

    @property
    def is_projector(self) -> bool:
        """Whether the file is a vision encoder with its projector (an mmproj file)."""
        return self.architecture == PROJECTOR_ARCHITECTURE


def read_header(path: Path, name_in_errors: str | None = None) -> Header:
    """The header of the file at `path`.

    `name_in_errors` is the file name for messages. Raises: ModelUnusable, if the file is no GGUF file.
    """
    name = name_in_errors or path.name
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise ModelUnusable(f"{name} is not a GGUF file.")
            return _Reader(name, file, os.fstat(file.fileno()).st_size).header()
    except OSError as error:
        raise ModelUnusable(f"{name} can't be read ({error.strerror}).") from error


class _Reader:
    """Reads the header of a file whose magic number has been read already. `name` is for messages."""

    def __init__(self, name: str, file: IO[bytes], size_bytes: int) -> None:
        self._name = name
        self._file = file
        self._size = size_bytes
        self._offset = len(MAGIC)
        self._strings = 0

    def header(self) -> Header:
        version = self._number("<I")
        if version not in VERSIONS:
            actual = "a big-endian file" if version & 0xFFFF == 0 else f"version {version}"
            raise ModelUnusable(
                f"{self._name} can't be used: expected a little-endian GGUF file of version 2 or 3; it is {actual}."
            )
        self._count(MAX_ENTRIES, "tensors")
        metadata: dict[str, object] = {}
        for _ in range(self._count(MAX_ENTRIES, "metadata entries")):
            key = self._string(MAX_KEY_BYTES)
            used = key in USED_KEYS
            value = self._value(self._number("<I"), used)
            if used:
                metadata[key] = value
        architecture = metadata.get("general.architecture")
        if not isinstance(architecture, str) or not architecture:
            raise self._damaged("no architecture")
        if metadata.get("split.count", 1) not in (0, 1):
            raise ModelUnusable(
                f"{self._name} is one part of a split model. Join the parts with `llama-gguf-split --merge` first."
            )
        return Header(architecture, metadata.get("clip.has_vision_encoder", True) is not False)

    def _value(self, kind: int, used: bool) -> object:
        """Read a value of the type `kind`. Arrays, and strings that are not `used`, are skipped: None."""
        if kind == _STRING:
            if used:
                return self._string(MAX_STRING_BYTES)
            self._skip(self._number("<Q"))
        elif kind == _ARRAY:
            element, count = self._number("<I"), self._count(MAX_ARRAY, "elements in an array")
            if element == _STRING:
                self._strings += count
                if self._strings > MAX_STRINGS:
                    raise self._damaged(f"{self._strings:,} strings")
                for _ in range(count):
                    self._skip(self._number("<Q"))
            else:
                self._skip(count * struct.calcsize(self._format(element)))
        else:
            return self._number(self._format(kind))
        return None

    def _format(self, kind: int) -> str:
        """The format of a number for the module struct."""
        if kind not in _SCALARS:
            raise self._damaged(f"a value of the unknown type {kind}")
        return _SCALARS[kind]

    def _number(self, struct_format: str) -> int:
        """Read a number. For the types of metadata that are no integers it is a float or a bool."""
        number: int = struct.unpack(struct_format, self._bytes(struct.calcsize(struct_format)))[0]
        return number

    def _count(self, limit: int, unit: str) -> int:
        """Read how many `unit` follow: at most `limit`."""
        count = self._number("<Q")
        if count > limit:
            raise self._damaged(f"{count:,} {unit}")
        return count

    def _string(self, max_bytes: int) -> str:
        size = self._number("<Q")
        if size > max_bytes:
            raise self._damaged(f"a string of {size:,} bytes")
        return self._bytes(size).decode("utf-8", "replace")

    def _bytes(self, size: int) -> bytes:
        read = self._file.read(size)
        if len(read) < size:
            raise self._truncated()
        self._offset += size
        return read

    def _skip(self, size: int) -> None:
        if size > self._size - self._offset:
            raise self._truncated()
        self._file.seek(size, os.SEEK_CUR)
        self._offset += size

    def _truncated(self) -> ModelUnusable:
        return ModelUnusable(f"{self._name} is truncated: it ends in its header, after {self._size:,} bytes.")

    def _damaged(self, what: str) -> ModelUnusable:
        return ModelUnusable(f"{self._name} is damaged: its header has {what}.")
