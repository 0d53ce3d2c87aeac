"""Random notes (texts from metadata) in the prompt, which the model learns to ignore."""

from __future__ import annotations

import random

from imgproc_local.vision.facts.describer import LocalizedText, PictureTexts
from imgproc_local.vision.llm import prompt
from imgproc_local.vision.text.human_words import filename_words
from models.tiny import scenes

NO_TEXTS = PictureTexts()
COMPLAINTS = (
    "the text is empty", "the text is not in the language asked for", "the text repeats itself", "it is cut off",
    "the text begins with image of", "the text is the file name", "the text is too long", "not the script expected",
)  # fmt: skip

_FILE_NAMES = (
    "scene-{:03}.png",
    "held-out-{}.jpg",
    "IMG_{:04}.png",
    "trained-{}.png",
    "DSC_{:04}.JPG",
    "picture {}.jpg",
)
_OTHER_WORDS = """
harbour morning holiday summer garden winter wedding market bridge river house family team office product launch
Hafen Morgen Urlaub Garten Hochzeit Brücke Fluss Haus Büro Sommer Katze Hund Baum Straße
port matin vacances jardin été hiver mariage marché rivière maison bureau chat forêt
港 朝 夏 庭 結婚式 橋 川 家 猫 犬 木 空 さくら ねこ カメラ
Anna Müller Jean Dupont 田中 Berlin Paris 東京 London Lyon Hamburg 2024 12
"""
_WORDS = (
    *_OTHER_WORDS.split(),
    *(colour.en for colour in scenes.COLOURS.values()),
    *(colour.ja for colour in scenes.COLOURS.values()),
    *(name for shape in scenes.SHAPES.values() for name in (shape.en, shape.de[0], shape.fr[0], shape.ja)),
)
"""They include words for colours and shapes, because notes may contradict the picture."""
_ALPHABETS = (
    "etaoinshrdlucmfwypvbgk", "EsTnaBreiLoMuk", "éèàçüöäßñåøłčşı", "0123456789", "оеаинтсрвлкмдпуяыьгзбч",
    "αοιετσνηυρπκμλ", "のにはをたがでてとしれさあいう", "海山人日本大国中上年生時水木花", "한국사진바다산이",
    "،.,!-()&'",
)  # fmt: skip


def picture_notes(rng: random.Random) -> str:
    """The part of a prompt after the picture. Half of them have notes: only a file name, few texts or many texts."""
    kind = rng.choice(("none", "none", "none", "file name", "few", "many"))
    if kind == "none":
        return prompt.picture_notes(NO_TEXTS, "")
    name = rng.choice(_FILE_NAMES).format(rng.randrange(400))
    if rng.random() < 0.5:
        name = _words(rng, 4).replace(" ", rng.choice(" -_")) + ".jpg"
    if kind == "file name":
        return prompt.picture_notes(PictureTexts(filename=filename_words(name)), "")
    probability, max_caption_words = (0.25, 4) if kind == "few" else (0.5, 24)

    def texts(max_texts: int, max_words: int = 4) -> tuple[str, ...]:
        if rng.random() > probability:
            return ()
        return tuple(_words(rng, max_words) for _ in range(rng.randint(1, max_texts)))

    picture_texts = PictureTexts(
        alt_texts=_texts(texts(1, 8)),
        titles=_texts(texts(1, 6)),
        captions=_texts(texts(1, max_caption_words)),
        keywords=_texts(texts(6, 2)),
        events=_texts(texts(1)),
        persons=texts(2, 2),
        places=texts(2, 2),
        filename=filename_words(name),
    )
    return prompt.picture_notes(picture_texts, " ".join(texts(1)), " ".join(texts(1, max_caption_words)))


def _texts(texts: tuple[str, ...]) -> tuple[LocalizedText, ...]:
    return tuple(LocalizedText(text, None) for text in texts)


def _words(rng: random.Random, max_words: int) -> str:
    """One to `max_words` words, separated by spaces."""
    return " ".join(
        rng.choice(_WORDS) if rng.random() < 0.6 else _random_word(rng) for _ in range(rng.randint(1, max_words))
    )


def _random_word(rng: random.Random) -> str:
    """A random word in one of several scripts."""
    letters = rng.choice(_ALPHABETS)
    return "".join(rng.choice(letters) for _ in range(rng.randint(1, 8)))
