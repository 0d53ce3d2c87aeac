"""What people wrote about one picture, gathered from its metadata and its file's name, the same for every language."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from imgproc_local.domain.image import Embedded, EmbeddedText
from imgproc_local.vision.text.human_words import filename_words, human_text
from imgproc_local.vision.text.language import detect_language

MAX_READ_ENTRIES = 50
"""More keywords or persons than these are not looked at: a few are told."""

_SAME_LANGUAGE = {"no": "nb", "iw": "he", "in": "id"}
"""Older or wider codes for a language offered. Source: IANA Language Subtag Registry."""


class Text(Struct, frozen=True):
    """A person's text, cleaned; `language` is None where neither the file nor the text says it for certain."""

    text: str
    language: str | None


class Words(Struct, frozen=True):
    """`sentences` are whole texts that may stand as an alt text, the best first; `position` is a written GPS place."""

    alt_text: tuple[Text, ...]
    sentences: tuple[Text, ...]
    titles: tuple[Text, ...]
    captions: tuple[Text, ...]
    keywords: tuple[Text, ...]
    event: tuple[Text, ...]
    persons: tuple[str, ...]
    places: tuple[str, ...]
    position: tuple[str, ...]
    file: tuple[str, ...]


def collect_texts(embedded: Embedded, filename: str, position: tuple[float, float] | None) -> Words:
    """The words of a picture; `position` is (latitude, longitude) in degrees where it may be told, else None."""
    captions = _texts(embedded.description)
    titles = _texts(embedded.title) + _texts(embedded.headline)
    located = (embedded.sublocation, embedded.city or embedded.province, embedded.country)
    places = [human_text(place) for place in located if place]
    return Words(
        alt_text=_texts(embedded.alt_text),
        sentences=(
            *_texts(embedded.extended_description),
            *captions,
            *_texts(embedded.headline),
            *_texts(embedded.title),
        ),
        titles=titles,
        captions=captions,
        keywords=_texts(embedded.keywords[:MAX_READ_ENTRIES]),
        event=_texts(embedded.event),
        persons=tuple(
            dict.fromkeys(name for person in embedded.persons[:MAX_READ_ENTRIES] if (name := human_text(person)))
        ),
        places=tuple(dict.fromkeys(place for place in places if place)),
        # WGS 84 latitude and longitude, written the same in every language; four decimals are some ten metres
        position=(f"GPS {position[0]:.4f}, {position[1]:.4f}",) if position else (),
        file=filename_words(filename),
    )


def first_in_language(texts: Sequence[Text], language: str | None) -> str:
    """The first text in `language`, None for those of no known one; "" where there is none."""
    return next((entry.text for entry in texts if entry.language == language), "")


def _texts(embedded: Iterable[EmbeddedText]) -> tuple[Text, ...]:
    return tuple(
        Text(text, _primary(entry.language) or detect_language(text))
        for entry in embedded
        if (text := human_text(entry.text))
    )


def _primary(tag: str | None) -> str | None:
    """The primary subtag of a BCP 47 tag; XMP's x-default names no language."""
    if not tag or tag.lower().startswith(("x-", "und", "mul", "zxx")):
        return None
    primary = tag.lower().replace("_", "-").split("-")[0]
    return _SAME_LANGUAGE.get(primary, primary)
