"""The self-test of a model, run in a child process because llama.cpp may end the process it runs in.

A model whose vision encoder does not fit, or whose tokens get wrong positions, still writes fluent text. So the model
describes two drawn pictures in two languages together. Its English texts must name what is in the pictures, differ, and
not repeat themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from PIL import Image, ImageDraw

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.system import air_gap, sandbox
from imgproc_local.system.piped_child import Requests
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import NO_NOTES, language_prompt, parse_answer
from imgproc_local.vision.llm.repetition import repeats_itself
from imgproc_local.vision.llm.selftest import SelfTestResult
from imgproc_local.vision.models.model import VisionModel

LANGUAGES = ("en", "de")
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


def run(parent_pid: int) -> None:
    """Test the model that the parent process sends, and answer with a `SelfTestResult`."""
    requests = Requests()
    sandbox.depend_on_parent(parent_pid)
    sandbox.write_no_core_dumps()
    air_gap.enable_if_inherited()
    requests.start_reading()
    model = msgspec.msgpack.decode(requests.next(), type=VisionModel, dec_hook=lambda _, value: Path(value))
    requests.answer(msgspec.msgpack.encode(run_self_test(model)))


def run_self_test(model: VisionModel) -> SelfTestResult:
    """Load the model, let it describe the test pictures, check its texts, and free it.

    A problem says what was expected, what was received and what to do.
    """
    suffixes = [language_prompt(language) for language in LANGUAGES]
    try:
        llama = Llama(model)
        try:
            english = []
            for picture in PICTURES:
                llama.prefill(picture.draw(), NO_NOTES, suffixes, lambda: None)
                english.append(_alt_text(llama.generate(suffixes, lambda: None)[0]))
            _check_alt_texts(english)
        finally:
            llama.close()
    except ModelUnusable as error:
        return SelfTestResult(error.message)
    return SelfTestResult()


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


def _alt_text(generated: str) -> str:
    """The alt text of an answer, or all that was generated if the answer is incomplete."""
    answer = parse_answer(generated)
    return answer.alt_text if answer else generated


def _count_named(picture: DrawnShape, text: str) -> int:
    """How many of two things the text names: the colour and the shape in the picture."""
    patterns = (picture.colour_pattern, picture.shape_pattern)
    return sum(re.search(rf"\b(?:{pattern})\b", text, re.IGNORECASE) is not None for pattern in patterns)


def _quoted(text: str) -> str:
    """The beginning of `text`, in quotation marks."""
    return f"“{text[:MAX_QUOTED_CHARS]}…”" if len(text) > MAX_QUOTED_CHARS else f"“{text}”"
