"""The texts of jobs: their file names, which are unique in a project and language, their versions, and requests for a
new text.

A row of `translations` is the text in force. Once it was changed, `translation_versions` has the versions before it,
and after an undo those after it. A row of `regenerations` is a request, with the credits that it holds; it is deleted
when the new text is stored. After a failure it remains with the reason, until the next request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from imgproc_local.domain import errors, result
from imgproc_local.domain.errors import NotFound, ServiceError
from imgproc_local.domain.filename import numbered
from imgproc_local.domain.job import Job
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.plan import MAX_LANGUAGES, Role
from imgproc_local.domain.result import NewTexts, StoredText, TextEdit, TextName, TextState, Translation
from imgproc_local.storage.accounts import move_credits, require_credits
from imgproc_local.storage.database import Database, Row, Transaction
from imgproc_local.storage.jobs import read_job

_OF_PERSONS = (result.TextSource.PERSON, result.TextSource.EMBEDDED)
_Name = TypeVar("_Name", bound=TextName)
_Change = Callable[[Transaction, str, _Name], Awaitable[None]]
Outcome = StoredText | ServiceError
"""A text as it is after a change, or the reason why it was not changed."""


class Translations:
    """Changes of the texts of finished analyze stages.

    A change takes a list of texts, and is one transaction. Its outcomes are in the same order; a reason in the list
    itself is the outcome in its place.

    `request_limit` is the number of requests of one account that may wait. `publish` is called with the identifiers of
    the job and its account after each commit.
    """

    def __init__(
        self, database: Database, request_limit: int, publish: Callable[[str, str], None] = lambda *_: None
    ) -> None:
        self._database = database
        self._request_limit = request_limit
        self._publish = publish

    async def read(self, account_id: str, names: Sequence[TextName]) -> list[Outcome]:
        """The texts in force; a `NotFound` in place of one that the account does not have."""
        async with self._database.listing() as read:
            texts = await _read_texts(read, account_id, names)
        return [texts.get(_key(name)) or _no_text(name) for name in names]

    async def edit(self, account_id: str, edits: Sequence[TextEdit | ServiceError]) -> list[Outcome]:
        """Store words of a person as new versions, each in place of all versions after the one in force.

        The reasons are `NotFound` and `TextChanged`.
        """
        return await self._change(account_id, edits, _edit)

    async def restore(self, account_id: str, names: Sequence[TextName], step: Literal[-1, 1]) -> list[Outcome]:
        """Return to the versions before (-1) or after (1) those in force.

        The reasons are `NotFound`, `TextChanged` and `NoSuchVersion`.
        """
        return await self._change(account_id, names, partial(_restore, step=step))

    async def request(
        self, account_id: str, names: Sequence[TextName], wanted: NewTexts, price_of: Callable[[str], int]
    ) -> list[Outcome]:
        """Request new texts. A text has at most one request waiting: another changes nothing.

        `price_of` is called with the role of the picture. The reasons are `NotFound`, `TextChanged`, `TextOfPerson`,
        `TextsUnfinished`, `OriginalRemoved`, `InvalidRequest`, `QueueFull` and `InsufficientCredits`.
        """
        return await self._change(account_id, names, _Requests(wanted, price_of, self._request_limit).add)

    async def cancel(self, account_id: str, names: Sequence[TextName]) -> list[Outcome]:
        """Withdraw requests that wait, and release their credits. The reasons are `NotFound` and `TextChanged`."""
        return await self._change(account_id, names, _cancel)

    async def _change(
        self, account_id: str, wanted: Sequence[_Name | ServiceError], change: _Change[_Name]
    ) -> list[Outcome]:
        """Call `change` with the account and each text. It raises its reason before it changes anything."""
        outcomes: list[_Name | ServiceError] = []
        async with self._database.transaction() as tx:
            for each in wanted:
                try:
                    if not isinstance(each, ServiceError):
                        await change(tx, account_id, each)
                    outcomes.append(each)
                except ServiceError as reason:
                    outcomes.append(reason)
            changed = [each for each in outcomes if not isinstance(each, ServiceError)]
            texts = await _read_texts(tx, account_id, changed)
        for job_id in dict.fromkeys(text.job_id for text in texts.values()):
            self._publish(job_id, account_id)
        return [each if isinstance(each, ServiceError) else texts[_key(each)] for each in outcomes]


class _Requests:
    """Adds requests for new texts."""

    def __init__(self, wanted: NewTexts, price_of: Callable[[str], int], limit: int) -> None:
        self._wanted, self._price_of, self._limit = wanted, price_of, limit
        self._waiting: int | None = None
        """How many requests of the account wait."""

    async def add(self, tx: Transaction, account_id: str, name: TextName) -> None:
        image_id, code = _key(name)
        job_id = await tx.value("job_id_by_image", {"image_id": image_id, "account_id": account_id})
        job = await read_job(tx, job_id) if job_id else None
        texts = {text.language_code: text for text in job.translations} if job else {}
        if job is None or not (code in texts or (self._wanted.adds_languages and code in LANGUAGES)):
            raise _no_text(name)
        state = job.text_states.get(code, TextState(version=0))
        await _require_version(tx, account_id, name, state.version)
        if state.regenerating:
            return
        self._require_possible(job, texts, code)
        if self._waiting is None:
            self._waiting = await tx.value("count_waiting_regenerations", {"account_id": account_id})
        if self._waiting >= self._limit:
            raise errors.QueueFull(self._limit, "texts to write anew")
        price = self._price_of(job.role)
        await require_credits(tx, account_id, price)
        request = {"job_id": job.id, "language_code": code, "account_id": account_id, "price": price}
        if code not in texts:
            file_name = job.translations[0].seo_filename  # until the text is written
            empty = Translation(code, file_name, "", result.TextSource.PIXELS, result.NeedsTextReason.NOTHING_KNOWN)
            await insert_translation(tx, job, len(job.languages), empty)
            await tx.run("add_language", request)
        request |= {"replaces_person": state.version if self._wanted.replaces_person else 0}
        paid_as = await tx.value("insert_regeneration", request | {"from_language": self._wanted.from_language})
        await move_credits(tx, account_id, "hold", -price, job.id, paid_as)
        self._waiting += 1

    def _require_possible(self, job: Job, texts: Mapping[str, Translation], code: str) -> None:
        """Raises: TextsUnfinished, OriginalRemoved, TextOfPerson, InvalidRequest."""
        lost = "The uploaded picture was removed because of its age" if job.original.expired else ""
        if job.role in (Role.LINK, Role.BUTTON):
            lost = f"The context that says what the {job.role} is for is no longer stored"
        if not texts:
            raise errors.TextsUnfinished("No language can be added to a picture that has no texts, or none yet.")
        if lost:
            raise errors.OriginalRemoved(f"{lost}. Write the text by hand, or send the picture again.")
        if code in texts and texts[code].source in _OF_PERSONS and not self._wanted.replaces_person:
            raise errors.TextOfPerson(
                f"A person wrote the text in {code!r}. To have it replaced nevertheless, send the request with"
                " replace=true; undo restores it. Nothing was changed or charged."
            )
        origin = self._wanted.from_language
        if origin is not None and (origin == code or origin not in texts or texts[origin].needs_text):
            problem = f"This picture has no other text in {origin!r} that could be translated."
            raise errors.InvalidRequest({"from_language": [problem]})
        if code not in texts and len(job.languages) >= MAX_LANGUAGES:
            problem = f"A picture has texts in at most {MAX_LANGUAGES} languages; this one has {len(job.languages)}."
            raise errors.InvalidRequest({"language_code": [problem]})


async def _cancel(tx: Transaction, account_id: str, name: TextName) -> None:
    text = await read_text(tx, account_id, name)
    waiting = await tx.one("delete_waiting_regeneration", dict(text))
    if waiting is not None:
        await move_credits(tx, account_id, "release", waiting["price"], text["job_id"], waiting["paid_as"])


async def insert_translation(tx: Transaction, job: Job, position: int, translation: Translation) -> None:
    """Store the first version of one text, under a file name that is unique in its project and language."""
    where = {"job_id": job.id, "project_id": job.project_id, "language_code": translation.language_code}
    name = await _free_name(tx, where, translation.seo_filename)
    row = {**where, **msgspec.to_builtins(translation), **name, "account_id": job.account_id, "position": position}
    await tx.run("insert_translation", row)


async def _edit(tx: Transaction, account_id: str, edit: TextEdit) -> None:
    """Store words of a person.

    `new_slug` replaces the name of a text that needed words, unless a person wrote that name. A file name that another
    picture has is numbered. The source becomes `person`, unless the alt text is not sent, and a person still has to
    write it or the file name is not sent either.
    """
    text = await read_text(tx, account_id, edit)
    old, words = stored_translation(text), edit.words
    new = replace(old, **words)
    needs_name = "seo_filename" not in words and old.needs_text and new.seo_alt_text != old.seo_alt_text
    if edit.new_slug and needs_name and "seo_filename" not in await _words_of_person(tx, text):
        new = replace(new, seo_filename=edit.new_slug)
    if "seo_alt_text" in words or ("seo_filename" in words and not old.needs_text):
        is_same = new.seo_alt_text == old.seo_alt_text
        review = (old.review or result.Review.ACCEPTED) if is_same else result.Review.EDITED
        new = replace(new, source=result.TextSource.PERSON, needs_text_reason=None, review=review)
    # a long description counts as the model's as long as the model is named
    if "long_description" in words or (new.source is result.TextSource.PERSON and not new.long_description):
        new = replace(new, model="")
    await store_version(tx, text, new)


async def _restore(tx: Transaction, account_id: str, name: TextName, step: Literal[-1, 1]) -> None:
    """Return to the version before or after the one in force. Raises: NoSuchVersion."""
    text = await read_text(tx, account_id, name)
    wanted = await tx.one("text_version", {**text, "version": text["version"] + step})
    if wanted is None:
        which = "earlier" if step < 0 else "later"
        code = text["language_code"]
        raise errors.NoSuchVersion(f"The text in {code!r} has no {which} version: nothing was changed.")
    restored = dict(wanted)
    if await _is_taken(tx, text, restored["seo_filename"]):
        restored |= await _free_name(tx, text, restored["slug_base"])
    await tx.run("save_version", {**text})
    await tx.run("update_translation", restored)


def _key(text: TextName | StoredText) -> tuple[str, str]:
    """The image and the language of a text, as they are stored."""
    return text.image_id.lower(), text.language_code.lower()


_decode_text = msgspec.json.Decoder(StoredText, strict=False).decode  # SQLite's truth values are 0 and 1


async def _read_texts(tx: Transaction, account_id: str, names: Sequence[TextName]) -> dict[tuple[str, str], StoredText]:
    """Those texts in force that the account has, by image and language."""
    rows = await tx.all("stored_texts", {"account_id": account_id, "names": [_key(name) for name in names]})
    return {_key(text): text for text in (_decode_text(row["text"]) for row in rows)}


def _no_text(name: TextName) -> NotFound:
    image_id, code = name.image_id[:40], name.language_code[:40]
    return NotFound(f"This account has no image {image_id!r} with a text in {code!r}, or it is not written yet.")


async def read_text(tx: Transaction, account_id: str, name: TextName) -> Row:
    """The row of the text in force. Raises: NotFound, TextChanged."""
    image_id, language_code = _key(name)
    where = {"account_id": account_id, "image_id": image_id, "language_code": language_code}
    text = await tx.one("translation", where)
    if text is None:
        raise _no_text(name)
    await _require_version(tx, account_id, name, text["version"])
    return text


async def _require_version(tx: Transaction, account_id: str, name: TextName, version: int) -> None:
    """Raises: TextChanged, if `name` has another version; NotFound, if there is no text."""
    if name.version not in (None, version):
        stored = (await _read_texts(tx, account_id, [name])).get(_key(name))
        raise errors.TextChanged(stored, name.version) if stored else _no_text(name)


async def store_version(tx: Transaction, text: Row, new: Translation) -> bool:
    """Make `new` the version in force, after `text`; False, and nothing, if its words and source are the same."""
    name = await _name_for(tx, text, new.seo_filename)
    if replace(new, seo_filename=str(name["seo_filename"])) == stored_translation(text):
        return False
    version = text["version"] + 1
    await tx.run("save_version", {**text})
    # at most 50 versions of a text are stored
    await tx.run("limit_versions", {**text, "oldest": version - 49, "in_force": version})
    await tx.run("update_translation", {**text, **msgspec.to_builtins(new), **name, "version": version})
    return True


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
        return "No better text could be made, so the text in force was kept."
    if text["replaces_person"] != text["version"]:
        if text["source"] in _OF_PERSONS:
            return "A person has written this text meanwhile, so it was kept."
        new = replace(new, **await _words_of_person(tx, text))
    is_new = await store_version(tx, text, new)
    return None if is_new else "The new text is the same as the one in force, so nothing was changed or charged."


async def _words_of_person(tx: Transaction, text: Row) -> dict[str, str]:
    """The file name and the long description of `text` that a person wrote: they were changed without the alt text."""
    changed = await tx.row("changed_by_person", dict(text))
    return {name: text[name] for name in ("seo_filename", "long_description") if changed[name]}


_FileName = dict[str, str | int]
"""The columns of a file name: `seo_filename`, and the `slug_base` and `slug_number` that it is made of."""


async def _name_for(tx: Transaction, text: Row, wanted: str) -> _FileName:
    """The file name that `text` gets if `wanted` is requested."""
    own: _FileName = {column: text[column] for column in ("seo_filename", "slug_base", "slug_number")}
    is_own = wanted == own["seo_filename"]
    if is_own or (wanted == own["slug_base"] and await _is_taken(tx, text, wanted)):
        return own  # its name is the wanted one, or has a number because the wanted one is taken
    return await _free_name(tx, text, wanted)


async def _free_name(tx: Transaction, text: Row | Mapping[str, str], base: str) -> _FileName:
    """`base`, with the number that makes it a name that no other picture of the project has in this language."""
    name, number = base, 1
    if await _is_taken(tx, text, base):
        number = await tx.value("highest_slug_number", {**text, "slug_base": base}) or 1
        while name == base or await _is_taken(tx, text, name):
            number += 1
            name = numbered(base, number)
    return {"seo_filename": name, "slug_base": base, "slug_number": number}


async def move_texts(tx: Transaction, job_id: str, project_id: str) -> None:
    """Move the texts of a job to another project. A file name that is taken there gets another number."""
    where = {"job_id": job_id, "project_id": project_id}
    await tx.run("move_texts", where)
    for text in await tx.all("texts_of_other_projects", where):
        moved = {**text, **where}
        await tx.run("move_text", moved | await _free_name(tx, moved, text["slug_base"]))


async def _is_taken(tx: Transaction, text: Row | Mapping[str, str], name: str) -> bool:
    """Whether another picture of the project has this file name in the language of `text`."""
    return await tx.value("slug_taken", {**text, "seo_filename": name}) is not None
