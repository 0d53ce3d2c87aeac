"""Checks whether words are in the requested language, and whether they are words of any language at all."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.llm.lint_rules import CJK, UNSPACED, rules_of
from imgproc_local.vision.text.language import (
    detect_language,
    function_words,
    has_foreign_letters,
    letters_by_script,
    scripts_of,
)
from imgproc_local.vision.text.ngram_table import probabilities

MIN_WORDS = 8
MIN_WORDS_IN_LIST = 12
"""A text with too few common words is nonsense only if it has at least this many words; the second limit is for texts
with commas, which may be lists ("noodle soup, eggs, spring onions") and need fewer common words."""
MIN_WORDS_FOR_NGRAMS = 4
"""The n-grams of fewer words are not scored."""
CERTAIN = 0.99
"""A text is in the requested language if that has at least this probability, and may be in another language if it has
less than 1 − `CERTAIN`."""
PROBABLE = 0.9
"""It is then in the other language if that has more than this probability."""
PART_WORDS = 5
"""A part of a text is in another language if this many words in a row are."""
LETTERS_PER_MARK = 60
"""Japanese, Korean, Chinese and Thai have `Rules.marks`, which occur at least once in this many letters."""

_ANALYTIC = frozenset(("en", "de", "fr", "es", "it", "pt", "nl", "da", "sv", "nb", "ro", "ca", "id", "vi", "el", "bg"))
"""Languages in which at least one word in five is a common one. In all others, where endings replace articles and
prepositions, at least one in seven is."""
_CLOSE_RELATIVES = {"da": ("nb",), "nb": ("da",), "cs": ("sk",), "sk": ("cs",), "hr": ("sl",), "sl": ("hr",)}
"""Languages that share most of their words. One word of the requested language then outweighs all words of the
other."""
_LETTERS_NOT_IN_ARABIC = re.compile("[پچژگکیےٹڈں]")
_CODE_MARKS = re.compile(r"[{}\[\]\\|~^=`*#@<>;_$]|::|\(\)|->|\?\?|!!")
_TOKEN_SEAM = re.compile(
    r"[^\W\d_A-Z]{2}[A-Z]\w*|[^\W\d_][.,;:!?)][^\W\d_]{2}|[^\W\d_]{4}\d\w*|\d[^\W\d_]{4}|\s[,.)]|\(\s|[^\w\s]{3}"
)
"""What random tokens produce where they meet: inner capitals, punctuation without a space, digits inside words. A
single one may be a name (YouTube)."""


def is_other_language(words: Sequence[str], language: str) -> bool:
    """Whether `words` are clearly not in `language`, by script, letters, n-grams or common words."""
    scripts = scripts_of(language)
    counts: Counter[str] = Counter()
    for word in words:
        for script, count in letters_by_script(word).items():
            # a Chinese character is a syllable or a word, so a Latin word counts as two characters at most
            counts[script] += min(count, 2) if script == "latin" and language in CJK else count
    in_script = sum(counts[script] for script in scripts)
    # up to half of the letters may be in another script, as in names, if the other words are in the language
    is_mixed = scripts == ("latin",) and in_script < 0.8 * counts.total()
    if in_script < 0.5 * counts.total() or (is_mixed and not _is_probably(words, language)):
        return True
    if language == "ja" and counts["han"] >= 8 and not counts["kana"]:
        return True
    if (language == "zh" and counts["kana"] > 2) or (language == "ko" and counts["han"] > counts["hangul"]):
        return True
    if language == "zh" and detect_language("".join(words)) == "zh-hant":
        return True
    if language == "ar" and sum(bool(_LETTERS_NOT_IN_ARABIC.search(word)) for word in words) > 1:
        return True
    if language == "hi":
        return detect_language(" ".join(words)) in ("mr", "ne")
    return scripts[0] in ("latin", "cyrillic") and _is_rival_language(words, language)


def _is_rival_language(words: Sequence[str], language: str) -> bool:
    """Whether `words`, or `PART_WORDS` in a row, are in another language: a rival, which uses the same script."""
    if len(words) < MIN_WORDS_FOR_NGRAMS:
        return _has_rival_words(words, language)
    found = _probabilities(words, language)
    if found[language] >= CERTAIN:
        return _has_rival_part(words, language)
    rival = max(found, key=lambda code: found[code])
    if found[language] < 1 - CERTAIN and found[rival] > PROBABLE and rival:
        return True
    # a word with a capital inside a sentence may be a name, whose letters may be foreign
    without_names = [word for index, word in enumerate(words) if index == 0 or word == word.lower()]
    foreign = {word for word in without_names if has_foreign_letters(word, language)}
    if len(foreign) > 1 and len(foreign) * 6 >= len(words) and found[language] < 0.5:
        return True
    return _has_rival_words(words, language) or _has_rival_part(words, language)


def _has_rival_words(words: Sequence[str], language: str) -> bool:
    lower = [word.lower() for word in words]
    rivals = [code for code in LANGUAGES if code != language and scripts_of(code) == scripts_of(language)]
    return any(count_rival_words(lower, rival, language) > 1 for rival in rivals)


def _has_rival_part(words: Sequence[str], language: str) -> bool:
    """Whether `PART_WORDS` words in a row, with function words among them, are in another language."""
    own = function_words(language)
    for start in range(len(words) - PART_WORDS + 1):
        part = words[start : start + PART_WORDS]
        # words with capitals may be names, such as "Plaza de la Constitución"
        if sum(word.islower() for word in part) < PART_WORDS - 1:
            continue
        for rival in LANGUAGES:
            if sum(word in function_words(rival) and word not in own for word in part) > 1:
                found = _probabilities(part, language)
                if found[language] < 1 - CERTAIN and found.get(rival, 0) > PROBABLE:
                    return True
    return False


def _is_probably(words: Sequence[str], language: str) -> bool:
    """Whether those of `words` that are in the script of `language` are in that language."""
    own = [word for word in words if any(letters_by_script(word)[script] for script in scripts_of(language))]
    return len(own) >= MIN_WORDS_FOR_NGRAMS and _probabilities(own, language)[language] >= PROBABLE


def _probabilities(words: Sequence[str], language: str) -> dict[str, float]:
    return probabilities(" ".join(words), scripts_of(language)[0])


def count_rival_words(words: Sequence[str], rival: str, language: str) -> int:
    """The number of distinct `words` that are common in the language `rival` and not in `language`.

    The number is 0 if it is too small to suggest that the text is in `rival`, by itself or compared with the words that
    are common in `language` only.
    """
    rules, rival_rules = rules_of(language), rules_of(rival)
    only_rival = [word for word in words if rival_rules.is_common(word) and not rules.is_common(word)]
    only_language = [word for word in words if rules.is_common(word) and not rival_rules.is_common(word)]
    different = len(set(only_rival))
    # small models often answer in English, so half the words of a short text are enough for English, not only more
    enough = different > 2 or 2 * different > len(words) - (rival == "en")
    weight = len(words) if rival in _CLOSE_RELATIVES.get(language, ()) else 2
    return different if enough and len(only_rival) > weight * len(only_language) else 0


def is_nonsense(text: str, words: Sequence[str], language: str) -> bool:
    """Whether `text` is in no language at all, such as the random tokens that a broken model generates."""
    visible = [char for char in text if not char.isspace()]
    letters = sum(unicodedata.category(char)[0] in "LM" for char in visible)
    if letters < 0.5 * len(visible) or len(_CODE_MARKS.findall(text)) > 2:
        return True
    if sum(unicodedata.category(char) in ("So", "Sk", "Sm", "Sc") for char in visible) > 3:
        return True
    seams = set() if language in CJK or language in UNSPACED else set(_TOKEN_SEAM.findall(text))
    if len(seams) > 1 or has_mixed_scripts(words, language) or count_unpronounceable(words, language) > 1:
        return True
    scripts = {script for word in words for script, count in letters_by_script(word).items() if count}
    if len(scripts - {"latin", *scripts_of(language)}) > 1:
        return True
    rules = rules_of(language)
    if rules.marks:
        return len(rules.marks.findall(text)) < letters // LETTERS_PER_MARK
    common = sum(rules.is_common(word.lower()) for word in words)
    enough = len(words) >= (MIN_WORDS_IN_LIST if re.search("[,،:;]", text) else MIN_WORDS)
    return enough and common < len(words) // (5 if language in _ANALYTIC else 7)


def has_mixed_scripts(words: Sequence[str], language: str) -> bool:
    """Whether a word has letters of two scripts. In Chinese, Japanese and Korean, Latin letters need no space."""
    allowed = {"latin", *scripts_of(language)} if language in CJK else set()
    for word in words:
        scripts = {script for script, count in letters_by_script(word).items() if count}
        if len(scripts) > 1 and not scripts <= allowed:
            return True
    return False


def count_unpronounceable(words: Sequence[str], language: str) -> int:
    """The number of words in Latin letters that can't be pronounced. Abbreviations in capitals are not counted."""
    vowels = "aeiouyæœøıəơư" + ("rl" if language in ("cs", "sk", "sl", "hr") else "")
    count = 0
    for word in words:
        base = unicodedata.normalize("NFD", word.lower())
        if not word.isupper() and re.match("[a-zæœøß]", base):
            base = "".join(char for char in base if char.isalpha())
            no_vowel = len(base) > 3 and not any(char in vowels for char in base)
            count += no_vowel or len(base) > 30 or re.search("[bcdfghjklmnpqrstvwxzß]{7}", base) is not None
    return count
