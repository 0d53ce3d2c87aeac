"""The describer without a model: the texts that it uses, the facts that it states, and what it never mentions."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText, Format, ImageInfo, Pixels
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.vision.describer import Hints
from imgproc_local.vision.facts.describer import FactsDescriber
from imgproc_local.vision.facts.pixels import pixel_facts

GREEN = Pixels(40, 50, bytes([30, 90, 40]) * 2000)


def describe(languages: str, embedded: EmbeddedMetadata | None = None, name: str = "IMG_0001.JPG") -> list[Translation]:
    info, metadata = ImageInfo(Format.JPEG, 40, 50), embedded or EmbeddedMetadata()
    hints = Hints(info, metadata, name, facts=pixel_facts(GREEN, info, metadata, name))
    translations = FactsDescriber(today=lambda: date(2024, 5, 1)).describe(
        GREEN, languages.split(), hints, lambda: None
    )
    return list(translations)


def test_an_alt_text_is_used_in_its_own_language_and_quoted_in_others() -> None:
    embedded = EmbeddedMetadata(
        alt_text=(EmbeddedText("A heron at the pond", "en"), EmbeddedText("Ein Reiher am Teich", "de-CH"))
    )
    english, german, french = describe("en de fr", embedded)
    assert (english.seo_alt_text, english.source) == ("A heron at the pond", TextSource.EMBEDDED)
    assert (german.seo_alt_text, german.source) == ("Ein Reiher am Teich", TextSource.EMBEDDED)
    assert french.source == TextSource.FACTS
    assert "A heron at the pond" in french.seo_alt_text
    assert "vert" not in french.seo_alt_text
    assert french.seo_filename.startswith("heron-pond")


def test_the_tag_no_is_bokmal_and_x_default_is_the_first_requested_language() -> None:
    (norwegian,) = describe("nb", EmbeddedMetadata(alt_text=(EmbeddedText("Hegre", "no"),)))
    assert norwegian.source == TextSource.EMBEDDED
    english, danish = describe("en da", EmbeddedMetadata(alt_text=(EmbeddedText("Hegre", "x-default"),)))
    assert (english.seo_alt_text, english.source) == ("Hegre", TextSource.EMBEDDED)
    assert "Hegre" in danish.seo_alt_text
    assert danish.source == TextSource.FACTS


def test_an_alt_text_precedes_captions_headlines_and_titles() -> None:
    fields = {
        "alt_text": "The alt text",
        "extended_description": "The extended one",
        "description": "The caption",
        "headline": "The headline",
        "title": "The title",
    }
    while fields:
        embedded = EmbeddedMetadata(**{field: (EmbeddedText(text, "en"),) for field, text in fields.items()})
        (translation,) = describe("en", embedded)
        assert translation.seo_alt_text == next(iter(fields.values()))
        fields.pop(next(iter(fields)))


def test_an_alt_text_up_to_250_characters_is_unchanged_and_a_caption_is_shortened() -> None:
    long = "This is one sentence of many. " * 8
    (unchanged,) = describe("en", EmbeddedMetadata(alt_text=(EmbeddedText(long.strip(), "en"),)))
    assert unchanged.seo_alt_text == long.strip()
    (shortened,) = describe("en", EmbeddedMetadata(description=(EmbeddedText(long.strip(), "en"),)))
    assert len(shortened.seo_alt_text) <= 125
    assert long.startswith(shortened.seo_alt_text)
    assert shortened.seo_alt_text.endswith(".")
    (too_long,) = describe("en", EmbeddedMetadata(alt_text=(EmbeddedText(long * 4, "en"),)))
    assert len(too_long.seo_alt_text) <= 250


def test_an_untagged_text_is_used_if_its_language_is_certain() -> None:
    english, german = describe(
        "en de", EmbeddedMetadata(description=(EmbeddedText("A heron at the edge of the pond in the rain"),))
    )
    assert english.source == TextSource.EMBEDDED
    assert german.source == TextSource.FACTS


def test_a_title_of_unknown_language_is_quoted_in_every_language() -> None:
    english, german, french = describe("en de fr", EmbeddedMetadata(title=(EmbeddedText("Abendrot"),)))
    assert english.seo_alt_text.startswith("“Abendrot”: picture")
    assert german.seo_alt_text.startswith("„Abendrot“: Bild")
    assert french.seo_alt_text.startswith("«\u00a0Abendrot\u00a0»\u00a0: image")
    assert {translation.source for translation in (english, german, french)} == {TextSource.FACTS}
    assert english.seo_filename.startswith("abendrot")


def test_a_title_in_another_script_is_omitted_if_something_else_is_known() -> None:
    title = (EmbeddedText("Вечер"),)
    english, russian = describe("en ru", EmbeddedMetadata(title=title, city="Sofia"))
    assert "Вечер" not in english.seo_alt_text
    assert "«Вечер»" in russian.seo_alt_text
    (alone,) = describe("en", EmbeddedMetadata(title=title))
    assert "“Вечер”" in alone.seo_alt_text


def test_names_are_copied_into_every_language() -> None:
    embedded = EmbeddedMetadata(
        persons=("Ada Lovelace",),
        event=(EmbeddedText("Great Exhibition"),),
        sublocation="Hyde Park",
        city="London",
        country="England",
    )
    for translation in describe(" ".join(LANGUAGES), embedded):
        for name in ("Ada Lovelace", "Great Exhibition", "Hyde Park", "London", "England"):
            assert name in translation.seo_alt_text
        assert translation.seo_filename == "ada-lovelace-great-exhibition-hyde-park-london-england"


def test_keywords_are_labelled_as_keywords() -> None:
    embedded = EmbeddedMetadata(keywords=(EmbeddedText("harbour"), EmbeddedText("boats"), EmbeddedText("IMG_1")))
    (german,) = describe("de", embedded)
    assert "Stichwörter „harbour, boats“" in german.seo_alt_text
    assert german.seo_filename.startswith("harbour-boats")


def test_words_of_the_file_name_are_used_for_the_new_name_only() -> None:
    english, german = describe("en de", name="heron_at_the_pond-final.jpg")
    assert "heron" not in english.seo_alt_text + german.seo_alt_text
    assert english.seo_filename == "heron-pond-picture"
    assert english.source == TextSource.PIXELS


def test_with_a_title_the_file_name_is_not_mentioned() -> None:
    (english,) = describe("en", EmbeddedMetadata(title=(EmbeddedText("Abendrot"),)), name="heron_at_the_pond.jpg")
    assert "heron" not in english.seo_alt_text


@pytest.mark.parametrize(
    "name", ["IMG_1234.JPG", "Screenshot 2023-07-14 at 10.11.12.png", "d41d8cd98f00b204e9800998ecf8427e.png"]
)
def test_a_file_name_without_words_is_not_mentioned(name: str) -> None:
    (english,) = describe("en", name=name)
    assert english.source == TextSource.PIXELS
    assert Path(name).stem.lower() not in english.seo_alt_text.lower()


def test_a_photograph_with_a_plausible_date_mentions_month_and_year() -> None:
    (english,) = describe("en", EmbeddedMetadata(camera="C", created="2023-07-14"))
    assert "taken in July 2023" in english.seo_alt_text
    assert english.seo_filename == "photograph-2023-07"
    for implausible in ("2000-01-01", "1980-01-01", "2024-05-09"):
        (english,) = describe("en", EmbeddedMetadata(camera="C", created=implausible))
        assert "taken" not in english.seo_alt_text


def test_a_picture_with_a_date_but_no_camera_is_no_photograph() -> None:
    (english,) = describe("en", EmbeddedMetadata(created="2023-07-14"))
    assert english.seo_alt_text.startswith("Picture")
    assert "2023" not in english.seo_alt_text


def test_a_date_is_mentioned_for_every_kind_of_picture_if_content_is_known() -> None:
    (english,) = describe("en", EmbeddedMetadata(city="Lisbon", created="2023-07-14"))
    assert english.seo_alt_text == "Lisbon: picture, July 2023."


def test_a_turkish_keyword_gets_a_dotted_capital() -> None:
    (turkish,) = describe("tr", EmbeddedMetadata(keywords=(EmbeddedText("iskele", "tr"),)))
    assert turkish.seo_alt_text == "İskele: görsel."


def test_a_caption_that_a_camera_wrote_is_not_used() -> None:
    embedded = EmbeddedMetadata(
        description=(EmbeddedText("OLYMPUS DIGITAL CAMERA"),), title=(EmbeddedText("DSC_0042"),), camera="OLYMPUS E-M1"
    )
    (english,) = describe("en", embedded)
    assert english.seo_alt_text == "Photograph."
    assert "olympus" not in english.seo_filename


def test_creator_and_copyright_are_not_mentioned() -> None:
    (english,) = describe("en", EmbeddedMetadata(creator=("Grace Hopper",), copyright="© Grace Hopper"))
    assert "Grace" not in english.seo_alt_text
    assert "grace" not in english.seo_filename


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_picture_without_texts_gets_a_file_name_in_every_language(code: str) -> None:
    (translation,) = describe(code)
    assert 2 <= len(translation.seo_filename.split("-")) <= 8
    assert translation.source == TextSource.PIXELS


def test_a_short_file_name_adds_the_kind_and_a_long_one_does_not_end_in_a_function_word() -> None:
    (short,) = describe("en", EmbeddedMetadata(title=(EmbeddedText("Heron"),)))
    assert short.seo_filename == "heron-picture"
    (long,) = describe("en", EmbeddedMetadata(title=(EmbeddedText("Heron by the old mill at dusk with the moon"),)))
    assert long.seo_filename == "heron-old-mill-dusk-moon"
    (twice,) = describe("en", EmbeddedMetadata(keywords=(EmbeddedText("mill overlook"), EmbeddedText("overlook"))))
    assert "overlook-overlook" not in twice.seo_filename


def test_mark_up_in_a_text_is_removed() -> None:
    (english,) = describe("en", EmbeddedMetadata(alt_text=(EmbeddedText("<b>A heron</b> at the\npond", "en"),)))
    assert english.seo_alt_text == "A heron at the pond"


def test_an_event_at_the_beginning_is_unchanged_and_a_keyword_gets_a_capital() -> None:
    (event,) = describe("en", EmbeddedMetadata(event=(EmbeddedText("iPhone launch"),)))
    assert event.seo_alt_text.startswith("iPhone launch: ")
    (keyword,) = describe("en", EmbeddedMetadata(keywords=(EmbeddedText("heron", "en"),)))
    assert keyword.seo_alt_text.startswith("Heron: ")


def test_braces_are_literal_and_bidirectional_controls_are_removed() -> None:
    (english,) = describe("en", EmbeddedMetadata(title=(EmbeddedText("\u202e{kind} {0} 100 %s"),), city="{city}"))
    assert english.seo_alt_text.startswith("“{kind} {0} 100 %s”, {city}: picture")
