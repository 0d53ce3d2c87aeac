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


def described(found: TextInPicture | None, language: str, title: str = "") -> Translation:
    embedded = EmbeddedMetadata(title=(EmbeddedText(title),) if title else ())
    info = ImageInfo(Format.PNG, 8, 8)
    hints = Hints(info, embedded, facts=PixelFacts("graphic", colours=("blue",)), text_in_picture=found)
    return FactsDescriber().describe(Pixels(8, 8, bytes(192)), (language,), hints, lambda: None)[0]


@pytest.mark.parametrize(
    ("found", "language", "alt", "slug"),
    [
        (POSTER, "en", POSTER.text, "summer-jazz-night-live-music-"),
        (SIGN, "en", "Road closed", "road-closed-"),
        (NAME, "de", "Hotel Metropol", "hotel-metropol-"),  # no certain language: it serves readers of its script
        (CHINESE, "zh", "湖边现场演出", "hubian-xianchang-yanchu"),
    ],
)
def test_it_is_the_text_itself(found: TextInPicture, language: str, alt: str, slug: str) -> None:
    translation = described(found, language)
    assert translation.seo_alt_text == alt
    assert translation.seo_filename.startswith(slug)
    assert (translation.source, translation.needs_text) == ("facts", False)


@pytest.mark.parametrize(("found", "language"), [(POSTER, "de"), (SIGN, "de"), (CHINESE, "en"), (CHINESE, "ru")])
def test_text_in_another_language_is_quoted_and_not_translated(found: TextInPicture, language: str) -> None:
    translation = described(found, language)
    assert found.text in translation.seo_alt_text
    assert len(translation.seo_alt_text) > len(found.text)
    assert translation.source == "facts"


def test_a_long_text_is_shortened() -> None:
    long = replace(POSTER, text="Summer jazz by the lake and music " * 30)
    for language in ("en", "de"):
        assert len(described(long, language).seo_alt_text) <= 250


def test_a_title_precedes_it() -> None:
    assert "Festival poster" in described(POSTER, "de", title="Festival poster").seo_alt_text


@pytest.mark.parametrize("found", [None, TextInPicture(), TextInPicture("STOP"), TextInPicture(unread_lines=3)])
def test_text_in_other_pictures_is_no_alt_text(found: TextInPicture | None) -> None:
    assert described(found, "en") == described(None, "en")
    assert described(found, "en").needs_text
