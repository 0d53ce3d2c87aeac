"""The self-test of a model, run in a child process because llama.cpp may end the process it runs in.

A model whose vision encoder does not fit, or whose tokens get wrong positions, still writes fluent text. So the model
describes two drawn pictures in two languages together, and three things are checked: its English texts name what is in
the pictures, differ, and do not repeat themselves; the position after the picture is the one that llama.cpp's own
helper determines; and an answer has the tokens that the model generates in a context of its own (`reference.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.system.child import limit_this_process
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import NO_NOTES, language_prompt, parse_answer
from imgproc_local.vision.llm.reference import compare_with_reference
from imgproc_local.vision.llm.repetition import repeats_itself
from imgproc_local.vision.llm.selftest import TIMEOUT_S, SelfTestResult
from imgproc_local.vision.models.model import VisionModel

LANGUAGES = ("en", "de")
COMPARED_TOKENS = 64
"""The number of tokens of an answer that are generated again for the comparison, to limit its duration."""
MAX_QUOTED_CHARS = 80
"""Limit for a text of the model in a message."""


class DrawnShape(NamedTuple):
    """A shape on a white background. A good alt text in English matches both patterns."""

    name: str
    width_px: int
    height_px: int
    colour: tuple[int, int, int]
    round: bool
    colour_pattern: str
    shape_pattern: str

    def draw(self) -> Pixels:
        image = Image.new("RGB", (self.width_px, self.height_px), "white")
        x, y, radius = self.width_px / 2, self.height_px / 2, 0.3 * min(self.width_px, self.height_px)
        draw = ImageDraw.Draw(image)
        shape = draw.ellipse if self.round else draw.rectangle
        shape((x - radius, y - radius, x + radius, y + radius), fill=self.colour)
        return Pixels(image.width, image.height, image.tobytes())


# as large as the pictures that describers receive; a landscape and a portrait, whose tokens have different positions
PICTURES = (
    DrawnShape("a blue circle", 1024, 768, (40, 70, 220), True, "blue", r"circ\w+|round|dis[ck]|dot|ball|sphere|orb"),
    DrawnShape("a red square", 768, 1024, (220, 40, 40), False, "red", r"square|rectang\w+|box|block|cube|tile"),
)
MIN_NAMED = 3
"""Of two colours and two shapes, the number that the alt texts must name. All are plain to see; one may be missing,
because an alt text need not name everything."""


def run_self_test(model: VisionModel) -> SelfTestResult:
    """The result of the self-test. Limits this process: it exits without a result after `TIMEOUT_S` seconds."""
    limit_this_process(TIMEOUT_S)
    try:
        describe_test_pictures(model)
    except ModelUnusable as error:
        return SelfTestResult(error.message)
    return SelfTestResult()


def describe_test_pictures(model: VisionModel) -> None:
    """Load the model, let it describe the test pictures, check its answers, and free it.

    Raises: ModelUnusable, if the model does not work: with what was expected, what was received and what to do.
    """
    suffixes = [language_prompt(language) for language in LANGUAGES]
    llama = Llama(model)
    try:
        english = []
        for picture in PICTURES:
            llama.prefill(picture.draw(), NO_NOTES, suffixes, lambda: None)
            answers = llama.generate_tokens(suffixes, lambda: None)
            english.append(_alt_text(llama.weights.text(answers[0]).decode("utf-8", "replace")))
        # compared for the last picture, which uses the instructions processed for the first, and the last language
        prefix_end = llama.prefix_end
        llama.free_context()
        _check_against_reference(llama, picture, prefix_end, suffixes[-1], answers[-1][:COMPARED_TOKENS])
        _check_alt_texts(english)
    finally:
        llama.close()


def _check_against_reference(
    llama: Llama, picture: DrawnShape, prefix_end: int, suffix: str, answer: Sequence[int]
) -> None:
    """Raises: ModelUnusable, if the position after the picture or the answer differs from the reference."""
    compared = compare_with_reference(llama.weights, picture.draw(), suffix, answer)
    if compared.prefix_end != prefix_end:
        raise ModelUnusable(
            f"the position of the text after the picture is wrong: expected {compared.prefix_end}; received"
            f" {prefix_end}. {_REINSTALL}"
        )
    if compared.first_difference is not None:
        received = llama.weights.text(answer[: compared.first_difference + 1]).decode("utf-8", "replace")
        raise ModelUnusable(
            "with several languages at once it writes something else than with one alone: expected"
            f" {_quoted(compared.expected, end=True)}; received {_quoted(received, end=True)}. {_REINSTALL}"
        )


def _check_alt_texts(texts: Sequence[str]) -> None:
    """Check the English texts about `PICTURES`. Raises: ModelUnusable."""
    first, second = texts
    if first == second:
        raise ModelUnusable(
            f"it does not see the pictures: expected different texts for {PICTURES[0].name} and {PICTURES[1].name};"
            f" received {_quoted(first)} for both. {_OTHER_ENCODER}"
        )
    for picture, text in zip(PICTURES, texts, strict=True):
        if repeats_itself(text, "en"):
            raise ModelUnusable(
                f"it repeats itself: expected a sentence about {picture.name}; received {_quoted(text)}."
                f" {_OTHER_ENCODER}"
            )
    if sum(_count_named(picture, text) for picture, text in zip(PICTURES, texts, strict=True)) < MIN_NAMED:
        raise ModelUnusable(
            f"it does not see what is in the pictures: expected texts about {PICTURES[0].name} and {PICTURES[1].name};"
            f" received {_quoted(first)} and {_quoted(second)}. {_OTHER_ENCODER}"
        )


_OTHER_ENCODER = (
    "Either its vision encoder (mmproj) was made for another text model, or its files don't work with this build of"
    " llama.cpp. Install both files again from the same repository, or choose another model."
)
_REINSTALL = (
    "This build of llama.cpp does not work with this model. Install the version of llama-cpp-python that"
    " requirements-vision.lock names, or choose another model."
)


def _alt_text(generated: str) -> str:
    """The alt text of an answer, or all that was generated if the answer is incomplete."""
    answer = parse_answer(generated)
    return answer.alt_text if answer else generated


def _count_named(picture: DrawnShape, text: str) -> int:
    """How many of two things the text names: the colour and the shape in the picture."""
    patterns = (picture.colour_pattern, picture.shape_pattern)
    return sum(re.search(rf"\b(?:{pattern})\b", text, re.IGNORECASE) is not None for pattern in patterns)


def _quoted(text: str, *, end: bool = False) -> str:
    """`text` in quotation marks: its beginning, or its last characters with `end`, if it is long."""
    if len(text) > MAX_QUOTED_CHARS:
        text = f"…{text[-MAX_QUOTED_CHARS:]}" if end else f"{text[:MAX_QUOTED_CHARS]}…"
    return f"“{text}”"
