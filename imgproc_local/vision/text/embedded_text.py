"""Collects the texts that people wrote about a picture, from its metadata and its file name, in all languages."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText
from imgproc_local.vision.text.filename_words import filename_words
from imgproc_local.vision.text.human_words import human_text
from imgproc_local.vision.text.language import detect_language, letters_by_script, scripts_of

_MAX_ENTRIES = 50
"""The maximum number of texts of each kind, and of persons, that are used. A description needs only a few of them."""

_LANGUAGE_ALIASES = {"no": "nb", "iw": "he", "in": "id"}
"""Macrolanguage and deprecated codes, with the codes of the supported languages. Source: IANA Language Subtag
Registry."""
_TRADITIONAL_CHINESE = frozenset(("hant", "tw", "hk", "mo"))
"""Subtags that mean Traditional Chinese: its script, and the regions that use it."""


class LocalizedText(Struct, frozen=True):
    """A text that a person wrote. `language` is None if neither the file nor the text itself determines it."""

    text: str
    language: str | None


class PictureTexts(Struct, frozen=True):
    """All texts of a picture.

    `alt_texts` are the IPTC alt texts, those of known language first, whether tagged or detected; `model_alt_texts` are
    those that a model wrote.
    `alt_text_candidates` are captions, headlines and titles that can be used as an alt text, the most suitable first.
    `filename` are the words of the file name.
    """

    alt_texts: tuple[LocalizedText, ...] = ()
    model_alt_texts: tuple[LocalizedText, ...] = ()
    alt_text_candidates: tuple[LocalizedText, ...] = ()
    titles: tuple[LocalizedText, ...] = ()
    captions: tuple[LocalizedText, ...] = ()
    keywords: tuple[LocalizedText, ...] = ()
    events: tuple[LocalizedText, ...] = ()
    persons: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    filename: tuple[str, ...] = ()


def collect_texts(embedded: EmbeddedMetadata, filename: str, languages: Sequence[str] = ()) -> PictureTexts:
    """The texts of a picture. An alt text of unknown language is assigned one of `languages`, by its script."""
    camera = embedded.camera
    captions = _localized(embedded.description, camera)
    headlines, titles = _localized(embedded.headline, camera), _localized(embedded.title, camera)
    extended = _localized(embedded.extended_description, camera)
    location = (embedded.sublocation, embedded.city or embedded.province, embedded.country)
    places = [human_text(place) for place in location if place]
    return PictureTexts(
        alt_texts=_with_assigned_languages(_localized(embedded.alt_text), languages),
        model_alt_texts=_localized(embedded.model_alt_text),
        alt_text_candidates=extended + captions + headlines + titles,
        titles=titles + headlines,
        captions=captions + extended,
        keywords=_localized(embedded.keywords),
        events=_localized(embedded.event),
        persons=tuple(
            dict.fromkeys(name for person in embedded.persons[:_MAX_ENTRIES] if (name := human_text(person)))
        ),
        places=tuple(dict.fromkeys(place for place in places if place)),
        filename=filename_words(filename),
    )


def first_in_language(texts: Sequence[LocalizedText], language: str | None) -> str:
    """The first text in `language`, or of unknown language if that is None; "" if there is none."""
    return next((entry.text for entry in texts if entry.language == language), "")


def keywords_in(texts: PictureTexts, language: str | None) -> tuple[str, ...]:
    """The first five keywords in `language` of at most 30 characters; None stands for keywords of unknown language."""
    matching = [entry.text for entry in texts.keywords if entry.language == language]
    return tuple(text for text in matching if len(text) <= 30)[:5]


def keywords_of_any_language(texts: PictureTexts) -> tuple[str, ...]:
    """The keywords in the language of the first keyword, whichever it is."""
    return keywords_in(texts, texts.keywords[0].language) if texts.keywords else ()


def _with_assigned_languages(alt_texts: Sequence[LocalizedText], languages: Sequence[str]) -> tuple[LocalizedText, ...]:
    """The alt texts, those of unknown language last and with the language that `_first_in_script` assigns."""
    known = [entry for entry in alt_texts if entry.language]
    # the text tagged x-default, a tag without a language, usually repeats one of the others
    known_texts = {entry.text for entry in known}
    others = [entry.text for entry in alt_texts if entry.text not in known_texts]
    return (*known, *(LocalizedText(text, _first_in_script(text, languages)) for text in others))


def _first_in_script(text: str, languages: Sequence[str]) -> str | None:
    """The first of `languages` that has the script of most letters of `text`; the first of all if none has it."""
    counts = letters_by_script(text)
    script = max(counts, key=lambda name: counts[name])
    matching = (code for code in languages if script in scripts_of(code))
    return next(matching, languages[0] if languages else None)


def _localized(embedded: Sequence[EmbeddedText], camera: str | None = None) -> tuple[LocalizedText, ...]:
    """The cleaned texts with their languages, without those that no person wrote and without the name of `camera`."""
    localized, chars = [], 0
    for entry in embedded[:_MAX_ENTRIES]:
        text = human_text(entry.text)
        if text and text.casefold() != (camera or "").casefold():
            localized.append(LocalizedText(text, _language_of_tag(entry.language) or detect_language(text)))
        chars += len(entry.text)
        if chars > 24_000:  # cleaning takes time
            break
    return tuple(localized)


def _language_of_tag(tag: str | None) -> str | None:
    """The language code of a BCP 47 tag; None for tags that name no language, such as XMP's x-default.

    Traditional Chinese is "zh-hant", because the supported language "zh" is written in simplified characters.
    """
    if not tag or tag.lower().startswith(("x-", "und", "mul", "zxx")):
        return None
    primary, *others = tag.lower().replace("_", "-").split("-")
    if primary == "zh" and _TRADITIONAL_CHINESE.intersection(others) and "hans" not in others:
        return "zh-hant"
    return _LANGUAGE_ALIASES.get(primary, primary)
