"""The texts that people wrote about a picture, in all languages: cleaned, and with their languages.

Their sources are the metadata and the file name. A text that no person wrote is left out (`text/human_words.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.text.human_words import filename_words, human_text
from imgproc_local.vision.text.language import detect_language, function_words, language_of_tag, may_be_in, scripts_of
from imgproc_local.vision.text.words import UNSPACED, main_script

_MAX_ENTRIES = 50
"""The maximum number of texts of each kind, and of persons, that are used. A description needs only a few of them."""


class LocalizedText(Struct, frozen=True):
    """A text that a person wrote. `language` is None if neither the file nor the text itself determines it.

    `is_in_another_language` says that an alt text was given to the first requested language for want of a better one.
    """

    text: str
    language: str | None
    is_in_another_language: bool = False


class PictureTexts(Struct, frozen=True):
    """All texts of a picture.

    `alt_texts` are the IPTC alt texts, those of known language first, whether tagged or detected; `model_alt_texts` are
    those that a model wrote. `extended` are IPTC's extended descriptions, `model_extended` those of a model.
    `alt_text_candidates` are captions, headlines and titles that can be used as an alt text, the most suitable first.
    `country` is the one of `places` that is a country, "" if none is. `filename` are the words of the file name, and
    `filename_captions` the same as a text if they read as a caption.
    """

    alt_texts: tuple[LocalizedText, ...] = ()
    model_alt_texts: tuple[LocalizedText, ...] = ()
    extended: tuple[LocalizedText, ...] = ()
    model_extended: tuple[LocalizedText, ...] = ()
    alt_text_candidates: tuple[LocalizedText, ...] = ()
    titles: tuple[LocalizedText, ...] = ()
    captions: tuple[LocalizedText, ...] = ()
    keywords: tuple[LocalizedText, ...] = ()
    events: tuple[LocalizedText, ...] = ()
    persons: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    country: str = ""
    filename: tuple[str, ...] = ()
    filename_captions: tuple[LocalizedText, ...] = ()

    def keywords_in(self, language: str | None) -> tuple[str, ...]:
        """The first five keywords in `language` of at most 30 characters; None stands for those of unknown language."""
        matching = [entry.text for entry in self.keywords if entry.language == language]
        return tuple(text for text in matching if len(text) <= 30)[:5]


def collect_texts(embedded: EmbeddedMetadata, filename: str, languages: Sequence[str] = ()) -> PictureTexts:
    """The texts of a picture. An alt text of unknown language is assigned one of `languages`."""
    camera = embedded.camera
    captions = _localized(embedded.description, camera)
    headlines, titles = _localized(embedded.headline, camera), _localized(embedded.title, camera)
    extended = _localized(embedded.extended_description, camera)
    location = (embedded.sublocation, embedded.city or embedded.province, embedded.country)
    places = [human_text(place) for place in location if place]
    persons = map(human_text, embedded.persons[:_MAX_ENTRIES])
    typed = filename_words(filename)
    return PictureTexts(
        alt_texts=with_languages(_localized(embedded.alt_text), languages),
        model_alt_texts=_localized(embedded.model_alt_text),
        extended=extended,
        model_extended=_localized(embedded.model_extended_description),
        alt_text_candidates=extended + captions + headlines + titles,
        titles=titles + headlines,
        captions=captions + extended,
        keywords=_localized(embedded.keywords),
        events=_localized(embedded.event),
        persons=tuple(dict.fromkeys(filter(None, persons))),
        places=tuple(dict.fromkeys(filter(None, places))),
        country=places[-1] if embedded.country else "",
        filename=typed,
        filename_captions=_filename_captions(typed, is_spaced=" " in filename.strip()),
    )


def _filename_captions(words: Sequence[str], *, is_spaced: bool) -> tuple[LocalizedText, ...]:
    """The words of a file name as a caption in their language; empty if they may be only keywords.

    In Latin letters these are at least three words with spaces or a function word between them, in other scripts two
    words, and without spaces between words four characters.
    """
    text = human_text(" ".join(words))
    language = detect_language(text)
    if language not in LANGUAGES:
        return ()
    is_phrase = is_spaced or not function_words(language).isdisjoint(map(str.lower, words))
    is_latin = scripts_of(language) == ("latin",)
    enough = len(text) >= 4 if language in UNSPACED else len(words) >= (3 if is_latin else 2)
    return (LocalizedText(text, language),) if enough and (is_phrase or not is_latin) else ()


def first_in(texts: Sequence[LocalizedText], language: str | None) -> str:
    """The first text in `language`, or of unknown language if that is None; "" if there is none."""
    return next((entry.text for entry in texts if entry.language == language), "")


def with_languages(alt_texts: Sequence[LocalizedText], languages: Sequence[str]) -> tuple[LocalizedText, ...]:
    """The alt texts, those of unknown language last and assigned to one of `languages`."""
    known = [entry for entry in alt_texts if entry.language]
    # the text tagged x-default, a tag without a language, usually repeats one of the others
    known_texts = {entry.text for entry in known}
    others = [entry.text for entry in alt_texts if entry.text not in known_texts]
    return (*known, *(_assigned(text, languages) for text in others))


def _assigned(text: str, languages: Sequence[str]) -> LocalizedText:
    """`text` with the first of `languages` that it may be in, which is the likely one if there is any, or the first."""
    script = main_script(text)
    # readers of all languages know Latin letters, but their language may have others
    possible = [code for code in languages if script in scripts_of(code) and may_be_in(text, code)]
    first = next(iter([*possible, *languages]), None)
    return LocalizedText(text, first, is_in_another_language=not possible)


def _localized(embedded: Sequence[EmbeddedText], camera: str | None = None) -> tuple[LocalizedText, ...]:
    """The cleaned texts with their languages, without those that no person wrote and without the name of `camera`."""
    localized, chars = [], 0
    for entry in embedded[:_MAX_ENTRIES]:
        text = human_text(entry.text)
        if text and text.casefold() != (camera or "").casefold():
            localized.append(LocalizedText(text, language_of_tag(entry.language) or detect_language(text)))
        chars += len(entry.text)
        if chars > 24_000:  # cleaning takes time
            break
    return tuple(localized)
