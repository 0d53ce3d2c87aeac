"""The texts of jobs: their file names, which are unique in a project and language, and their versions.

A row of `translations` is the text in force. Once it has been changed, `translation_versions` has that version too, and
the versions before and after it.
"""

from __future__ import annotations

from collections.abc import Mapping

from imgproc_local.domain.errors import NoSuchVersion, NotFound
from imgproc_local.domain.job import Job
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.domain.slug import numbered
from imgproc_local.storage.database import Database, Row, Transaction
from imgproc_local.storage.job_rows import read_job

MAX_VERSIONS = 50
"""Versions of one text that are stored. A change beyond that deletes the oldest one."""


class Translations:
    """Changes of the texts of finished analyze stages. All changes return the job as it is afterwards."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def edit(self, job_id: str, language_code: str, *, alt_text: str | None, slug: str | None) -> Job:
        """Store words of a person as a new version, in place of all versions after the one in force.

        None leaves the alt text or the file name as it is. A file name that another picture has is numbered. The source
        becomes `person`; if only the file name is changed, an alt text that a person has to write remains `pixels`.

        Raises:
            NotFound: the job has no text in this language.
        """
        async with self._database.transaction() as tx:
            text = await read_text(tx, job_id, language_code)
            words = text["seo_alt_text"] if alt_text is None else alt_text
            is_unwritten = alt_text is None and text["source"] == TextSource.PIXELS
            source = TextSource.PIXELS if is_unwritten else TextSource.PERSON
            await store_version(tx, text, Translation(language_code, slug or text["seo_filename"], words, source))
            return await read_job(tx, job_id)

    async def undo(self, job_id: str, language_code: str) -> Job:
        """Return to the version before the one in force. Raises: NotFound, NoSuchVersion."""
        message = f"There is no earlier version of the text in {language_code!r}: nothing was changed."
        return await self._restore(job_id, language_code, -1, message)

    async def redo(self, job_id: str, language_code: str) -> Job:
        """Return to the version after the one in force. Raises: NotFound, NoSuchVersion."""
        message = f"There is no later version of the text in {language_code!r}: nothing was changed."
        return await self._restore(job_id, language_code, 1, message)

    async def _restore(self, job_id: str, language_code: str, step: int, message: str) -> Job:
        async with self._database.transaction() as tx:
            text = await read_text(tx, job_id, language_code)
            version = {"job_id": job_id, "language_code": language_code, "version": text["version"] + step}
            row = await tx.one("text_version", version)
            if row is None:
                raise NoSuchVersion(message)
            name, base, number = row["seo_filename"], row["slug_base"], row["slug_number"]
            if await _is_taken(tx, text, name):
                base, number = await _free_name(tx, text, base)
                name = _nth_name(base, number)
                await tx.run("rename_text_version", {**version, "seo_filename": name, "slug_number": number})
            words = {"seo_alt_text": row["seo_alt_text"], "source": row["source"]}
            names = {"seo_filename": name, "slug_base": base, "slug_number": number}
            await tx.run("update_translation", {**version, **names, **words})
            return await read_job(tx, job_id)


async def insert_translation(tx: Transaction, job: Job, position: int, translation: Translation) -> None:
    """Store the first version of one text, under a file name that is unique in its project and language."""
    where = {"job_id": job.id, "project_id": job.project_id, "language_code": translation.language_code}
    base, number = await _free_name(tx, where, translation.seo_filename)
    await tx.run(
        "insert_translation",
        {
            **where,
            "account_id": job.account_id,
            "position": position,
            "seo_filename": _nth_name(base, number),
            "slug_base": base,
            "slug_number": number,
            "seo_alt_text": translation.seo_alt_text,
            "source": translation.source.value,
        },
    )


async def read_text(tx: Transaction, job_id: str, language_code: str) -> Row:
    """The row of the text in force. Raises: NotFound."""
    text = await tx.one("translation", {"job_id": job_id, "language_code": language_code})
    if text is None:
        raise NotFound(f"This image has no text in {language_code[:40]!r}, or it is not written yet.")
    return text


async def store_version(tx: Transaction, text: Row, new: Translation) -> None:
    """Make `new` the version in force, after `text`; nothing if its words and source are the same."""
    name, base, number = await _name_for(tx, text, new.seo_filename)
    if (name, new.seo_alt_text, new.source) == (text["seo_filename"], text["seo_alt_text"], text["source"]):
        return
    where = {"job_id": text["job_id"], "language_code": text["language_code"]}
    version = text["version"] + 1
    await tx.run("insert_version_in_force", where)
    await tx.run("delete_later_versions", {**where, "version": text["version"]})
    row = {
        **where,
        "version": version,
        "seo_filename": name,
        "slug_base": base,
        "slug_number": number,
        "seo_alt_text": new.seo_alt_text,
        "source": new.source.value,
    }
    await tx.run("insert_text_version", row)
    await tx.run("update_translation", row)
    await tx.run("delete_earlier_versions", {**where, "version": version - MAX_VERSIONS + 1})


async def _name_for(tx: Transaction, text: Row, wanted: str) -> tuple[str, str, int]:
    """The file name that `text` gets if `wanted` is requested, and the base and number that it is made of."""
    own: tuple[str, str, int] = (text["seo_filename"], text["slug_base"], text["slug_number"])
    if wanted == own[0] or (wanted == own[1] and await _is_taken(tx, text, wanted)):
        return own  # its name is the wanted one, or has a number because the wanted one is taken
    base, number = await _free_name(tx, text, wanted)
    return _nth_name(base, number), base, number


async def _free_name(tx: Transaction, text: Row | Mapping[str, str], base: str) -> tuple[str, int]:
    """`base`, and the number that makes it a file name that no other picture of the project has in this language."""
    if not await _is_taken(tx, text, base):
        return base, 1
    highest = await tx.value("highest_slug_number", {**_scope(text), "slug_base": base})
    number = (highest or 1) + 1
    while await _is_taken(tx, text, _nth_name(base, number)):
        number += 1
    return base, number


async def _is_taken(tx: Transaction, text: Row | Mapping[str, str], name: str) -> bool:
    return await tx.value("slug_taken", {**_scope(text), "seo_filename": name}) is not None


def _scope(text: Row | Mapping[str, str]) -> dict[str, str]:
    """The parameters of a query for the names that a text must not have: those of other pictures in its project."""
    return {name: text[name] for name in ("job_id", "project_id", "language_code")}


def _nth_name(base: str, number: int) -> str:
    return base if number == 1 else numbered(base, number)
