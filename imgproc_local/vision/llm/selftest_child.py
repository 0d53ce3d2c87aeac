"""The self-test of a model, run in a child process because llama.cpp may end the process it runs in.

A model whose vision encoder does not fit, or whose tokens get wrong positions, still writes fluent text. So the model
describes two drawn pictures in two languages together. Its English texts must name what is in the pictures, differ, and
not repeat themselves.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec
from PIL import Image, ImageDraw

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.domain.image import Pixels
from imgproc_local.system import air_gap, sandbox
from imgproc_local.system.piped_child import Requests
from imgproc_local.vision.llm.checks import repeats_itself
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import NO_NOTES, language_prompt, parse_answer
from imgproc_local.vision.models.model import VisionModel

LANGUAGES = ("en", "de")
MAX_QUOTED_CHARS = 80
"""Limit for a text of the model in a message."""


class DrawnShape(NamedTuple):
    """A shape on a white background. A good alt text in English matches both patterns."""

    size_px: tuple[int, int]
    colour: str
    is_round: bool
    colour_pattern: str
    shape_pattern: str

    def draw(self) -> Pixels:
        image = Image.new("RGB", self.size_px, "white")
        (x, y), radius = (side / 2 for side in self.size_px), 0.3 * min(self.size_px)
        draw = ImageDraw.Draw(image)
        shape = draw.ellipse if self.is_round else draw.rectangle
        shape((x - radius, y - radius, x + radius, y + radius), fill=self.colour)
        return Pixels(image.width, image.height, image.tobytes())

    def count_named(self, text: str) -> int:
        """How many of two things the text names: the colour and the shape."""
        patterns = (self.colour_pattern, self.shape_pattern)
        return sum(re.search(rf"\b(?:{pattern})\b", text, re.IGNORECASE) is not None for pattern in patterns)


# as large as the pictures that describers receive; a landscape and a portrait, whose tokens have different positions
CIRCLE = DrawnShape((1024, 768), "#2846dc", True, "blue", r"circ\w+|round|dis[ck]|dot|ball|sphere|orb")
SQUARE = DrawnShape((768, 1024), "#dc2828", False, "red", r"square|rectang\w+|box|block|cube|tile")
MIN_NAMED = 3
"""Of two colours and two shapes, the number that the alt texts must name. All are plain to see; one may be missing,
because an alt text need not name everything."""


def run(parent_pid: int) -> None:
    """Test the model that the parent process sends, and answer with its problem."""
    requests = Requests()
    sandbox.depend_on_parent(parent_pid)
    sandbox.write_no_core_dumps()
    air_gap.enable_if_inherited()
    requests.start_reading()
    model = msgspec.msgpack.decode(requests.next(), type=VisionModel, dec_hook=lambda _, value: Path(value))
    requests.answer(msgspec.msgpack.encode(problem_of(model)))


def problem_of(model: VisionModel) -> str | None:
    """Load the model, let it describe the test pictures, and check its texts. None if it works here.

    A problem says what was expected, what was received and what to do.
    """
    suffixes = [language_prompt(language) for language in LANGUAGES]
    texts = []
    try:
        with closing(Llama(model)) as llama:
            for picture in (CIRCLE, SQUARE):
                llama.prefill(picture.draw(), NO_NOTES, suffixes, lambda: None)
                generated, _ = llama.generate(suffixes, lambda: None)
                answer = parse_answer(generated)
                texts.append(answer.alt_text if answer else generated)
    except ModelUnusable as error:
        return error.message
    return problem_of_texts(*texts)


def problem_of_texts(circle: str, square: str) -> str | None:
    """Why the English texts about the two pictures are not those of a working model."""
    named = CIRCLE.count_named(circle) + SQUARE.count_named(square)
    if (
        circle != square
        and named >= MIN_NAMED
        and not repeats_itself(circle, "en")
        and not repeats_itself(square, "en")
    ):
        return None
    received = " and ".join(f"“{text[:MAX_QUOTED_CHARS]}”" for text in (circle, square))
    return (
        "it does not see what is in the pictures: expected one text about a blue circle and another one about a red"
        f" square; received {received}. Either its vision encoder (mmproj) was made for another text model, or its"
        " files don't work with this build of llama.cpp. Install both files again from the same repository, or choose"
        " another model."
    )
