"""Where pictures are read from and results are written to: a folder of this machine, or an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

from msgspec import Struct

PAGE_KEYS = 1000
"""The most objects of one page of a listing, as in S3."""
HEAD_BYTES = 512
"""What `head` reads, which is enough to detect the format."""


class SourceObject(Struct, frozen=True):
    """A file or an object that may be a picture.

    `key` is its path below the root, with `/` between the parts. `version` changes when the content does: the ETag of
    an object, or the size and modification time of a file.
    """

    key: str
    size_bytes: int
    version: str


def ignore(_: str) -> None:
    """The default `on_results` of `Store.pages`: reports nothing."""


def in_pages(objects: Iterator[SourceObject]) -> Iterator[list[SourceObject]]:
    """The objects in lists of `PAGE_KEYS`; the last one may be shorter."""
    while page := list(islice(objects, PAGE_KEYS)):
        yield page


class Store(Protocol):
    """The objects below one root, by key. Every call blocks.

    Every method may raise OSError: FileNotFoundError if an object to be read does not exist.
    """

    def pages(
        self, exclude: str | None = None, on_results: Callable[[str], None] = ignore
    ) -> Iterator[list[SourceObject]]:
        """The objects in pages, without hidden ones, those below the key `exclude`, and results of earlier runs.

        `on_results` is called with the key of each folder in which results are left out. Memory is bounded by a page.
        """
        ...

    def fetch(self, key: str, file: Path) -> str:
        """Copy an object to a local file, and return the SHA-256 of its content."""
        ...

    def head(self, key: str) -> bytes:
        """The first `HEAD_BYTES` of an object."""
        ...

    def create(self, key: str, file: Path) -> bool:
        """Store a copy of a local file in one step. False, with nothing changed, if the key is taken."""
        ...

    def replace(self, key: str, data: bytes) -> None:
        """Store an object in one step, in place of another."""
        ...

    def replace_by_file(self, key: str, file: Path) -> None:
        """Store a copy of a local file in one step, in place of another object."""
        ...

    def read(self, key: str) -> bytes:
        """The content of an object."""
        ...

    def sha256(self, key: str) -> str:
        """The SHA-256 of the content of an object."""
        ...

    def keys(self, folder: str) -> list[str]:
        """The keys of the objects directly in a folder, sorted; empty if it does not exist."""
        ...

    def remove(self, key: str) -> None:
        """Delete an object, if it exists."""
        ...


def exists(store: Store, key: str) -> bool:
    """Whether there is an object of this key. Raises: OSError."""
    try:
        store.head(key)
    except FileNotFoundError:
        return False
    return True


def is_hidden(key: str) -> bool:
    """Whether a part of the key begins with a dot."""
    return key.startswith(".") or "/." in key
