"""Thai: Royal Thai General System, one romanised word for each word of the dictionary."""

from __future__ import annotations

import re

from imgproc_local.domain.romanise.dictionary import joined, load_dictionary

THAI = "\u0e01-\u0e4e"
_RUN = re.compile(f"[{THAI}]+")


def thai(text: str) -> str:
    """Replaces runs of Thai by their romanised words.

    A run is dropped if less than half of its characters belong to words in the dictionary. Such a run could only be
    romanised letter by letter, and Thai leaves some vowels unwritten.
    """
    return _RUN.sub(lambda run: f" {_words(run[0])} ", text)


def _words(run: str) -> str:
    words = load_dictionary("thai").segment(run.replace("ํา", "ำ"))
    known = sum(len(word.written) for word in words if word.latin)
    total = sum(len(word.written) for word in words)
    return " ".join(joined(words)) if known * 2 >= total else ""
