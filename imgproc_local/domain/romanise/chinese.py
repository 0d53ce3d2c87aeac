"""Chinese: Hanyu Pinyin without tones, one romanised word for each word of the dictionary."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from imgproc_local.domain.romanise.dictionary import joined, load_dictionary
from imgproc_local.domain.romanise.japanese import HAN

_RUN = re.compile(f"[{HAN}]+")


def chinese(text: str) -> str:
    """Replaces runs of simplified or traditional characters by their romanised words. ü is written u, as in URLs."""
    return _RUN.sub(lambda run: f" {_words(run[0])} ", text)


def _words(run: str) -> str:
    return " ".join(joined(load_dictionary("chinese").segment(run.translate(_simplified()))))


@cache
def _simplified() -> dict[int, str]:
    """The simplified form of each traditional character."""
    traditional, simplified = (files(__package__) / "data" / "simplified.txt").read_text("utf-8").split()
    return str.maketrans(dict(zip(traditional, simplified, strict=True)))
