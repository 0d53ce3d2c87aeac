"""Why a model's answer is refused: `_complaints`, in their order. Before that, `clean_answer` mends its form.

Most checks are the same in all languages: whether the text is complete, its length, script and language, whether it
repeats itself or the prompt, begins with an opener such as "Image of", refuses to describe, or quotes what is not in
the picture. Guesses, moods, opinions, camera work, names and other claims without evidence are found only in English,
which a model writes first and then translates. A translation is compared with its draft.

It is one file, because an answer gets the complaint of the first check that refuses it.

A problem of an alt text is returned as a complaint that completes the sentence "The answer before was refused: …." in
the prompt of the retry. If a problem is uncertain, the answer is accepted.

Source: W3C WAI, WCAG failure F30.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct

from imgproc_local.domain.alt_text import MAX_ALT_CHARS
from imgproc_local.domain.filename import JOINERS, make_slug
from imgproc_local.domain.image import Format
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.privacy import clean_text
from imgproc_local.vision.describer import NO_TEXT, TextInPicture
from imgproc_local.vision.languages import Judgement, capitalized, is_about_a_picture, language_table, straight
from imgproc_local.vision.llm.evidence import QUOTED, foreign_word, infidelity, missing_quotation, unknown_name
from imgproc_local.vision.llm.prompt import DRAFT, FUNCTION_NOTE, INSTRUCTIONS, NOTES, PERSON_DRAFT, Answer
from imgproc_local.vision.text.human_words import filename_words
from imgproc_local.vision.text.language import function_words, is_other_language, probability_of, scripts_of
from imgproc_local.vision.text.words import UNSPACED, casefolded_words, letters_and_digits, letters_by_script, words_of

# ---- form

_FULL_STOPS = {"ja": "。", "zh": "。", "hi": "।", "th": ""}
"""The full stop of each language that does not use ".". In Thai a sentence ends with a space."""
_ENCLOSED = re.compile(r"^[“„”«»「『\"'‘‚(\[]([^“”„«»「」『』\"()\[\]]{2,})[“”«»」』\"'’‘)\]]\.*$")
"""A whole text in quotation marks or brackets."""
_ENDED = re.compile(r"[.!?…。！？।॥؟][”“’»«\"')\]）」』】]*$")


def clean_answer(answer: Answer, language: str) -> Answer:
    """`answer` with the form of its alt text mended: labels, enclosing marks and openers are removed, a capital and a
    full stop added. No content is added. Its file name is unchanged.
    """
    text = " ".join(unicodedata.normalize("NFC", answer.alt_text).split()).strip("*#_` ")
    text = _ENCLOSED.sub(r"\1", text)
    for pattern in _removable(language):
        match = pattern.match(straight(text))
        if match and len(text) - match.end() > 3 and not is_about_a_picture(text, language):
            text = _ENCLOSED.sub(r"\1", text[match.end() :].lstrip(" ,:：-–—*"))
    text = capitalized(text, language)
    if letters_and_digits(text) and not _is_ended(text, language) and not _is_cut_off(text, language):
        text += _FULL_STOPS.get(language, ".")
    return Answer(answer.filename, text)


@cache
def _removable(language: str) -> tuple[re.Pattern[str], ...]:
    """Patterns for what is removed from the beginning of a text: labels, and the openers after them."""
    table = language_table(language)
    patterns = (rf"({'|'.join(table.labels)}) ?[:：]", *table.removable_openers)
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


def _is_ended(text: str, language: str) -> bool:
    """Whether `text` ends with a full stop, question mark or similar; the Greek question mark is a semicolon."""
    return _ENDED.search(text) is not None or (language == "el" and text.endswith(";"))


# ---- the checks of an alt text


class _Text(Struct, frozen=True):
    """A cleaned alt text. In `unquoted`, "•" stands for each quotation. `words` are those of `unquoted` that the notes
    don't have with a capital, because names may be in any script and spelling. `draft` is the text of which it is a
    translation, or "". `known` is all that is noted, read or in the draft. A text that is no translation is judged.
    """

    text: str
    unquoted: str
    words: Sequence[str]
    language: str
    notes: str
    read_text: TextInPicture
    draft: str
    known: str
    judgement: Judgement | None


def alt_text_problem(
    answer: Answer, language: str, *, notes: str = "", read_text: TextInPicture = NO_TEXT, draft: str = ""
) -> str | None:
    """The complaint about the alt text of a cleaned `answer`, the most important one; None if it can be published.

    `notes` are those in the prompt, and `read_text` is the text that was read in the picture. `draft` is the text of
    which the answer is a translation, if it is one.
    """
    unquoted = QUOTED.sub("•", answer.alt_text)  # no letter, so that the words around a quotation stay apart
    names = frozenset(word.casefold() for word in words_of(notes) if word != word.lower())
    words = [word for word in words_of(unquoted) if word.casefold() not in names]
    judgement = None if draft else language_table(language).judgement
    known = f"{notes} {read_text.text} {draft}"
    text = _Text(answer.alt_text, unquoted, words, language, notes, read_text, draft, known, judgement)
    return next(filter(None, _complaints(text)), None)


def _complaints(text: _Text) -> Iterator[str | None]:
    """The complaint of each check, the most important first; None if it has none."""
    yield "it contained unprintable characters" if _is_unprintable(text.text) else None
    yield _prompt(text)
    is_other = is_other_language(text.words, text.language)
    yield f"it was not in {LANGUAGES[text.language].name}" if is_other else None
    yield _length(text)
    yield _opener(text)
    yield "it held a file name or an address" if _FILE_NAME.search(text.unquoted) else None
    yield "it contained mark-up or emoji" if _MARKUP.search(text.text) else None
    yield _remark(text)
    yield _generic(text)
    yield _list(text)
    yield "it repeated itself" if repeats_itself(text.unquoted, text.language) else None
    yield _nonsense(text)
    yield foreign_word(text.unquoted, text.language, text.known)
    yield "the sentence was cut off" if _is_cut_off(text.text, text.language) else None
    yield _PRIVATE_DATA if clean_text(text.text).removed else None
    yield unknown_name(text.unquoted, text.known) if text.judgement else None
    yield _misquotation(text)
    # without text in the picture, a quotation from the notes is a title, which may be translated
    titles = "" if text.read_text.text else text.notes
    yield infidelity(text.draft, text.text, text.language, titles) if text.draft else None


_PRIVATE_DATA = "it contains a telephone number, an address or other private data"


def _length(draft: _Text) -> str | None:
    if len(draft.text) > MAX_ALT_CHARS:
        return f"it was longer than {MAX_ALT_CHARS} characters"
    letters = sum(char.isalpha() for char in draft.text)
    if letters < 2:
        return "it was empty"
    single = letters < 4 if draft.language in UNSPACED else len(words_of(draft.text)) < 2
    return SINGLE_WORD if single and not _FILE_NAME.search(draft.text) else None


SINGLE_WORD = "it was a single word"
"""The complaint about a text that would be enough for a button."""


def _is_unprintable(text: str) -> bool:
    """Whether `text` has control, private or replacement characters. Joiners and direction marks of words are none."""
    return any(char == "\ufffd" or not (char.isprintable() or char in JOINERS + "\u00ad\u200e\u200f") for char in text)


def _prompt(draft: _Text) -> str | None:
    """Whether five words in a row are those of the prompt."""
    parts = "".join((INSTRUCTIONS, NOTES, DRAFT, PERSON_DRAFT, FUNCTION_NOTE))
    words, prompt = casefolded_words(draft.text), f" {' '.join(casefolded_words(parts))} "
    repeats = any(f" {' '.join(words[start : start + 5])} " in prompt for start in range(len(words) - 4))
    return "it repeated words of the prompt" if repeats else None


def _opener(draft: _Text) -> str | None:
    text = straight(draft.text).lstrip("\"'“”„«»‘‚「『¡¿*-•–— ")
    openers, closers = _openers_and_closers(draft.language)
    if (match := openers.match(text)) and not is_about_a_picture(text, draft.language):
        return f'it began with "{match[0].strip().lower()}"'
    match = closers.search(text) if closers else None
    return f'it ended in "{match[0].strip()}"' if match else None


_FILE_NAME = re.compile(
    rf"(?i)https?:|\bwww\.|\w\.({'|'.join(Format)}|jpg|bmp|tif|svg)\b|\w_\w|^[a-z0-9]+(-[a-z0-9]+){{2,}}\W*$"
    r"|\b(img|dsc[fn]?|pxl|mvimg|dji|gopr|dscn|screenshot)[ _-]?\d{3,}"
)


_MARKUP = re.compile(
    r"\\[nrtu\"]|&(amp|nbsp|quot|lt|gt|apos|#\d+|#x[0-9a-f]+);|```|\*\*|^#+ |\n#|\[/?INST\]|<\||\|>|</?\w+[^>]{0,40}>"
    r"|!?\[[^\]]{0,80}\]\([^)]{0,80}\)|[{\[]\s*[\"'][\w -]{1,30}[\"']|[\"']\s*:\s*[\"'{\[]|[\"']\s*[}\]]|\b\w+=[\"']"
    r"|[\U0001F000-\U0001FAFF\u2600\u263A\u2728\u2764\ufe0f]|^\W*\{|\}\W*$|\b(undefined|NaN|null)\b|#\w+[^#]{0,30}#\w+"
    r"|^[-*•] .{1,200} [-*•] |\[\d+\]|\w\\_\w|https?://|\$\{|\{\{",
    re.IGNORECASE,
)


def _remark(draft: _Text) -> str | None:
    """Whether the text refuses to describe or, in English, guesses, talks of something else than the content, or claims
    what can't be seen and is neither noted nor read.
    """
    known = _content(draft.known, draft.language)
    for complaint, pattern in _remarks(draft.language, draft.judgement is not None).items():
        may_be_known = draft.judgement is not None and complaint in draft.judgement.claims
        for match in pattern.finditer(straight(draft.unquoted)):
            claimed = _content(match[0], draft.language)
            if not (may_be_known and claimed and claimed <= known):
                return f'{complaint} ("{match[0].strip()[:40]}")'
    return None


def _content(text: str, language: str) -> set[str]:
    """The content words of `text`, without the s of an English plural, and its numbers."""
    words = set(re.findall(r"\w+", text.casefold())) - function_words(language)
    return {word.removesuffix("s") for word in words}


def _generic(draft: _Text) -> str | None:
    words, function = set(casefolded_words(draft.unquoted)), function_words(draft.language)
    generic = set(draft.judgement.generic.split()) if draft.judgement and draft.text == draft.unquoted else set()
    return "it said nothing about the content" if words & generic and words <= generic | function else None


def _list(draft: _Text) -> str | None:
    """Whether the text lists more than eight things, or keywords: a long word occurs three times among five parts."""
    commas = len(re.findall(r"[,،、，;；|]", draft.unquoted))
    if commas > 7:
        return A_LIST
    known = function_words(draft.language)
    content = Counter(word for word in casefolded_words(draft.unquoted) if len(word) > 3 and word not in known)
    return "it was a list of keywords" if commas > 3 and max(content.values(), default=0) > 2 else None


A_LIST = "it was a list"
"""The complaint about a text that would be right about a chart, whose values are a list."""


_TOKEN_SEAM = re.compile(
    r"[^\W\d_A-Z]{2}[A-Z]\w*|[^\W\d_][.,;:!?)][^\W\d_]{2}|[^\W\d_]{4}\d\w*|\d[^\W\d_]{4}|\s[,.)]|\(\s|[^\w\s]{3}"
)
"""What random tokens produce where they meet: inner capitals, punctuation without a space, digits inside words. A
single one may be a name (YouTube)."""


def _nonsense(draft: _Text) -> str | None:
    """Whether the text is in no language at all, such as the random tokens that a broken model generates."""
    is_spaced = draft.language not in UNSPACED and draft.language != "ko"
    has_seams = is_spaced and len(set(_TOKEN_SEAM.findall(draft.unquoted))) > 1
    is_none = has_seams or _has_odd_words(draft.words, draft.language)
    return f"it was no sentence in {LANGUAGES[draft.language].name}" if is_none else None


def _misquotation(draft: _Text) -> str | None:
    """Whether a quotation is not in the picture; one from the notes or from the draft may be elsewhere.

    Nothing is compared if no reader is installed, because most models read short signs well, or if there is more text
    in the picture than was read. Quotations of one or two letters are not compared.
    """
    read = draft.read_text
    if read.unread_lines or not (read.text or read.was_read):
        return None
    wrong = missing_quotation(draft.text, draft.known)
    return f"it quoted {wrong}, which is not in the picture" if wrong else None


# ---- file names


def is_good_filename(filename: str, language: str, *, original_filename: str = "") -> bool:
    """Whether `filename`, words joined by hyphens, consists of two or more words that describe the picture."""
    slug = make_slug(filename.replace("-", " "), language, language).split("-")
    words = words_of(filename)
    if len(slug) < 2 or not filename_words(filename) or len(set(slug)) * 3 < len(slug) * 2:
        return False
    old_stem = re.sub(r"(\.\w{1,5})+$", "", original_filename)
    if letters_and_digits(filename) == letters_and_digits(old_stem) and not filename_words(original_filename):
        return False
    if _is_unprintable(filename) or _has_odd_words(words, language):
        return False
    # small models often answer in English
    return language == "en" or probability_of("en", words) <= 0.9 or probability_of(language, words) >= 0.01


# ---- what the checks ask


def repeats_itself(text: str, language: str) -> bool:
    """Whether characters, a sequence of words, or a sentence are repeated more often than in good texts.

    - A sequence of at least three characters with a letter occurs three times in a row, or a letter five times. In
      languages without spaces two characters suffice; elsewhere two may, as in Danish "genererer".
    - Six words (letters in languages without spaces) occur twice in the same order.
    - Two sentences of three words or more have at least 80 % of their words in common.
    """
    lower = text.casefold()
    sequences = re.finditer(rf"(.{{{2 if language in UNSPACED else 3},60}}?)\1\1|([^\W\d_])\2{{4}}", lower)
    if any(re.search(r"[^\W\d_]", match[0]) for match in sequences):
        return True
    units = [char for char in lower if char.isalnum()] if language in UNSPACED else casefolded_words(text)
    length = {"zh": 10, "ja": 14, "th": 30}.get(language, 6)
    ngrams = [tuple(units[start : start + length]) for start in range(len(units) - length + 1)]
    sentences = [_sentence_units(part, language) for part in re.split(r"[.!?。！？।;]\s*", lower)]
    return len(set(ngrams)) < len(ngrams) or any(
        min(len(one), len(other)) > 2 and len(one & other) >= 0.8 * len(one | other)
        for index, one in enumerate(sentences)
        for other in sentences[:index]
    )


def _sentence_units(sentence: str, language: str) -> set[str]:
    """The words of a sentence, or pairs of characters in languages without spaces."""
    if language in UNSPACED:
        return {sentence[start : start + 2] for start in range(len(sentence) - 1)}
    return set(casefolded_words(sentence))


_OPEN_AT_END = re.compile(r"([,:、，；：،؛\-–—/&+(\[{（]|(\.\.|…)[”“’»«\"')\]）」』]*)$")
_UNCLOSED_QUOTE = re.compile('[„“«「『《]|(?<!\\w)"')


def _is_cut_off(text: str, language: str) -> bool:
    """Whether `text` ends in the middle of a sentence: with a comma, a preposition, in a quotation or similar."""
    unquoted = QUOTED.sub("0", text)  # a digit, because a quotation at the end is no dangling word
    if _OPEN_AT_END.search(text) or _UNCLOSED_QUOTE.search(unquoted):
        return True
    end = unquoted.rpartition(" ")[2]
    last = words_of(end)
    dangling = language_table(language).dangling.split()
    if language in UNSPACED and text.rstrip("。").endswith(tuple(dangling)):
        return True
    if len(last) == 1 and not re.search(r"[\d(-]", end) and not last[0].isupper() and last[0].lower() in dangling:
        return True
    # the grammar of `prompt.py` limits texts to 200 characters, and a last token of several may not have fitted
    return len(text) >= 190 and not _is_ended(text, language)


def _has_odd_words(words: Sequence[str], language: str) -> bool:
    """Whether a word has letters of two scripts, or two words in Latin letters can't be pronounced.

    In Chinese, Japanese and Korean, Latin letters need no space. Abbreviations in capitals need no vowel.
    """
    allowed = {"latin", *scripts_of(language)} if language in ("ja", "ko", "zh") else set()
    vowels = "aeiouyæœøəıơư" + ("rl" if language in ("cs", "sk", "sl", "hr") else "")
    unpronounceable = 0
    for word in words:
        scripts = {script for script, count in letters_by_script(word).items() if count}
        if len(scripts) > 1 and not scripts <= allowed:
            return True
        base = "".join(filter(str.isalpha, unicodedata.normalize("NFD", word.lower())))
        if not word.isupper() and re.match("[a-zæœøß]", base):
            no_vowel = len(base) > 3 and not any(char in vowels for char in base)
            unpronounceable += no_vowel or len(base) > 30 or re.search("[bcdfghjklmnpqrstvwxzß]{7}", base) is not None
    return unpronounceable > 1


@cache
def _openers_and_closers(language: str) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
    """Patterns for the beginning and the end of a text; the second is None if the language has no closers."""
    table = language_table(language)
    # Korean has spaces, but its particles are attached to the preceding word
    before, after = ("", "") if language in (*UNSPACED, "ko") else (r"(?<!\w)", r"(?!\w)|(?<!\w)")
    openers = re.compile(rf"({'|'.join(table.openers)})({after})", re.IGNORECASE)
    closers = rf"{before}({'|'.join(table.closers)})[.。।]?$"
    return openers, re.compile(closers, re.IGNORECASE) if table.closers else None


_TRAIT = "it stated age, origin, belief, health or looks of a person"


@cache
def _remarks(language: str, is_judged: bool) -> dict[str, re.Pattern[str]]:
    """The patterns of `language` by the complaint about what they find, with those of its judgement or without."""
    table = language_table(language)
    before, after = r"(?<!\w)", r"(?!\w)"
    if language in (*UNSPACED, "ko"):
        before = after = ""
    elif language == "hi":
        # `\w` does not match vowel signs
        before, after = r"(?<![^\s(])", r"(?![^\s।,.;:!?)])"
    elif language in ("ar", "he"):
        # conjunctions and short prepositions are written together with the next word
        before = r"(?<!\w)[وفושבכ]?"
    # a pattern may end in punctuation
    after = rf"(?:{after}|(?<=[^\w\s]))" if after else ""
    kinds = {"it described nothing": table.refusals}
    if is_judged and (judgement := table.judgement):
        traits = "|".join((*judgement.traits, *judgement.peoples.split()))
        adjectives, persons = ("|".join(words.split()) for words in (judgement.adjectives, judgement.persons))
        of_persons = rf"({traits})(?= (({adjectives}) ){{0,2}}({persons})(?![\w'-]))"
        kinds |= judgement.remarks | judgement.claims
        kinds[_TRAIT] = (*kinds[_TRAIT], of_persons)
    return {complaint: re.compile(rf"(?i){before}(?:{'|'.join(parts)}){after}") for complaint, parts in kinds.items()}
