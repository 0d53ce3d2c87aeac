"""The texts of jobs in the database, and requests to write one anew."""

from __future__ import annotations

from imgproc_local.domain.errors import NoSuchVersion, QueueFull
from imgproc_local.domain.result import NewTexts, StoredText, TextEdit, TextName, TextSource
from imgproc_local.storage.translations import Translations
from tests.storage.conftest import LANGUAGES, Store


async def test_the_last_fifty_versions_are_stored(store: Store) -> None:
    job, translations = await store.analyzed(), Translations(store.database, 4)
    where = (job.image_id, "de")
    for number in range(55):
        await translations.edit(job.account_id, [TextEdit(*where, words={"seo_alt_text": f"Text {number}."})])
    for _ in range(49):
        (text,) = await translations.restore(job.account_id, [TextName(*where)], -1)
    assert isinstance(text, StoredText)
    assert text.seo_alt_text == "Text 5."
    (refused,) = await translations.restore(job.account_id, [TextName(*where)], -1)
    assert isinstance(refused, NoSuchVersion)


async def test_a_long_description_stays_the_models_until_a_person_edits_it(store: Store) -> None:
    job = await store.analyzed(source=TextSource.VISION, long_description="Sales rose.", model="a@1")
    translations, models = Translations(store.database, 4), []
    edits = {"seo_alt_text": "A bar chart.", "seo_filename": "bar-chart", "long_description": "Sales rose in May."}
    for edit in ({name: words} for name, words in edits.items()):
        (text,) = await translations.edit(job.account_id, [TextEdit(job.image_id, "de", words=edit)])
        assert isinstance(text, StoredText)
        models.append((text.source.value, text.model))
    assert models == [("person", "a@1"), ("person", "a@1"), ("person", "")]


async def test_each_account_has_room_for_so_many_requests(store: Store) -> None:
    job, other = [await store.analyzed(account_id) for account_id in (store.account_id, store.other_account_id)]
    translations, balance = Translations(store.database, 4), await store.balance()
    names = [TextName(job.image_id, language) for language in (*LANGUAGES[:2], *LANGUAGES)]
    outcomes = await translations.request(job.account_id, names, NewTexts(), lambda _: 5)
    assert [isinstance(each, StoredText) for each in outcomes] == [True] * 6 + [False]
    assert isinstance(outcomes[-1], QueueFull)
    wanted = [TextName(other.image_id, "de")]
    assert not isinstance((await translations.request(other.account_id, wanted, NewTexts(), lambda _: 5))[0], QueueFull)
    assert await store.balance() == balance - 4 * 5
