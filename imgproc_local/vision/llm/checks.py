"""All checks of a model's answer: why an alt text is refused, and whether a file name is good.

Most checks are the same in all languages: whether the text is complete, its length, script and language, whether it
repeats itself, the prompt or a file name, begins with an opener such as "Image of", refuses to describe, or quotes what
is not in the picture. Guesses, moods and camera work are found only in English, which a model writes first and then
translates.

A problem of an alt text is returned as a complaint that completes the sentence "The answer before was refused: …." in
the prompt of the retry. If a problem is uncertain, the answer is accepted.

Source: W3C WAI, WCAG failure F30.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache

from imgproc_local.domain.alt_text import MAX_ALT_CHARS
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.slug import make_slug
from imgproc_local.vision.describer import TextInPicture
from imgproc_local.vision.languages.table import language_table
from imgproc_local.vision.llm.cleanup import is_cut_off, label_pattern, quotations, without_quotations
from imgproc_local.vision.llm.prompt import DRAFT, INSTRUCTIONS, Answer
from imgproc_local.vision.llm.repetition import repeats_itself
from imgproc_local.vision.text.filename_words import filename_words
from imgproc_local.vision.text.language import (
    UNSPACED,
    function_words,
    is_other_language,
    letters_by_script,
    probability_of,
    scripts_of,
)
from imgproc_local.vision.text.words import casefolded_words, letters_and_digits, words_of

ECHOED_WORDS = 5
"""An answer repeats the prompt if it contains a sequence of this many words of `INSTRUCTIONS` or `DRAFT`."""
MAX_COMMAS = 7
"""A text with more commas is a list of more than eight things."""
MIN_TAGS = 6
"""A text of at least this many parts between commas, without any function word, is a list of keywords; so is one of one
part fewer in which a long word occurs three times."""

MIN_WORDS_OF_SENTENCE = 8
_WITH_ARTICLES = frozenset(("en", "de", "fr", "es", "it", "pt", "nl", "da", "sv", "nb", "ro", "ca", "id"))
"""In these languages, a sentence of so many words without an article or a preposition is none, unless it is a list."""

MIN_QUOTED_CHARACTERS = 3
"""Shorter quotations are not compared, because OCR seldom reads single letters."""
MAX_WRONG_SHARE = 0.1
"""A quotation may differ in this share of its characters, because OCR may misread some characters of a long line."""
MAX_SHOWN_CHARS = 60
"""A longer quotation is truncated in the complaint, which must fit into `RETRY_TOKENS` of `llama.py`."""

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffd\ue000-\uf8ff\ufff0-\uffff]")
_PROMPT_MARKS = re.compile(
    r"(?i)alt_text|\bfilename:|noted by its owner|alternative text in english"
    r"|\bim_(start|end)\b|(start|end)_of_turn|</?\w"
)
_FILE_NAME = re.compile(
    r"(?i)https?:|\bwww\.|\w\.(jpe?g|png|gif|webp|avif|heic|bmp|tiff?|svg)\b|\w_\w"
    r"|\b(img|dsc[fn]?|pxl|mvimg|dji|gopr|dscn|screenshot)[ _-]?\d{3,}"
)
_MARKUP = re.compile(
    r"\\[nrtu\"]|&(amp|nbsp|quot|lt|gt|apos|#\d+|#x[0-9a-f]+);|```|\*\*|^#+ |\n#|\[/?INST\]|<\||\|>|</?\w+[^>]{0,40}>"
    r"|!?\[[^\]]{0,80}\]\([^)]{0,80}\)|[{\[]\s*[\"'][\w -]{1,30}[\"']|[\"']\s*:\s*[\"'{\[]|[\"']\s*[}\]]|\b\w+=[\"']"
    r"|^\W*\{|\}\W*$|\b(undefined|NaN|null)\b|#\w+[^#]{0,30}#\w+|\[\d+\]|\w\\_\w|https?://|\$\{|\{\{",
    re.IGNORECASE,
)
_BEFORE_LABEL = r"(?:[.;|·–-]|\s-) ?"
"""What precedes a label inside a text; `cleanup.py` removes those at the beginning."""
_CODE_MARKS = re.compile(r"[{}\[\]\\|~^=`*#@<>;_$]|::|\(\)|->|\?\?|!!")
_TOKEN_SEAM = re.compile(
    r"[^\W\d_A-Z]{2}[A-Z]\w*|[^\W\d_][.,;:!?)][^\W\d_]{2}|[^\W\d_]{4}\d\w*|\d[^\W\d_]{4}|\s[,.)]|\(\s|[^\w\s]{3}"
)
"""What random tokens produce where they meet: inner capitals, punctuation without a space, digits inside words. A
single one may be a name (YouTube)."""


def alt_text_problem(answer: Answer, language: str, *, original_filename: str = "", notes: str = "") -> str | None:
    """The complaint about the alt text of a cleaned `answer`, the most important one; None if it can be published.

    `notes` are those in the prompt. Names in them may be in any script and spelling.
    """
    text = answer.alt_text
    if len(text) > MAX_ALT_CHARS:
        return f"it was longer than {MAX_ALT_CHARS} characters"
    if _UNPRINTABLE.search(text) or any(unicodedata.category(char) in ("Cn", "Co", "Cs") for char in text):
        return "it contained unprintable characters"
    if _PROMPT_MARKS.search(text) or _echoes_prompt(text):
        return "it repeated words of the prompt"
    unquoted = without_quotations(text, "•")  # no letter, so that the words around a quotation stay apart
    # words with a capital in the notes
    names = frozenset(word.casefold() for word in words_of(notes) if word != word.lower())
    words = [word for word in words_of(unquoted) if word.casefold() not in names]
    name = LANGUAGES[language].name
    if is_other_language(words, language):
        return f"it was not in {name}"
    problem = (
        _length_problem(text, language)
        or _opener_or_closer_problem(text, language)
        or _file_name_problem(text, unquoted, original_filename)
        or _remark_problem(text, unquoted, language)
        or _content_problem(text, unquoted, language)
    )
    if problem:
        return problem
    if repeats_itself(unquoted, language):
        return "it repeated itself"
    if _is_nonsense(unquoted, words, language):
        return f"it was no sentence in {name}"
    return "the sentence was cut off" if is_cut_off(text, language) else None


def is_good_filename(filename: str, language: str, *, original_filename: str = "") -> bool:
    """Whether `filename`, words joined by hyphens, consists of two or more words that describe the picture."""
    slug = make_slug(filename.replace("-", " "), language, language).split("-")
    words = words_of(filename)
    if len(slug) < 2 or not filename_words(filename) or len(set(slug)) * 3 < len(slug) * 2:
        return False
    is_old_name = letters_and_digits(filename) == letters_and_digits(_stem(original_filename))
    if is_old_name and not filename_words(original_filename):
        return False
    if (
        _UNPRINTABLE.search(filename)
        or _count_unpronounceable(words, language) > 1
        or _has_mixed_scripts(words, language)
    ):
        return False
    # small models often answer in English
    return language == "en" or probability_of("en", words) <= 0.9 or probability_of(language, words) >= 0.01


def misquotation(alt_text: str, read_text: TextInPicture | None, notes: str) -> str | None:
    """The complaint about a quotation in `alt_text` that is not in the picture; None if there is none.

    Quotations from `notes`, a part of the prompt, are allowed. Nothing is compared if no text was read, or if there is
    more text in the picture than was read.
    """
    if read_text is None or not read_text.text or read_text.unread_lines:
        return None
    known = [letters_and_digits(text) for text in (read_text.text, notes)]
    for quotation in quotations(alt_text):
        quoted = letters_and_digits(quotation)
        if len(quoted) >= MIN_QUOTED_CHARACTERS and not any(
            _errors(quoted, text) <= MAX_WRONG_SHARE * len(quoted) for text in known
        ):
            shown = quotation if len(quotation) <= MAX_SHOWN_CHARS else f"{quotation[:MAX_SHOWN_CHARS]}…"
            return f"it quoted “{shown}”, which is not in the picture"
    return None


def _echoes_prompt(text: str) -> bool:
    words, prompt = casefolded_words(text), f" {' '.join(casefolded_words(INSTRUCTIONS + DRAFT))} "
    starts = range(len(words) - ECHOED_WORDS + 1)
    return any(f" {' '.join(words[start : start + ECHOED_WORDS])} " in prompt for start in starts)


def _length_problem(text: str, language: str) -> str:
    letters = sum(char.isalpha() for char in text)
    if letters < 2:
        return "it was empty"
    single = letters < 4 if language in UNSPACED else len(words_of(text)) < 2
    return "it was a single word" if single else ""


def _opener_or_closer_problem(text: str, language: str) -> str:
    text = text.replace("’", "'").lstrip("\"'“”„«»‘‚「『¡¿*-•–— ")
    for code in dict.fromkeys((language, "en")):
        openers, closers = _openers_and_closers(code)
        if match := openers.match(text) or label_pattern(code).match(text):
            return f'it began with "{match[0].strip().lower()}"'
        if closers and (match := closers.search(text)):
            return f'it ended in "{match[0].strip()}"'
    return ""


def _file_name_problem(text: str, unquoted: str, original_filename: str) -> str:
    stem = letters_and_digits(_stem(original_filename))
    if stem and stem == letters_and_digits(text):
        return "it was the file's name"
    is_generated = re.search(r"\d", stem) and len(stem) > 4 and not filename_words(original_filename)
    if _FILE_NAME.search(unquoted) or (is_generated and stem in letters_and_digits(unquoted)):
        return "it held a file name or an address"
    return "it was a file name" if " " not in text and text.count("-") > 1 and text.isascii() else ""


def _remark_problem(text: str, unquoted: str, language: str) -> str:
    """The complaint about mark-up, a label or a remark in `text`. Remarks in quotations are accepted."""
    if _MARKUP.search(text):
        return "it contained mark-up"
    unquoted = unquoted.replace("’", "'")
    for code in dict.fromkeys((language, "en")):
        if match := re.search(_BEFORE_LABEL + label_pattern(code).pattern, unquoted, re.IGNORECASE):
            return f'it contained the label "{match[1]}"'
        for complaint, pattern in _remarks(code).items():
            # English is the draft: only there it is judged what a text says
            if (code == language or complaint == "it described nothing") and (match := pattern.search(unquoted)):
                return f'{complaint} ("{match[0].strip()}")'
    return ""


def _content_problem(text: str, unquoted: str, language: str) -> str:
    """The complaint about a text that says nothing or is a list; "" if there is none."""
    words, known = casefolded_words(unquoted), function_words(language)
    judgement = language_table(language).judgement
    if judgement and text == unquoted:
        generic = judgement.generic.split()
        if all(word in generic or word in known for word in words) and any(word in generic for word in words):
            return "it said nothing about the content"
    commas = len(re.findall(r"[,،、，;；|]", unquoted))
    if commas > MAX_COMMAS:
        return "it was a list"
    content = Counter(word for word in words if len(word) > 3 and word not in known)
    is_tags = bool(known) and commas >= MIN_TAGS - 1 and not known.intersection(words)
    repeats_a_word = commas >= MIN_TAGS - 2 and content and content.most_common(1)[0][1] >= 3
    return "it was a list of keywords" if is_tags or repeats_a_word else ""


def _is_nonsense(text: str, words: Sequence[str], language: str) -> bool:
    """Whether `text` is in no language at all, such as the random tokens that a broken model generates."""
    visible = [char for char in text if not char.isspace()]
    letters = sum(unicodedata.category(char)[0] in "LM" for char in visible)
    if letters < 0.5 * len(visible) or len(_CODE_MARKS.findall(text)) > 2:
        return True
    if sum(unicodedata.category(char) in ("So", "Sk", "Sm", "Sc") for char in visible) > 3:
        return True
    is_spaced = language not in UNSPACED and language != "ko"
    if is_spaced and len(set(_TOKEN_SEAM.findall(text))) > 1:
        return True
    if _has_mixed_scripts(words, language) or _count_unpronounceable(words, language) > 1:
        return True
    is_list = re.search("[,:;(–]", text) is not None
    lower = {word.lower() for word in words}
    return (
        language in _WITH_ARTICLES
        and not is_list
        and len(words) >= MIN_WORDS_OF_SENTENCE
        and function_words(language).isdisjoint(lower)
    )


def _has_mixed_scripts(words: Sequence[str], language: str) -> bool:
    """Whether a word has letters of two scripts. In Chinese, Japanese and Korean, Latin letters need no space."""
    allowed = {"latin", *scripts_of(language)} if language in ("ja", "ko", "zh") else set()
    for word in words:
        scripts = {script for script, count in letters_by_script(word).items() if count}
        if len(scripts) > 1 and not scripts <= allowed:
            return True
    return False


def _count_unpronounceable(words: Sequence[str], language: str) -> int:
    """The number of words in Latin letters that can't be pronounced. Abbreviations in capitals are not counted."""
    vowels = "aeiouyæœøəıơư" + ("rl" if language in ("cs", "sk", "sl", "hr") else "")
    count = 0
    for word in words:
        base = unicodedata.normalize("NFD", word.lower())
        if not word.isupper() and re.match("[a-zæœøß]", base):
            base = "".join(char for char in base if char.isalpha())
            no_vowel = len(base) > 3 and not any(char in vowels for char in base)
            count += no_vowel or len(base) > 30 or re.search("[bcdfghjklmnpqrstvwxzß]{7}", base) is not None
    return count


def _errors(wanted: str, text: str) -> int:
    """The edit distance between `wanted` and the most similar part of `text`."""
    if wanted in text:
        return 0
    row = [0] * (len(text) + 1)
    for index, character in enumerate(wanted, 1):
        previous, row[0] = row[0], index
        for column, found in enumerate(text, 1):
            substituted = previous + (character != found)
            previous, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, substituted)
    return min(row)


def _stem(filename: str) -> str:
    """The file name without its extensions."""
    return re.sub(r"(\.\w{1,5})+$", "", filename)


@cache
def _openers_and_closers(language: str) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
    """Patterns for the beginning and the end of a text; the second is None if the language has no closers."""
    table = language_table(language)
    # Korean has spaces, but its particles are attached to the preceding word
    before, after = ("", "") if language in (*UNSPACED, "ko") else (r"(?<!\w)", r"(?!\w)|(?<!\w)")
    openers = re.compile(rf"({'|'.join(table.openers)})({after})", re.IGNORECASE)
    if not table.closers:
        return openers, None
    return openers, re.compile(rf"{before}({'|'.join(table.closers)})[.。।]?$", re.IGNORECASE)


@cache
def _remarks(language: str) -> dict[str, re.Pattern[str]]:
    """The patterns of `language` by the complaint about what they find."""
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
    if judgement := table.judgement:
        kinds = {
            "it guessed": judgement.guesses,
            "it described a mood instead of the content": judgement.moods,
            "it described the camera work": judgement.camera,
            **kinds,
            "it addressed the reader": judgement.addresses,
            "it referred to the picture itself": judgement.references,
        }
    return {
        complaint: re.compile(rf"{before}(?:{'|'.join(parts)}){after}", re.IGNORECASE)
        for complaint, parts in kinds.items()
    }
