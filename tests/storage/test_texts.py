"""The texts of jobs in the database, and requests to write one anew."""

from __future__ import annotations

import pytest

from imgproc_local.domain.errors import NoSuchVersion, QueueFull
from imgproc_local.domain.result import TextSource
from imgproc_local.storage.translations import Translations
from tests.storage.conftest import LANGUAGES, Store


async def test_the_last_fifty_versions_are_stored(store: Store) -> None:
    job, translations = await store.analyzed(), Translations(store.database, 4)
    for number in range(55):
        await translations.edit(job.id, "de", {"seo_alt_text": f"Text {number}."})
    for _ in range(49):
        job = await translations.restore(job.id, "de", -1)
    assert job.translations[0].seo_alt_text == "Text 5."
    with pytest.raises(NoSuchVersion):
        await translations.restore(job.id, "de", -1)


async def test_a_long_description_stays_the_models_until_a_person_edits_it(store: Store) -> None:
    job = await store.analyzed(source=TextSource.VISION, long_description="Sales rose.", model="a@1")
    translations, models = Translations(store.database, 4), []
    edits = {"seo_alt_text": "A bar chart.", "seo_filename": "bar-chart", "long_description": "Sales rose in May."}
    for edit in ({name: words} for name, words in edits.items()):
        text = (await translations.edit(job.id, "de", edit)).translations[0]
        models.append((text.source.value, text.model))
    assert models == [("person", "a@1"), ("person", "a@1"), ("person", "")]


async def test_each_account_has_room_for_so_many_requests(store: Store) -> None:
    job, other = [await store.analyzed(account_id) for account_id in (store.account_id, store.other_account_id)]
    translations, balance = Translations(store.database, 4), await store.balance()
    for language in LANGUAGES[:4]:
        await translations.request(job.id, language, 5, replaces_person=False)
    with pytest.raises(QueueFull):
        await translations.request(job.id, LANGUAGES[4], 5, replaces_person=False)
    assert (await translations.request(other.id, "de", 5, replaces_person=False))[1]
    assert await store.balance() == balance - 4 * 5
