"""Whether words are in the requested language, and whether they are words of any language."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.vision.llm.lint_rules import CJK, UNSPACED, rules_of
from imgproc_local.vision.text.language import has_foreign_letters, letters_by_script, scripts_of

MIN_WORDS = 8
MIN_WORDS_IN_LIST = 12
"""A text with fewer words may have no common words at all, more so a list with commas ("noodle soup, eggs, spring
onions"), so only a longer text without common words is nonsense."""
LETTERS_PER_MARK = 60
"""Languages without spaces are recognised by `Rules.marks`, which occur at least once in this many letters."""

_ANALYTIC = frozenset(("en", "de", "fr", "es", "it", "pt", "nl", "da", "sv", "nb", "ro", "ca", "id", "vi", "el", "bg"))
"""At least one word of five is a common one here; elsewhere, where endings replace small words, one of seven."""
_CLOSE_RELATIVES = {"da": ("nb",), "nb": ("da",), "cs": ("sk",), "sk": ("cs",), "hr": ("sl",), "sl": ("hr",)}
"""Pairs with so many words in common that a single word of the requested language outweighs the other's."""
_NOT_ARABIC = re.compile("[پچژگکیےٹڈں]")
_CODE = re.compile(r"[{}\[\]\\|~^=`*#@<>;_$]|::|\(\)|->|\?\?|!!")
_TOKEN_SEAM = re.compile(
    r"[^\W\d_A-Z]{2}[A-Z]\w*|[^\W\d_][.,;:!?)][^\W\d_]{2}|[^\W\d_]{4}\d\w*|\d[^\W\d_]{4}|\s[,.)]|\(\s|[^\w\s]{3}"
)
"""Joins of tokens that no person writes: inner capitals, punctuation without a space, digits inside words. A single one
may be a name (YouTube)."""


def is_other_language(words: Sequence[str], language: str) -> bool:
    """Whether `words` are clearly not in `language`, by script, letters or common words."""
    scripts = scripts_of(language)
    counts: Counter[str] = Counter()
    for word in words:
        for script, count in letters_by_script(word).items():
            # a Chinese character is a syllable or a word, so a Latin word counts as two characters
            counts[script] += min(count, 2) if script == "latin" and language in CJK else count
    in_script = sum(counts[script] for script in scripts)
    if in_script < (0.8 if scripts == ("latin",) else 0.5) * counts.total():
        return True
    if language == "ja" and counts["han"] >= 8 and not counts["kana"]:
        return True
    if (language == "zh" and counts["kana"] > 2) or (language == "ko" and counts["han"] > counts["hangul"]):
        return True
    if language == "ar" and sum(bool(_NOT_ARABIC.search(word)) for word in words) > 1:
        return True
    # a capital inside a sentence may begin a name, whose letters may be foreign
    no_names = [word for at, word in enumerate(words) if not at or word == word.lower()]
    foreign = {word for word in no_names if has_foreign_letters(word, language)}
    if len(foreign) > 1 and len(foreign) * 6 >= len(words):
        return True
    lower = [word.lower() for word in words]
    rivals = [code for code in LANGUAGES if code != language and scripts_of(code) == scripts]
    return any(words_for_rival(lower, rival, language) > 1 for rival in rivals)


def words_for_rival(words: Sequence[str], rival: str, language: str) -> int:
    """How many different words are common in `rival` and not in `language`; 0 unless they outweigh the opposite."""
    rules, rival_rules = rules_of(language), rules_of(rival)
    only_rival = [word for word in words if rival_rules.is_common(word) and not rules.is_common(word)]
    only_language = [word for word in words if rules.is_common(word) and not rival_rules.is_common(word)]
    different = len(set(only_rival))
    # small models fall back to English, so for English half the words of a short text are enough
    enough = different > 2 or 2 * different > len(words) - (rival == "en")
    weight = len(words) if rival in _CLOSE_RELATIVES.get(language, ()) else 2
    return different if enough and len(only_rival) > weight * len(only_language) else 0


def is_nonsense(text: str, words: Sequence[str], language: str) -> bool:
    """Whether `text` is a sequence of random tokens, as a broken model writes, that belongs to no language at all."""
    visible = [char for char in text if not char.isspace()]
    letters = sum(unicodedata.category(char)[0] in "LM" for char in visible)
    if letters < 0.5 * len(visible) or len(_CODE.findall(text)) > 2:
        return True
    if sum(unicodedata.category(char) in ("So", "Sk", "Sm", "Sc") for char in visible) > 3:
        return True
    seams = set() if language in CJK or language in UNSPACED else set(_TOKEN_SEAM.findall(text))
    if len(seams) > 1 or has_mixed_scripts(words, language) or unpronounceable(words, language) > 1:
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


def unpronounceable(words: Sequence[str], language: str) -> int:
    """The number of Latin words that nobody can pronounce, without abbreviations in capitals."""
    vowels = "aeiouyæœøıəơư" + ("rl" if language in ("cs", "sk", "sl", "hr") else "")
    count = 0
    for word in words:
        base = unicodedata.normalize("NFD", word.lower())
        if not word.isupper() and re.match("[a-zæœøß]", base):
            base = "".join(char for char in base if char.isalpha())
            no_vowel = len(base) > 3 and not any(char in vowels for char in base)
            count += no_vowel or len(base) > 30 or re.search("[bcdfghjklmnpqrstvwxzß]{7}", base) is not None
    return count
