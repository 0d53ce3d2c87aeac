"""Which of a model's answers are worth publishing, told by rules alone.

What can be mended without inventing anything is mended first; then the first fault is named, in words that fit into
"The answer before was refused: ….", so that the model hears what to do better. What can't be told for certain passes.
Source: api/README.md, "Results"; W3C WAI, WCAG failure F30.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.slug import make_slug
from imgproc_local.vision.llm.lint_rules import UNSPACED, rules_of
from imgproc_local.vision.llm.prompt import INSTRUCTIONS, Answer
from imgproc_local.vision.text.human_words import MAX_ALT_CHARS, filename_words
from imgproc_local.vision.text.language import has_foreign_letters, letters_by_script, scripts_of

NEAR_LIMIT_CHARS = 190
"""The grammar ends a text at 200, and the last token may not fit: from here on a missing full stop was cut off."""
TELLING_WORDS = 8
TELLING_LISTED = 12
"""Fewer may all be names and rare words, in a list with commas more of them: "noodle soup, eggs, spring onions"."""
TELLING_LETTERS = 60
"""The same where words are not parted."""

_STOPS = {"ja": "。", "zh": "。", "hi": "।", "th": ""}
"""Thai ends a sentence with a space, so with nothing at a text's end."""
_DENSE = frozenset(("ja", "zh", "ko"))
"""A letter here is a syllable or a word: a Latin word among them counts two."""
_RICH = frozenset(("en", "de", "fr", "es", "it", "pt", "nl", "da", "sv", "nb", "ro", "ca", "id", "vi", "el", "bg"))
"""Of five words one at least is a common one here, elsewhere, where endings do the work of small words, of seven."""
_LONG_RUNS = {"zh": 10, "ja": 14, "th": 30}
"""So many words, here letters, don't come twice in a good text; half as many don't come four times."""
_NEAR = {"da": ("nb",), "nb": ("da",), "cs": ("sk",), "sk": ("cs",), "hr": ("sl",), "sl": ("hr",)}
"""So close that a word of the other is nothing yet while one word is the language's own."""

_ENDED = re.compile(r"[.!?…。！？।॥؟][”“’»«\"')\]）」』】]*$")
_QUOTED = re.compile(
    r"“[^“”]*[“”]|„[^„“”]*[“”]|”[^“”]*[“”]|«[^«»]*»|»[^«»]*«|「[^「」]*」|『[^『』]*』|《[^《》]*》|(?<!\w)\"[^\"]*\""
    r"|‘[^‘’]*’|‚[^‚‘’]*[‘’]|(?<!\w)'[^']+'(?!\w)|(?<!\w)’[^’]+’(?!\w)"
)
_PAIRS = ("“”", "„“", "„”", "””", "«»", "»«", "「」", "『』", '""', "‘’", "‚‘", "''", "()", "[]")
_BRACKETS = (("(", ")"), ("[", "]"), ("（", "）"), ("【", "】"))
_FILE_NAME = re.compile(
    r"(?i)https?:|\bwww\.|\w\.(jpe?g|png|gif|webp|avif|heic|bmp|tiff?|svg)\b|\w_\w"
    r"|\b(img|dsc[fn]?|pxl|mvimg|dji|gopr|dscn|screenshot)[ _-]?\d{3,}"
)
_FORM = re.compile(r"(?i)alt_text|\bfilename:|noted by its owner|\bim_(start|end)\b|(start|end)_of_turn|</?\w")
_CODE = re.compile(r"[{}\[\]\\|~^=`*#@<>;_$]|::|\(\)|->|\?\?|!!")
_SEAM = re.compile(
    r"[^\W\d_A-Z]{2}[A-Z]\w*|[^\W\d_][.,;:!?)][^\W\d_]{2}|[^\W\d_]{4}\d\w*|\d[^\W\d_]{4}|\s[,.)]|\(\s|[^\w\s]{3}"
)
"""Where tokens meet that no writer put together: inner capitals, marks without a space, digits in words. One may be a
name (YouTube), two are not."""
_NOT_ARABIC = re.compile("[پچژگکیےٹڈں]")


def clean_answer(answer: Answer, language: str) -> Answer:
    """`answer` without what surrounds the words: labels, quotes, an opener that can go, and with capital and stop."""
    text = " ".join(unicodedata.normalize("NFC", answer.alt_text).split()).strip("*#_` ")
    text = _unwrapped(text)
    rules = (rules_of("en"), rules_of(language))
    # a label may come after a greeting, an opener after a label
    for pattern in [pattern for each in rules for pattern in (each.cut, each.label)] * 2:
        if pattern and (match := pattern.match(text.replace("’", "'"))) and len(text) - match.end() > 3:
            text = _unwrapped(text[match.end() :].lstrip(" ,:：-–—*"))
    text = _capitalised(text, language)
    if _letters_only(text) and not _ended(text, language) and not _cut_off(text, language):
        text += _STOPS.get(language, ".")
    return Answer(answer.filename, text)


def alt_text_problem(answer: Answer, language: str, *, original_filename: str = "", noted: str = "") -> str | None:
    """Why the alt text of `answer` is not worth publishing, None where it is.

    Names in `noted`, what the owner wrote, may be in any script or spelling.
    """
    text = answer.alt_text
    if len(text) > MAX_ALT_CHARS:
        return f"it was longer than {MAX_ALT_CHARS} characters"
    plain = _QUOTED.sub("•", text)
    names = frozenset(word.casefold() for word in _tokens(noted.removeprefix(INSTRUCTIONS)) if word != word.lower())
    words = [word for word in _tokens(plain) if word.casefold() not in names]
    return (
        _unprintable(text)
        or _other_language(words, language)
        or _too_little(text, language)
        or _opening(text, language)
        or _file_name(text, plain, original_filename)
        or _repetition(plain, language)
        or _nonsense(plain, words, language)
        or _cut_off(text, language)
        or None
    )


def filename_problem(filename: str, language: str, *, original_filename: str = "") -> str | None:
    """Why the words of `filename` name no file, None where they do: then words of the alt text are better."""
    slug = make_slug(filename.replace("-", " "), language).split("-")
    words = _tokens(filename)
    if slug == [""]:
        return "its file name had no words that can be written in Latin letters"
    if len(slug) < 2:
        return "its file name was a single word"
    if not filename_words(filename):
        return "its file name said nothing"
    if _letters_only(filename) == _letters_only(_stem(original_filename)) and not filename_words(original_filename):
        return "its file name was the old one"
    if len(set(slug)) * 3 < len(slug) * 2:
        return "its file name repeated itself"
    if _UNPRINTABLE.search(filename) or _hard(words, language) > 1 or _mixed(words, language):
        return "its file name was made of no words"
    if language != "en" and _evidence([word.lower() for word in words], "en", language) > 1:
        return f"its file name was not in {LANGUAGES[language].name}"
    return None


_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffd\ue000-\uf8ff\ufff0-\uffff]")


def _unprintable(text: str) -> str:
    if _UNPRINTABLE.search(text) or any(unicodedata.category(char) in ("Cn", "Co", "Cs") for char in text):
        return "it held characters that are no text"
    return "it held words of the form" if _FORM.search(text) or _echo(text) else ""


def _echo(text: str) -> bool:
    """Whether five words stand as they do in the question."""
    words, asked = _lower(text), f" {' '.join(_lower(INSTRUCTIONS))} "
    return any(f" {' '.join(words[at : at + 5])} " in asked for at in range(len(words) - 4))


def _too_little(text: str, language: str) -> str:
    """A single word is a label, not a description: asked once more, a model says who or what, where."""
    letters = sum(char.isalpha() for char in text)
    if letters < 2:
        return "it was empty"
    few = letters < 4 if language in UNSPACED else len(_tokens(text)) < 2
    return "it was a single word" if few else ""


def _other_language(words: Sequence[str], language: str) -> str:
    complaint = f"it was not in {LANGUAGES[language].name}"
    own = scripts_of(language)
    counts: Counter[str] = Counter()
    for word in words:
        for script, count in letters_by_script(word).items():
            counts[script] += min(count, 2) if script == "latin" and language in _DENSE else count
    of_own = sum(counts[script] for script in own)
    if of_own < (0.8 if own == ("latin",) else 0.5) * counts.total():
        return complaint
    if language == "ja" and counts["han"] >= 8 and not counts["kana"]:
        return complaint
    if (language == "zh" and counts["kana"] > 2) or (language == "ko" and counts["han"] > counts["hangul"]):
        return complaint
    if language == "ar" and sum(bool(_NOT_ARABIC.search(word)) for word in words) > 1:
        return complaint
    # a capital within a sentence may begin a name, which keeps its letters
    no_names = [word for at, word in enumerate(words) if not at or word == word.lower()]
    strangers = {word for word in no_names if has_foreign_letters(word, language)}
    if len(strangers) > 1 and len(strangers) * 6 >= len(words):
        return complaint
    lower = [word.lower() for word in words]
    rivals = [code for code in LANGUAGES if code != language and scripts_of(code) == own]
    return complaint if any(_evidence(lower, rival, language) > 1 for rival in rivals) else ""


def _evidence(words: Sequence[str], rival: str, language: str) -> int:
    """How many different words speak for `rival`, 0 where they don't outweigh those that speak for `language`."""
    theirs, ours = rules_of(rival), rules_of(language)
    only_theirs = [word for word in words if theirs.common(word) and not ours.common(word)]
    only_ours = [word for word in words if ours.common(word) and not theirs.common(word)]
    different = len(set(only_theirs))
    # English is what a small model falls back to: there half the words of a short text do
    enough = different > 2 or 2 * different > len(words) - (rival == "en")
    outweighed = 2 * len(only_ours) if rival not in _NEAR.get(language, ()) else len(words) * len(only_ours)
    return different if enough and len(only_theirs) > outweighed else 0


def _opening(text: str, language: str) -> str:
    text = text.replace("’", "'").lstrip("\"'“”„«»‘‚「『*-•–— ")
    for code in dict.fromkeys((language, "en")):
        rules = rules_of(code)
        if match := rules.opener.match(text) or rules.label.match(text):
            return f'it began with "{match[0].strip().lower()}"'
        if rules.closer and (match := rules.closer.search(text)):
            return f'it ended in "{match[0].strip()}"'
    return ""


def _file_name(text: str, plain: str, original_filename: str) -> str:
    stem = _letters_only(_stem(original_filename))
    if stem and stem == _letters_only(text):
        return "it was the file's name"
    given = re.search(r"\d", stem) and len(stem) > 4 and not filename_words(original_filename)
    if _FILE_NAME.search(plain) or (given and stem in _letters_only(plain)):
        return "it held a file name or an address"
    return "it was a file name" if " " not in text and text.count("-") > 1 and text.isascii() else ""


def _repetition(plain: str, language: str) -> str:
    complaint = "it repeated itself"
    lower = plain.casefold()
    # three times on end; one letter five times. Within a word two letters may come thrice: Danish "genererer"
    least = 2 if language in UNSPACED else 3
    stretches = (match[1] for match in re.finditer(rf"(.{{{least},60}}?)\1\1", lower))
    if any(re.search(r"[^\W\d_]", stretch) for stretch in stretches) or re.search(r"([^\W\d_])\1{4}", lower):
        return complaint
    words = _lower(plain)
    letters = [char for char in lower if char.isalnum()]
    units = letters if language in UNSPACED else words
    long = _LONG_RUNS.get(language, 6)
    if any(first == second == third for first, second, third in zip(words, words[1:], words[2:], strict=False)):
        return complaint
    if _recurs(units, long, 2) or _recurs(units, long // 2, 4):
        return complaint
    if len(words) >= 12 and len(set(words)) < 0.45 * len(words):
        return complaint
    if len(letters) >= 40 and len(set(pairwise(letters))) < 0.4 * len(letters):
        return complaint
    sentences = [set(_bits(part, language)) for part in re.split(r"[.!?。！？।;]\s*", lower)]
    for index, one in enumerate(sentences):
        for other in sentences[:index]:
            if min(len(one), len(other)) > 2 and len(one & other) >= 0.8 * len(one | other):
                return complaint
    return ""


def _recurs(units: Sequence[str], length: int, times: int) -> bool:
    runs = Counter(tuple(units[at : at + length]) for at in range(len(units) - length + 1))
    return max(runs.values(), default=0) >= times


def _bits(sentence: str, language: str) -> list[str]:
    """Words, or pairs of letters where words are not parted."""
    if language in UNSPACED:
        return [sentence[at : at + 2] for at in range(len(sentence) - 1)]
    return _lower(sentence)


def _nonsense(plain: str, words: Sequence[str], language: str) -> str:
    """Token soup, as a model without sense writes it: no language has been told, and none can be."""
    complaint = f"it was no sentence in {LANGUAGES[language].name}"
    shown = [char for char in plain if not char.isspace()]
    letters = sum(unicodedata.category(char)[0] in "LM" for char in shown)
    if letters < 0.5 * len(shown) or len(_CODE.findall(plain)) > 2:
        return complaint
    if sum(unicodedata.category(char) in ("So", "Sk", "Sm", "Sc") for char in shown) > 3:
        return complaint
    seams = set() if language in _DENSE or language in UNSPACED else set(_SEAM.findall(plain))
    if len(seams) > 1 or _mixed(words, language) or _hard(words, language) > 1:
        return complaint
    scripts = {script for word in words for script, count in letters_by_script(word).items() if count}
    if len(scripts - {"latin", *scripts_of(language)}) > 1:
        return complaint
    rules = rules_of(language)
    if rules.marks:
        return complaint if len(rules.marks.findall(plain)) < letters // TELLING_LETTERS else ""
    common = sum(rules.common(word.lower()) for word in words)
    enough = len(words) >= (TELLING_LISTED if re.search("[,،:;]", plain) else TELLING_WORDS)
    return complaint if enough and common < len(words) // (5 if language in _RICH else 7) else ""


def _mixed(words: Sequence[str], language: str) -> bool:
    """Whether a word is of two scripts; in East Asian writing Latin letters touch the others."""
    allowed = {"latin", *scripts_of(language)} if language in _DENSE else set()
    for word in words:
        scripts = {script for script, count in letters_by_script(word).items() if count}
        if len(scripts) > 1 and not scripts <= allowed:
            return True
    return False


def _hard(words: Sequence[str], language: str) -> int:
    """How many words nobody can say; those in capitals are abbreviations."""
    vowels = "aeiouyæœøıəơư" + ("rl" if language in ("cs", "sk", "sl", "hr") else "")
    hard = 0
    for word in words:
        base = unicodedata.normalize("NFD", word.lower())
        if not word.isupper() and re.match("[a-zæœøß]", base):
            base = "".join(char for char in base if char.isalpha())
            no_vowel = len(base) > 3 and not any(char in vowels for char in base)
            hard += no_vowel or len(base) > 30 or re.search("[bcdfghjklmnpqrstvwxzß]{7}", base) is not None
    return hard


def _cut_off(text: str, language: str) -> str:
    complaint = "the sentence was cut off"
    dangling, ended = rules_of(language).dangling, _ended(text, language)
    plain = _QUOTED.sub("0", text)
    if re.search(r"(\.\.|…)[”“’»«\"')\]）」』]*$", text) or re.search(r"[,:、，；：،؛\-–—/&+(\[{（]$", text):
        return complaint
    if (text.endswith(";") and not ended) or re.search('[„“«「『《]|(?<!\\w)"', plain):
        return complaint
    if any(plain.count(left) > plain.count(right) for left, right in _BRACKETS):
        return complaint
    end = plain.rpartition(" ")[2]
    last = _tokens(end)
    if len(last) == 1 and not re.search(r"[\d(-]", end) and not last[0].isupper() and last[0].lower() in dangling:
        return complaint
    limit = NEAR_LIMIT_CHARS if _STOPS.get(language, ".") else NEAR_LIMIT_CHARS + 9
    return complaint if not ended and len(text) >= limit else ""


def _ended(text: str, language: str) -> bool:
    """Whether a full stop or its like is at the end; Greek asks with a semicolon."""
    return _ENDED.search(text) is not None or (language == "el" and text.endswith(";"))


def _unwrapped(text: str) -> str:
    for pair in _PAIRS:
        if len(text) > 2 and text[0] == pair[0] and text.rstrip(".")[-1:] == pair[1]:
            inside = text.rstrip(".")[1:-1]
            if not any(mark in inside for mark in pair):
                return inside.strip()
    return text


def _capitalised(text: str, language: str) -> str:
    """A name like iPhone keeps its small letter."""
    if re.match(r"[^\W\d_][A-Z]", text):
        return text
    if language == "tr" and text[:1] == "i":
        return "İ" + text[1:]
    if language == "nl" and text[:2] == "ij":
        return "IJ" + text[2:]
    return text[:1].upper() + text[1:]


def _tokens(text: str) -> list[str]:
    """Words as written: letters with their marks, parted by everything else."""
    text = "".join(char if unicodedata.category(char)[0] in "LM" or char in "·" else " " for char in text)
    return text.split()


def _lower(text: str) -> list[str]:
    return [word.casefold() for word in _tokens(text)]


def _letters_only(text: str) -> str:
    return "".join(
        char for char in unicodedata.normalize("NFC", text).casefold() if unicodedata.category(char)[0] in "LMN"
    )


def _stem(filename: str) -> str:
    return re.sub(r"(\.\w{1,5})+$", "", filename)
