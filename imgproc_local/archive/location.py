"""The arguments SOURCE and TARGET: the path of a folder, or the URL of an object store."""

from __future__ import annotations

import re
from pathlib import Path

from imgproc_local.archive.manifest import PARTS_FOLDER, REPORT_NAME, TABLE_NAME, TEXTS_NAME
from imgproc_local.archive.stores import LocalStore, ObjectStore, Store
from imgproc_local.batch import STATE_FOLDER, archive_target_above
from imgproc_local.domain.errors import InvalidRequest

MISSPELT_URL = re.compile(r"[a-z][a-z0-9]+:/(?!/)|(s3a?|gc?s|az|abfs)//", re.IGNORECASE)
"""A URL that lacks a slash or its colon. A scheme has at least two letters: `C:/` begins a path of Windows."""


def locations(source: str, target: str) -> tuple[str, str, str | None]:
    """SOURCE and TARGET as workers need them, and the key of TARGET below SOURCE, if it lies there.

    Raises: InvalidRequest, if one of them can't be used, or if SOURCE has the results of an earlier run; OSError.
    """
    source, target = absolute("SOURCE", source), absolute("TARGET", target)
    if not is_url(source) and not Path(source).is_dir():
        raise refusal("source", f"Expected a folder or a URL as SOURCE, but there is no folder {source}.")
    key = inside_source(source, target)
    if is_url(source):
        earlier: str | Path | None = source if open_store(source).keys(PARTS_FOLDER) else None
    else:
        earlier = archive_target_above(Path(source))
    if earlier is not None:
        raise refusal(
            "source",
            f"Expected originals in SOURCE, but {earlier} has the results of `archive`, as its folder {STATE_FOLDER}"
            " says. Name the folder that the originals are in.",
        )
    return source, target, key


def refusal(argument: str, message: str) -> InvalidRequest:
    return InvalidRequest({argument: [message]})


def absolute(name: str, location: str) -> str:
    """The location as workers need it: an absolute path, or a URL without a slash at its end.

    `name` is that of the argument. Raises: InvalidRequest, if the location is empty or a misspelt URL.
    """
    if not location or MISSPELT_URL.match(location):
        raise refusal(
            name.lower(),
            f"Expected a folder, or a URL such as s3://BUCKET/PATH, as {name}, received “{location}”. Write ./ before"
            " the name of a folder that looks like a URL.",
        )
    location = location.removeprefix("file://")
    if is_url(location):
        protocol, _, rest = location.rstrip("/").partition("://")
        return f"{protocol.lower()}://{rest}"
    return str(Path(location).expanduser().absolute())


def inside_source(source: str, target: str) -> str | None:
    """The key of `target` below `source`; None if it lies elsewhere.

    Raises: InvalidRequest, if they are the same or the source lies in the target: results would be taken as pictures.
    """
    if not is_url(source):
        source, target = (each if is_url(each) else Path(each).resolve().as_posix() for each in (source, target))
    if f"{source}/".startswith(f"{target}/"):
        raise refusal("target", "Expected a TARGET outside SOURCE, or a folder in it.")
    return target.removeprefix(f"{source}/") if target.startswith(f"{source}/") else None


def is_url(location: str) -> bool:
    return "://" in location


def open_store(location: str) -> Store:
    """The store at a location that `absolute` returned. Raises: ImportError, without the plug-in for a URL; OSError."""
    return ObjectStore(location) if is_url(location) else LocalStore(Path(location))


def require_no_tables(store: Store, target: str) -> None:
    """Raises: InvalidRequest, if a target without results has files that the tables would replace; OSError."""
    taken = [name for name in (TABLE_NAME, TEXTS_NAME, REPORT_NAME) if store.exists(name)]
    if taken:
        raise refusal(
            "target",
            f"TARGET {target} has no results of `archive`, but a file that `archive` would replace: {', '.join(taken)}."
            " Move it away, or name another TARGET.",
        )
