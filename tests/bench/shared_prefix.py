"""Proves, for every architecture in the catalogue, that answers with a shared prefix are those of one sequence alone.

`LlmDescriber` describes two pictures in four languages, as in the service: the instructions are processed once, English
is first, the other languages translate it together, and all answers that the lint refuses are generated once more. Each
greedy answer is compared with the reference (`vision/llm/reference.py`), token by token. After the retries the same
answers are generated again. Then the answers are made wrong on purpose, by positions that are 18 too high and by
another picture, and the comparison must find it: M-RoPE accepts wrong positions, without it llama.cpp refuses them. The
models are small and have random weights (`small_models.py`), so their text means nothing; for the translation, the
English answer is replaced by a sentence.

Everything is done twice: with the batches of the service, where numbers are rounded differently in batches of one row
and of several, so that either of two equally probable tokens may be written; and with even batches (`decode_watch.py`),
where they are not, and every token and every logit must be equal, bit by bit.

`python -m tests.bench.shared_prefix VOCABULARIES [--model NAME]`, where VOCABULARIES is `models` of llama.cpp's source
(`vendor/llama.cpp/models` in the sdist of llama-cpp-python). Needs the package `gguf`. Exits with 1 if a comparison
fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.domain.image import EmbeddedMetadata, Format, ImageInfo, Pixels
from imgproc_local.domain.stop import CheckStop
from imgproc_local.vision.describer import Hints
from imgproc_local.vision.llm.describer import LlmDescriber
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import NO_NOTES, language_prompt
from imgproc_local.vision.llm.reference import Comparison, compare_with_reference
from imgproc_local.vision.llm.selftest_child import PICTURES
from imgproc_local.vision.models.catalogue import read_catalogue
from imgproc_local.vision.models.model import VisionModel
from tests.bench.decode_watch import DecodeWatch
from tests.bench.small_models import SMALL_MODELS, Small, write_small_pair

LANGUAGES = ("en", "de", "ja", "ar")
COMPARED_TOKENS = 48
POSITION_OFFSET = 18
ENGLISH_ANSWER = '{"alt_text":"A heron stands in shallow water beside a wooden pier","filename":"heron-wooden-pier"}'
HEAD = (
    "architecture", "batches", "prefix", "answers equal", "tokens equal", "logits equal", "after retry", "offset +18",
    "other picture", "CPU s",
)  # fmt: skip


class Answered(NamedTuple):
    """A greedy answer of the describer: the picture, the suffix, and the tokens."""

    picture: Pixels
    suffix: str
    tokens: list[int]


class Recorder:
    """A `LoadedModel` that records the greedy answers of `llama` and counts the others."""

    def __init__(self, llama: Llama) -> None:
        self.llama = llama
        self.model = llama.model
        self.answers: list[Answered] = []
        self.retries = 0

    def prefill(self, image: Pixels, notes: str, suffixes: Sequence[str], check_stop: CheckStop) -> None:
        if notes != NO_NOTES:
            raise SystemExit(
                f"Expected no notes about the picture, because the reference has none; received {notes!r}."
            )
        self.picture = image
        self.llama.prefill(image, notes, suffixes, check_stop)

    def generate(self, suffixes: Sequence[str], check_stop: CheckStop, seed: int | None = None) -> list[str]:
        generated = self.llama.generate_tokens(suffixes, check_stop, seed, COMPARED_TOKENS)
        if seed is not None:
            self.retries += len(suffixes)
        else:
            self.answers += [Answered(self.picture, *pair) for pair in zip(suffixes, generated, strict=True)]
        texts = [self.llama.weights.text(tokens).decode("utf-8", "replace") for tokens in generated]
        return [ENGLISH_ANSWER] if [*suffixes] == [language_prompt("en")] else texts

    def close(self) -> None:
        self.llama.close()


class Proof(NamedTuple):
    """The row of an architecture: counts of answers, tokens and logits, each with the number that was expected."""

    architecture: str
    even: bool
    prefix_end: int
    answers: tuple[int, int]
    tokens: tuple[int, int]
    logits: tuple[int, int]
    after_retry: tuple[int, int]
    offset: str
    other_picture: str
    cpu_s: float

    @property
    def holds(self) -> bool:
        caught = all(not text.startswith("0 ") for text in (self.offset, self.other_picture))
        equal = [self.answers, self.after_retry, *([self.tokens, self.logits] if self.even else [])]
        return caught and all(count == expected for count, expected in equal)

    def cells(self) -> list[str]:
        counts = (self.answers, self.tokens, self.logits, self.after_retry)
        return [
            *(self.architecture, "even" if self.even else "as in the service", f"{self.prefix_end}"),
            *(f"{equal} of {expected}" for equal, expected in counts),
            *(self.offset, self.other_picture, f"{self.cpu_s:.1f}"),
        ]


def prove(folder: Path, small: Small, vocabularies: Path, *, even: bool) -> Proof:
    """Write the pair, describe the pictures, and compare the answers. Raises: ModelUnusable."""
    watch = DecodeWatch(even=even)
    with watch.watching():
        return _prove(folder, small, vocabularies, watch)


def _prove(folder: Path, small: Small, vocabularies: Path, watch: DecodeWatch) -> Proof:
    text, mmproj = write_small_pair(folder, small, vocabularies)
    started = time.process_time()
    model = VisionModel(small.entry, text, mmproj, read_catalogue({})[small.entry].chat)
    llama = Llama(model)
    recorder = Recorder(llama)
    describer = LlmDescriber(lambda: model, lambda _model, _check_stop: recorder, idle_s=0)
    first, second = (picture.draw() for picture in PICTURES)
    try:
        for picture in (first, second):
            info = ImageInfo(Format.PNG, picture.width_px, picture.height_px)
            describer.describe(picture, LANGUAGES, Hints(info, EmbeddedMetadata()), lambda: None)
        if len(recorder.answers) != 2 * len(LANGUAGES) or not recorder.retries or not llama.parallel:
            raise ModelUnusable(
                f"expected {2 * len(LANGUAGES)} answers, retries, and languages together; received"
                f" {len(recorder.answers)} answers and {recorder.retries} retries, parallel: {llama.parallel}"
            )
        prefix_end = llama.prefix_end
        with watch.reference():
            compared = [_compare(llama, answered) for answered in recorder.answers]
        bit_equal = watch.bit_equal
        last = recorder.answers[len(LANGUAGES) :]
        suffixes = [answered.suffix for answered in last]
        again = [
            tokens
            for part in (suffixes[:1], suffixes[1:])
            for tokens in llama.generate_tokens(part, lambda: None, max_tokens=COMPARED_TOKENS)
        ]
        repeated = sum(answered.tokens == tokens for answered, tokens in zip(last, again, strict=True))
        llama.prefix_end += POSITION_OFFSET
        offset = _caught(llama, second, suffixes)
        llama.prefill(first, NO_NOTES, suffixes, lambda: None)
        other = _caught(llama, second, suffixes)
    finally:
        llama.close()
    written = sum(len(each.tokens) for each in recorder.answers)
    return Proof(
        small.architecture,
        watch.even,
        prefix_end,
        (sum(each.first_difference is None for each in compared), len(compared)),
        (sum(each.equal_tokens for each in compared), written),
        (bit_equal, written),
        (repeated, len(again)),
        offset,
        other,
        time.process_time() - started,
    )


def _compare(llama: Llama, answered: Answered) -> Comparison:
    return compare_with_reference(llama.weights, answered.picture, answered.suffix, answered.tokens)


def _caught(llama: Llama, picture: Pixels, suffixes: Sequence[str]) -> str:
    """How many answers differ from the reference for `picture`, or that llama.cpp refuses to generate them."""
    try:
        answers = llama.generate_tokens(suffixes, lambda: None, max_tokens=COMPARED_TOKENS)
    except ModelUnusable:
        return "refused"
    compared = [_compare(llama, Answered(picture, *pair)) for pair in zip(suffixes, answers, strict=True)]
    return f"{sum(each.first_difference is not None for each in compared)} of {len(compared)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabularies", type=Path, help="`models` of llama.cpp's source")
    parser.add_argument("--model", choices=[small.entry for small in SMALL_MODELS], action="append", help="only these")
    arguments = parser.parse_args()
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    failed = False
    for small in SMALL_MODELS:
        if arguments.model and small.entry not in arguments.model:
            continue
        for even in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    proof = prove(Path(folder), small, arguments.vocabularies, even=even)
                except ModelUnusable as error:
                    print(f"| {small.architecture} | {error.message} |", flush=True)
                    failed = True
                    continue
            print("| " + " | ".join(proof.cells()) + " |", flush=True)
            failed |= not proof.holds
    sys.exit(failed)


if __name__ == "__main__":
    main()
