"""The texts of jobs: their file names, which are unique in a project and language, their versions, and requests for a
new text.

A row of `translations` is the text in force. Once it was changed, `translation_versions` has the versions before it,
and after an undo those after it. A row of `regenerations` is a request, with the credits that it holds; it is deleted
when the new text is stored. After a failure it remains with the reason, until the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from imgproc_local.domain.errors import NoSuchVersion, NotFound, OriginalRemoved, QueueFull, TextOfPerson
from imgproc_local.domain.filename import numbered
from imgproc_local.domain.job import Job
from imgproc_local.domain.plan import Role
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.storage.accounts import move_credits, require_credits
from imgproc_local.storage.database import Database, Row, Transaction
from imgproc_local.storage.jobs import read_job

_OF_PERSONS = (TextSource.PERSON, TextSource.EMBEDDED)


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

    async def edit(self, job_id: str, language_code: str, words: dict[str, str], new_slug: str = "") -> Job:
        """Store words of a person as a new version, in place of all versions after the one in force.

        `words` are those of `seo_alt_text`, `seo_filename` and `long_description` that change. An alt text of "" says
        that the picture is decorative. `new_slug` is the file name that follows from the alt text. It replaces the name
        of a text that needed words, unless a person wrote that name. A file name that another picture has is numbered.
        The source becomes `person`, unless the alt text is not sent, and a person still has to write it or the file
        name is not sent either.

        Raises:
            NotFound: the job has no text in this language.
        """
        async with self._database.transaction() as tx:
            text = await read_text(tx, job_id, language_code)
            old = stored_translation(text)
            new = replace(old, **words)
            is_unnamed = "seo_filename" not in words | await _words_of_person(tx, text)
            if new_slug and old.needs_text and is_unnamed and new.seo_alt_text != old.seo_alt_text:
                new = replace(new, seo_filename=new_slug)
            if "seo_alt_text" in words or ("seo_filename" in words and not old.needs_text):
                new = replace(new, source=TextSource.PERSON, needs_text_reason=None)
            # a long description counts as the model's as long as the model is named
            if "long_description" in words or (new.source is TextSource.PERSON and not new.long_description):
                new = replace(new, model="")
            await store_version(tx, text, new)
            job = await read_job(tx, job_id)
        self._publish(job.id, job.account_id)
        return job

    async def restore(self, job_id: str, language_code: str, step: Literal[-1, 1]) -> Job:
        """Return to the version before (-1) or after (1) the one in force. Raises: NotFound, NoSuchVersion."""
        async with self._database.transaction() as tx:
            text = await read_text(tx, job_id, language_code)
            where = {"job_id": job_id, "language_code": language_code}
            wanted = await tx.one("text_version", {**where, "version": text["version"] + step})
            if wanted is None:
                which = "earlier" if step < 0 else "later"
                raise NoSuchVersion(f"The text in {language_code!r} has no {which} version: nothing was changed.")
            restored = dict(wanted)
            if await _is_taken(tx, text, restored["seo_filename"]):
                restored |= await _free_name(tx, text, restored["slug_base"])
            await tx.run("save_version", where)
            await tx.run("update_translation", restored)
            job = await read_job(tx, job_id)
        self._publish(job.id, job.account_id)
        return job

    async def request(self, job_id: str, language_code: str, price: int, *, replaces_person: bool) -> tuple[Job, bool]:
        """Request a new text. Returns the job, and whether the request is new: a text has at most one waiting.

        Raises:
            NotFound: the job has no text in this language.
            TextOfPerson: a person wrote the text, and not `replaces_person`.
            OriginalRemoved: the picture was removed because of its age, or the text is made of a context.
            QueueFull, InsufficientCredits: nothing was stored.
        """
        async with self._database.transaction() as tx:
            text = await read_text(tx, job_id, language_code)
            account_id = text["account_id"]
            job = await read_job(tx, job_id)
            if job.text_states[language_code].regenerating:
                return job, False
            lost = "The uploaded picture was removed because of its age" if job.original.expired else ""
            if job.role in (Role.LINK, Role.BUTTON):
                lost = f"The context that says what the {job.role} is for is no longer stored"
            if lost:
                raise OriginalRemoved(f"{lost}. Write the text by hand, or send the picture again.")
            if text["source"] in _OF_PERSONS and not replaces_person:
                raise TextOfPerson(
                    f"A person wrote the text in {language_code!r}. To have it replaced nevertheless, send the request"
                    " with replace=true; undo restores it. Nothing was changed or charged."
                )
            if await tx.value("count_waiting_regenerations", {"account_id": account_id}) >= self._request_limit:
                raise QueueFull(self._request_limit, "texts to write anew")
            await require_credits(tx, account_id, price)
            request = {"job_id": job_id, "language_code": language_code, "account_id": account_id, "price": price}
            replaceable = text["version"] if replaces_person else 0
            paid_as = await tx.value("insert_regeneration", {**request, "replaces_person": replaceable})
            await move_credits(tx, account_id, "hold", -price, job_id, paid_as)
            job = await read_job(tx, job_id)
        self._publish(job.id, job.account_id)
        return job, True


async def insert_translation(tx: Transaction, job: Job, position: int, translation: Translation) -> None:
    """Store the first version of one text, under a file name that is unique in its project and language."""
    where = {"job_id": job.id, "project_id": job.project_id, "language_code": translation.language_code}
    name = await _free_name(tx, where, translation.seo_filename)
    row = {**where, **msgspec.to_builtins(translation), **name, "account_id": job.account_id, "position": position}
    await tx.run("insert_translation", row)


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
    await tx.run("update_translation", {**where, **msgspec.to_builtins(new), **name, "version": version})


def stored_translation(text: Row) -> Translation:
    """The text of a row of `translations`."""
    return msgspec.convert({name: text[name] for name in Translation.__struct_fields__}, Translation)


async def store_regenerated(tx: Transaction, request_id: int, new: Translation) -> str | None:
    """Make `new` the version in force, and return None; or the reason why the present one is kept.

    A file name and a long description that a person wrote remain, unless the request says that they may be replaced
    and they were there already.
    """
    text = await tx.one("regenerated_text", {"id": request_id})
    if text is None:  # the job was deleted
        return None
    if new.needs_text and text["needs_text_reason"] is None:
        return "Nothing was found in the picture of which a better text could be made, so the text in force was kept."
    if text["replaces_person"] != text["version"]:
        if text["source"] in _OF_PERSONS:
            return "A person has written this text meanwhile, so it was kept."
        new = replace(new, **await _words_of_person(tx, text))
    await store_version(tx, text, new)
    return None


async def _words_of_person(tx: Transaction, text: Row) -> dict[str, str]:
    """The file name and the long description of `text` that a person wrote: they were changed without the alt text."""
    changed = await tx.one("changed_by_person", dict(text))
    assert changed is not None
    return {name: text[name] for name in ("seo_filename", "long_description") if changed[name]}


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
