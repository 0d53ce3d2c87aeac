"""Reads the header of a GGUF file: what it is, whether all of it is there, and whether a pair belongs together.

Nothing of it is trusted: every count and length is checked against a bound and against the size of the file before it
is used, so a hostile file costs a refusal and neither memory nor time.

Source: the GGUF specification, version 3 (ggml-org/ggml, docs/gguf.md); block sizes from ggml's type table.
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

WANTED_KEYS = ("general.architecture", "general.alignment", "split.count", "clip.has_vision_encoder")
MAX_ENTRIES = 20_000
"""Metadata entries, and tensors: large models have a thousand."""
MAX_ARRAY = 8_000_000
"""Elements of one array: the largest vocabularies have 262,144 tokens and half a million merges."""
MAX_TEXTS = 2_000_000
"""Of all arrays of text together, which are walked one by one."""
MAX_KEY_BYTES = 4096
MAX_TEXT_BYTES = 65_536
"""Of a text that is kept; the others are passed over."""
MAX_DIMENSIONS = 4
MAX_ALIGNMENT = 1024 * 1024
DEFAULT_ALIGNMENT = 32

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}

_BLOCKS = {
    # type number: elements of a block, bytes of a block
    **{0: (1, 4), 1: (1, 2), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 30: (1, 2)},
    **{2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 39: (32, 17), 40: (64, 36), 41: (128, 18)},
    **{10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 34: (256, 54), 35: (256, 66)},
    **{16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82)},
    **{23: (256, 136), 29: (256, 56)},
}
"""A type that is not here is newer than this table: llama.cpp says whether it knows it, when the model is proved."""


class Header(Struct, frozen=True):
    """What a GGUF file says of itself. `widths` are all sizes of a projector's tensors."""

    architecture: str
    tensors: int
    embedding_length: int | None = None
    sees: bool = True
    widths: frozenset[int] = frozenset()

    @property
    def is_projector(self) -> bool:
        return self.architecture == PROJECTOR_ARCHITECTURE


def read_header(path: Path, called: str | None = None) -> Header:
    """The header of the file at `path`, after checking that all its tensors are in it. `called` is its name in errors.

    Raises: ModelUnusable, saying what is wrong with it.
    """
    name = called or path.name
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise ModelUnusable(f"{name} is not a GGUF file.")
            return _Reader(name, file, os.fstat(file.fileno()).st_size).header()
    except OSError as error:
        raise ModelUnusable(f"{name} can't be read ({error.strerror}).") from error


def check_pair(text: Header, projector: Header) -> None:
    """Refuse a pair that can't work together: a projector must make embeddings of the text model's width.

    Raises: ModelUnusable.
    """
    if not projector.sees:
        raise ModelUnusable("The projector (mmproj) is not for pictures.")
    width = text.embedding_length
    if width is not None and width not in projector.widths:
        raise ModelUnusable(
            f"The text model and the projector don't belong together: the text model ({text.architecture}) expects"
            f" embeddings of {width} numbers, and the projector makes none of that size."
        )


class _Reader:
    def __init__(self, name: str, file: IO[bytes], size_bytes: int) -> None:
        self._name = name
        self._file = file
        self._size = size_bytes
        self._at = len(MAGIC)
        self._texts = 0

    def header(self) -> Header:
        version = self._number("<I")
        if version not in VERSIONS:
            told = "it is big-endian" if version & 0xFFFF == 0 else f"it has version {version}"
            raise ModelUnusable(f"{self._name} is a GGUF file of a kind that can't be used: {told}.")
        tensors = self._count(MAX_ENTRIES, "tensors")
        facts: dict[str, object] = {}
        for _ in range(self._count(MAX_ENTRIES, "metadata entries")):
            key = self._text(MAX_KEY_BYTES)
            wanted = key in WANTED_KEYS or key.endswith(".embedding_length")
            value = self._value(self._number("<I"), wanted)
            if wanted:
                facts[key] = value
        architecture = facts.get("general.architecture")
        if not isinstance(architecture, str) or not architecture:
            raise self._damaged("no architecture")
        if facts.get("split.count", 1) not in (0, 1):
            raise ModelUnusable(
                f"{self._name} is one part of a split model. Join the parts with `llama-gguf-split --merge` first."
            )
        widths = self._check_tensors(tensors, facts.get("general.alignment", DEFAULT_ALIGNMENT))
        length = facts.get(f"{architecture}.embedding_length")
        projector = architecture == PROJECTOR_ARCHITECTURE
        return Header(
            architecture=architecture,
            tensors=tensors,
            embedding_length=length if type(length) is int else None,
            sees=facts.get("clip.has_vision_encoder", True) is not False,
            widths=frozenset(widths) if projector else frozenset(),
        )

    def _check_tensors(self, tensors: int, alignment: object) -> set[int]:
        """The sizes of all dimensions, after checking that every tensor ends inside the file."""
        if type(alignment) is not int or not 0 < alignment <= MAX_ALIGNMENT:
            raise self._damaged(f"the alignment {alignment!r}")
        widths: set[int] = set()
        end = 0
        for _ in range(tensors):
            self._text(MAX_KEY_BYTES)
            dimensions = self._number("<I")
            if dimensions > MAX_DIMENSIONS:
                raise self._damaged(f"a tensor of {dimensions} dimensions")
            elements = 1
            for _ in range(dimensions):
                size = self._number("<Q")
                elements *= size
                widths.add(size)
            block, block_bytes = _BLOCKS.get(self._number("<I"), (1, 0))
            end = max(end, self._number("<Q") + elements // block * block_bytes)
        start = -(-self._at // alignment) * alignment
        if tensors and start + end > self._size:
            raise ModelUnusable(
                f"{self._name} is cut off: it has {self._size:,} bytes, and by its header it needs {start + end:,}."
            )
        return widths

    def _value(self, kind: int, wanted: bool) -> object:
        """A number or a text, None for what is passed over."""
        if kind == _STRING:
            if wanted:
                return self._text(MAX_TEXT_BYTES)
            self._pass(self._number("<Q"))
        elif kind == _ARRAY:
            element, count = self._number("<I"), self._count(MAX_ARRAY, "elements in an array")
            if element == _STRING:
                self._texts += count
                if self._texts > MAX_TEXTS:
                    raise self._damaged(f"{self._texts:,} texts")
                for _ in range(count):
                    self._pass(self._number("<Q"))
            else:
                self._pass(count * struct.calcsize(self._format(element)))
        else:
            return self._number(self._format(kind))
        return None

    def _format(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise self._damaged(f"a value of the unknown type {kind}")
        return _SCALARS[kind]

    def _number(self, form: str) -> int:
        number: int = struct.unpack(form, self._bytes(struct.calcsize(form)))[0]
        return number

    def _count(self, most: int, of_what: str) -> int:
        count = self._number("<Q")
        if count > most:
            raise self._damaged(f"{count:,} {of_what}")
        return count

    def _text(self, most_bytes: int) -> str:
        size = self._number("<Q")
        if size > most_bytes:
            raise self._damaged(f"a text of {size:,} bytes")
        return self._bytes(size).decode("utf-8", "replace")

    def _bytes(self, size: int) -> bytes:
        read = self._file.read(size)
        if len(read) < size:
            raise self._cut_off()
        self._at += size
        return read

    def _pass(self, size: int) -> None:
        if size > self._size - self._at:
            raise self._cut_off()
        self._file.seek(size, os.SEEK_CUR)
        self._at += size

    def _cut_off(self) -> ModelUnusable:
        return ModelUnusable(f"{self._name} is cut off in its header, after {self._size:,} bytes.")

    def _damaged(self, what: str) -> ModelUnusable:
        return ModelUnusable(f"{self._name} is damaged: its header has {what}.")
