"""Which pictures get a long description, from whom, and what is used of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from imgproc_local.domain.errors import ModelUnusable, StageTimedOut
from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText
from imgproc_local.domain.result import TextSource
from imgproc_local.vision.describer import Hints, PixelFacts, TextInPicture
from tests.support.fake_model import BARN_DE, BARN_FR, VISION, FakeModel, describe, facts, hints

CHART = replace(
    hints(),
    facts=PixelFacts("graphic"),
    text_in_picture=TextInPicture("Revenue in million euros 2022 12 2023 19"),
)
FULL = "Bar chart of the revenue in million euros. It rises from 12 in 2022 to 19 in 2023."
FULL_DE = "Balkendiagramm des Umsatzes in Millionen Euro. Er steigt von 12 im Jahr 2022 auf 19 im Jahr 2023."


def in_full(fake: FakeModel, languages: str, given: Hints = CHART) -> dict[str, str]:
    """The long descriptions by language; every alt text is the model's or that of the file."""
    texts = describe(fake, languages, given)
    assert {text.source for text in texts} <= {VISION, TextSource.EMBEDDED}
    return {text.language_code: text.long_description for text in texts}


def test_a_chart_gets_a_long_description_in_english_which_is_translated() -> None:
    fake = FakeModel({"en": FULL, "de": FULL_DE}, de=BARN_DE, fr=BARN_FR)
    assert in_full(fake, "de fr en") == {"de": FULL_DE, "fr": "", "en": FULL}
    first, others = fake.long_suffixes
    assert [f"Full description of the picture: {FULL}" in suffix for suffix in (*first, *others)] == [False, True, True]
    assert in_full(FakeModel({"de": FULL_DE}, de=BARN_DE), "de") == {"de": ""}, "the English one failed"


@pytest.mark.parametrize(
    ("facts", "read_text"),
    [
        (PixelFacts("photograph"), TextInPicture("Revenue in million euros 2022")),
        (PixelFacts("graphic"), TextInPicture("Novalis")),
        (PixelFacts("graphic"), TextInPicture("Mind the gap between the train", is_image_of_text=True)),
    ],
)
def test_other_pictures_get_none(facts: PixelFacts, read_text: TextInPicture) -> None:
    fake = FakeModel({"de": FULL_DE}, de=BARN_DE)
    describe(fake, "de", replace(CHART, facts=facts, text_in_picture=read_text))
    assert fake.long_suffixes == []


def test_a_person_s_long_description_is_used_without_a_model_and_translated_by_one() -> None:
    given = replace(CHART, embedded=EmbeddedMetadata(extended_description=(EmbeddedText(FULL_DE, "de"),)))
    assert [text.long_description for text in facts("en de", given)] == ["", FULL_DE]
    fake = FakeModel({"en": FULL, "de": "Ein anderer Text."}, de=BARN_DE)
    assert in_full(fake, "en de", given) == {"en": FULL, "de": FULL_DE}
    assert [f"Full description of the picture: {FULL_DE}" in suffix for [suffix] in fake.long_suffixes] == [True]


def test_the_model_replaces_no_long_description_of_a_person() -> None:
    both = (EmbeddedText(FULL_DE, "de"), EmbeddedText(FULL, "en"))
    fake = FakeModel({"de": "Ein ganz anderer Text."}, de=BARN_DE)
    assert in_full(fake, "en de", replace(CHART, embedded=EmbeddedMetadata(extended_description=both))) == {
        "en": FULL,
        "de": FULL_DE,
    }
    assert fake.long_suffixes == [], "it is not asked for them"


def test_a_long_description_that_a_model_wrote_before_is_used_without_a_model_and_replaced_by_one() -> None:
    earlier = (EmbeddedText("Another chart of the revenue, from an earlier run.", "en"),)
    given = replace(CHART, embedded=EmbeddedMetadata(model_extended_description=earlier))
    assert [text.long_description for text in facts("en", given)] == [earlier[0].text]
    assert in_full(FakeModel({"en": FULL}), "en", given) == {"en": FULL}
    assert in_full(FakeModel({"en": ""}), "en", given) == {"en": earlier[0].text}


@pytest.mark.parametrize(
    ("written", "used"),
    [
        (f"{FULL} Overall, it suggests growth.", FULL),
        (f"{FULL} A label says “Profit”.", FULL),
        (f"{FULL} Call 0351 4567890.", FULL),
        ("A table of 2015: 12, 2016: 14, 2017: 15, 2018: 17, 2019: 18, 2020: 19, 2021: 20, 2022: 21, 2023: 22.", None),
        (f"{FULL} The bars are number 1, 2, 3 " + "and many more " * 80, FULL),
        ("I'm sorry, I can't read this chart. " + FULL, ""),
        (f"{FULL} {FULL}", ""),
        (FULL_DE, ""),
        ("", ""),
        ("A bar chart of the revenue that goes on " + "and on " * 200, ""),
    ],
)
def test_of_a_long_description_only_sentences_that_pass_the_checks_are_used(written: str, used: str | None) -> None:
    assert in_full(FakeModel({"en": written}), "en") == {"en": written if used is None else used}


def test_a_long_description_that_fails_costs_no_alt_text() -> None:
    for error in (StageTimedOut("Not finished in time."), ModelUnusable("no room")):
        assert in_full(FakeModel({"en": error}, de=BARN_DE), "en de") == {"en": "", "de": ""}
