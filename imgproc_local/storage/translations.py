"""The texts of jobs: their file names, which are unique in a project and language, their versions, and requests for a
new text.

A row of `translations` is the text in force. Once it was changed, `translation_versions` has the versions before it,
and after an undo those after it. A row of `regenerations` is a request, with the credits that it holds; it is deleted
when the new text is stored. After a failure it remains with the reason, until the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from imgproc_local.domain.errors import NoSuchVersion, NotFound, OriginalRemoved, QueueFull
from imgproc_local.domain.filename import numbered
from imgproc_local.domain.job import Job
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.storage.accounts import move_credits, require_credits
from imgproc_local.storage.database import Database, Row, Transaction
from imgproc_local.storage.jobs import read_job


class Edit(Struct, frozen=True):
    """Words of a person. None leaves the alt text, the file name or the long description as it is.

    An `alt_text` of "" says that the picture is decorative. `new_slug` is the file name that follows from `alt_text`;
    it replaces the name of a text that needed words, unless a person wrote that name.
    """

    alt_text: str | None = None
    slug: str | None = None
    long_description: str | None = None
    new_slug: str | None = None


class Translations:
    """Changes of the texts of finished analyze stages. All changes return the job as it is afterwards.

    `request_limit` is the number of requests of one account that may wait. `publish` is called with the identifiers of
    the job and its account after each commit.
    """

    def __init__(
        self, database: Database, request_limit: int, publish: Callable[[str, str], None] = lambda *_: None
    ) -> None:
        self._database = database
        self._request_limit = request_limit
        self._publish = publish

    async def edit(self, job_id: str, language_code: str, edit: Edit) -> Job:
        """Store words of a person as a new version, in place of all versions after the one in force.

        A file name that another picture has is numbered. The source becomes `person`, unless the alt text is not
        changed and either a person still has to write it or the file name is not changed either.

        Raises:
            NotFound: the job has no text in this language.
        """
        async with self._database.transaction() as tx:
            text = await read_text(tx, job_id, language_code)
            old = stored_translation(text)
            slug = edit.slug
            if slug is None and old.needs_text and edit.alt_text != old.seo_alt_text and not await _is_named(tx, text):
                slug = edit.new_slug
            new = replace(
                old,
                seo_filename=slug or old.seo_filename,
                seo_alt_text=old.seo_alt_text if edit.alt_text is None else edit.alt_text,
                long_description=old.long_description if edit.long_description is None else edit.long_description,
            )
            if edit.alt_text is not None or (edit.slug is not None and not old.needs_text):
                new = replace(new, source=TextSource.PERSON, needs_text_reason=None, model="")
            await store_version(tx, text, new)
            job = await read_job(tx, job_id)
        self._publish(job.id, job.account_id)
        return job

    async def undo(self, job_id: str, language_code: str) -> Job:
        """Return to the version before the one in force. Raises: NotFound, NoSuchVersion."""
        return await self._restore(job_id, language_code, -1, "earlier")

    async def redo(self, job_id: str, language_code: str) -> Job:
        """Return to the version after the one in force. Raises: NotFound, NoSuchVersion."""
        return await self._restore(job_id, language_code, 1, "later")

    async def _restore(self, job_id: str, language_code: str, step: int, which: str) -> Job:
        async with self._database.transaction() as tx:
            text = await read_text(tx, job_id, language_code)
            where = {"job_id": job_id, "language_code": language_code}
            wanted = await tx.one("text_version", {**where, "version": text["version"] + step})
            if wanted is None:
                message = f"There is no {which} version of the text in {language_code!r}: nothing was changed."
                raise NoSuchVersion(message)
            restored = dict(wanted)
            if await _is_taken(tx, text, restored["seo_filename"]):
                restored |= await _free_name(tx, text, restored["slug_base"])
            await tx.run("save_version", where)
            await tx.run("update_translation", restored)
            job = await read_job(tx, job_id)
        self._publish(job.id, job.account_id)
        return job

    async def request(self, job_id: str, language_code: str, price: int) -> tuple[Job, bool]:
        """Request a new text. Returns the job, and whether the request is new: a text has at most one waiting.

        Raises:
            NotFound: the job has no text in this language.
            OriginalRemoved: the uploaded picture was removed because of its age.
            QueueFull, InsufficientCredits: nothing was stored.
        """
        async with self._database.transaction() as tx:
            account_id = (await read_text(tx, job_id, language_code))["account_id"]
            job = await read_job(tx, job_id)
            if job.text_states[language_code].regenerating:
                return job, False
            if job.original.expired:
                raise OriginalRemoved(
                    "The uploaded picture was removed because of its age, so no text can be written for it. Write the"
                    " text by hand, or send the picture again."
                )
            if await tx.value("count_waiting_regenerations", {"account_id": account_id}) >= self._request_limit:
                raise QueueFull(self._request_limit, "texts to write anew")
            await require_credits(tx, account_id, price)
            request = {"job_id": job_id, "language_code": language_code, "account_id": account_id, "price": price}
            paid_as = await tx.value("insert_regeneration", request)
            await move_credits(tx, account_id, "hold", -price, job_id, paid_as)
            job = await read_job(tx, job_id)
        self._publish(job.id, job.account_id)
        return job, True


async def insert_translation(tx: Transaction, job: Job, position: int, translation: Translation) -> None:
    """Store the first version of one text, under a file name that is unique in its project and language."""
    where = {"job_id": job.id, "project_id": job.project_id, "language_code": translation.language_code}
    await tx.run(
        "insert_translation",
        {
            **where,
            **await _free_name(tx, where, translation.seo_filename),
            "account_id": job.account_id,
            "position": position,
            **_words(translation),
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
    name = await _name_for(tx, text, new.seo_filename)
    if replace(new, seo_filename=str(name["seo_filename"])) == stored_translation(text):
        return
    where = {"job_id": text["job_id"], "language_code": text["language_code"]}
    version = text["version"] + 1
    await tx.run("save_version", where)
    # at most 50 versions of a text are stored
    await tx.run("limit_versions", {**where, "oldest": version - 49, "in_force": version})
    await tx.run("update_translation", {**where, **name, **_words(new), "version": version})


def stored_translation(text: Row) -> Translation:
    """The text of a row of `translations`."""
    return msgspec.convert({name: text[name] for name in Translation.__struct_fields__}, Translation)


async def _is_named(tx: Transaction, text: Row) -> bool:
    """Whether a person wrote the file name of `text`: it was changed without the alt text."""
    return await tx.value("named_by_person", dict(text)) is not None


def _words(translation: Translation) -> dict[str, str | None]:
    """The columns of a text besides its language and its file name."""
    columns: dict[str, str | None] = msgspec.to_builtins(translation)
    del columns["language_code"], columns["seo_filename"]
    return columns


_Name = dict[str, str | int]
"""The columns of a file name: `seo_filename`, and the `slug_base` and `slug_number` that it is made of."""


async def _name_for(tx: Transaction, text: Row, wanted: str) -> _Name:
    """The file name that `text` gets if `wanted` is requested."""
    own: _Name = {column: text[column] for column in ("seo_filename", "slug_base", "slug_number")}
    is_own = wanted == own["seo_filename"]
    if is_own or (wanted == own["slug_base"] and await _is_taken(tx, text, wanted)):
        return own  # its name is the wanted one, or has a number because the wanted one is taken
    return await _free_name(tx, text, wanted)


async def _free_name(tx: Transaction, text: Row | Mapping[str, str], base: str) -> _Name:
    """`base`, with the number that makes it a name that no other picture of the project has in this language."""
    name, number = base, 1
    if await _is_taken(tx, text, base):
        number = await tx.value("highest_slug_number", {**_scope(text), "slug_base": base}) or 1
        while name == base or await _is_taken(tx, text, name):
            number += 1
            name = numbered(base, number)
    return {"seo_filename": name, "slug_base": base, "slug_number": number}


async def _is_taken(tx: Transaction, text: Row | Mapping[str, str], name: str) -> bool:
    return await tx.value("slug_taken", {**_scope(text), "seo_filename": name}) is not None


def _scope(text: Row | Mapping[str, str]) -> dict[str, str]:
    """The parameters of a query for the names that a text must not have: those of other pictures in its project."""
    return {name: text[name] for name in ("job_id", "project_id", "language_code")}
