"""The alt text of an image of text."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText, Format, ImageInfo, Pixels
from imgproc_local.domain.result import Translation
from imgproc_local.vision.describer import Hints, PixelFacts, TextInPicture
from imgproc_local.vision.facts.describer import FactsDescriber

POSTER = TextInPicture("Summer Jazz Night: live music by the lake and at the pier", is_image_of_text=True)
SIGN = TextInPicture("Road closed", is_image_of_text=True)
NAME = TextInPicture("Hotel Metropol", is_image_of_text=True)
CHINESE = TextInPicture("湖边现场演出", is_image_of_text=True)


def describe(text_in_picture: TextInPicture | None, language: str, title: str = "") -> Translation:
    embedded = EmbeddedMetadata(title=(EmbeddedText(title),) if title else ())
    info = ImageInfo(Format.PNG, 8, 8)
    hints = Hints(info, embedded, facts=PixelFacts("graphic"), text_in_picture=text_in_picture)
    return FactsDescriber().describe(Pixels(8, 8, bytes(192)), (language,), hints, lambda: None)[0]


@pytest.mark.parametrize(
    ("text_in_picture", "language", "alt", "slug"),
    [
        (POSTER, "en", POSTER.text, "summer-jazz-night-live-music-"),
        (SIGN, "en", "Road closed", "road-closed-"),
        (
            NAME,
            "de",
            "Hotel Metropol",
            "hotel-metropol-",
        ),  # the language of a name is unknown, and only its script is checked
        (CHINESE, "zh", "湖边现场演出", "hubian-xianchang-yanchu"),
    ],
)
def test_text_in_the_requested_language_is_the_alt_text(
    text_in_picture: TextInPicture, language: str, alt: str, slug: str
) -> None:
    translation = describe(text_in_picture, language)
    assert translation.seo_alt_text == alt
    assert translation.seo_filename.startswith(slug)
    assert (translation.source, translation.needs_text) == ("facts", False)


@pytest.mark.parametrize(
    ("text_in_picture", "language"), [(POSTER, "de"), (SIGN, "de"), (CHINESE, "en"), (CHINESE, "ru")]
)
def test_text_in_another_language_is_quoted_and_not_translated(text_in_picture: TextInPicture, language: str) -> None:
    translation = describe(text_in_picture, language)
    assert text_in_picture.text in translation.seo_alt_text
    assert len(translation.seo_alt_text) > len(text_in_picture.text)
    assert translation.source == "facts"


def test_a_long_text_is_shortened() -> None:
    long = replace(POSTER, text="Summer jazz by the lake and music " * 30)
    for language in ("en", "de"):
        assert len(describe(long, language).seo_alt_text) <= 250


def test_a_title_is_used_instead_of_the_text_in_the_picture() -> None:
    assert "Festival poster" in describe(POSTER, "de", title="Festival poster").seo_alt_text


@pytest.mark.parametrize(
    "text_in_picture", [None, TextInPicture(), TextInPicture("STOP"), TextInPicture(unread_lines=3)]
)
def test_text_in_a_picture_that_shows_more_than_text_is_not_its_alt_text(text_in_picture: TextInPicture | None) -> None:
    assert describe(text_in_picture, "en") == describe(None, "en")
    assert describe(text_in_picture, "en").needs_text
