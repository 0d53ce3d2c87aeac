"""The names of files in an archive.

Invariant: every system can unpack the archive. A name can be created everywhere (`domain.filename`), and two names
differ in more than the case or the Unicode form of their letters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from imgproc_local.domain.export import Variant
from imgproc_local.domain.filename import download_name
from imgproc_local.domain.job import Job

TABLE_NAME, DATA_NAME = "alt.csv", "alt.json"
"""The files at the top of an archive that list its images and their texts."""
MAX_STEM_BYTES = 120
MAX_FOLDER_BYTES = 60
"""Shorter than file systems allow, because Windows limits the length of a whole path to 259 characters."""


class ArchiveNames:
    """The names that are used in one archive. If there are several projects, each has a folder of its own.

    With `mark_originals`, the names of originals end in `-original`, because the archive has results too.
    """

    def __init__(self, projects: Sequence[str], *, mark_originals: bool) -> None:
        self._mark_originals = mark_originals
        self._used = {_comparable(TABLE_NAME), _comparable(DATA_NAME)}
        self._last_number: dict[str, int] = {}
        self._folders: dict[str, str] = {}
        if len(set(projects)) > 1:
            for project in dict.fromkeys(projects):
                folder = download_name(_cut(project, MAX_FOLDER_BYTES).rstrip(". "), "")
                self._folders[project] = self._numbered(folder, ("",)) + "/"

    def add(self, project: str, stem: str, extensions: Mapping[Variant, str]) -> dict[Variant, str]:
        """The names of the files of one image, which differ only in what follows the stem.

        If one of the names is taken by another image, `-2`, `-3` … is added to the stem.
        """
        endings = self._endings(extensions)
        stem = download_name(_cut(stem, MAX_STEM_BYTES), ".x").removesuffix(".x")
        stem = self._numbered(self._folders.get(project, "") + stem, tuple(endings.values()))
        return {variant: stem + ending for variant, ending in endings.items()}

    def _endings(self, extensions: Mapping[Variant, str]) -> dict[Variant, str]:
        """What follows the stem: `.jpg`, or `-converted.jpg` for a second file with the same extension."""
        endings: dict[Variant, str] = {}
        for variant, extension in extensions.items():
            plain = f".{extension}"
            marked = plain in endings.values() or (variant == "original" and self._mark_originals)
            endings[variant] = f"-{variant}{plain}" if marked else plain
        return endings

    def _numbered(self, stem: str, endings: Sequence[str]) -> str:
        """`stem`, numbered if it is taken with one of `endings`. Marks the resulting names as used."""
        key = _comparable(stem)
        number = self._last_number.get(key, 0)
        while True:
            number += 1
            candidate = stem if number == 1 else f"{stem}-{number}"
            names = {_comparable(candidate + ending) for ending in endings}
            if not names & self._used:
                self._used |= names
                self._last_number[key] = number
                return candidate


def stem_of(job: Job, language: str | None) -> str:
    """The stem of the names of an image's files: its file name in `language`, else in its first language with one.

    An image without any keeps the name of the uploaded file.
    """
    names = {text.language_code: text.seo_filename for text in job.translations if text.seo_filename}
    return names.get(language or "") or next(iter(names.values()), "") or PurePosixPath(job.original_filename).stem


def _comparable(name: str) -> str:
    """The same for all names that some file system does not distinguish."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _cut(text: str, max_bytes: int) -> str:
    return text.encode()[:max_bytes].decode("utf-8", "ignore")
