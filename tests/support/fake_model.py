"""A model that writes given answers, for tests of the describer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from imgproc_local.domain.errors import CheckStop
from imgproc_local.domain.image import EmbeddedMetadata, Pixels
from imgproc_local.domain.languages import LANGUAGES
from imgproc_local.domain.result import TextSource, Translation
from imgproc_local.vision.describer import Hints
from imgproc_local.vision.facts.describer import describe_from_facts
from imgproc_local.vision.llm.describer import LlmDescriber
from imgproc_local.vision.llm.prompt import language_prompt
from imgproc_local.vision.models.model import VisionModel

PICTURE = Pixels(8, 8, b"\xc0" * 192)
BARN = '{"alt_text":"A red barn stands in the snow under a grey sky.","filename":"red-barn-snow"}'
BARN_DE = '{"alt_text":"Eine rote Scheune steht im Schnee unter grauem Himmel.","filename":"rote-scheune-schnee"}'
BARN_FR = '{"alt_text":"Une grange rouge se dresse dans la neige sous un ciel gris.","filename":"grange-rouge-neige"}'
VISION, PIXELS = TextSource.VISION, TextSource.PIXELS


def hints(embedded: EmbeddedMetadata | None = None, name: str = "IMG_1.jpg", project: str = "API Uploads") -> Hints:
    return Hints(embedded or EmbeddedMetadata(), name, project)


class FakeModel:
    """A model with given answers by language, in English `BARN` if none is given. Each call of `generate` uses the next
    one; the last one is repeated. An exception as answer is raised. `in_full` are its long descriptions."""

    def __init__(self, in_full: dict[str, Any] | None = None, **answers: Any) -> None:
        self.in_full = in_full or {}
        self.long_suffixes: list[list[str]] = []
        answers = {"en": BARN} | answers
        self.answers = {code: given if isinstance(given, list) else [given] for code, given in answers.items()}
        self.notes = ""
        self.suffixes: list[list[str]] = []
        self.seeds: list[int | None] = []
        self.loads = 0
        self.closed = 0
        self.error: Exception | None = None
        self.model = VisionModel("given", Path("text.gguf"), Path("mmproj.gguf"))

    def load(self, model: VisionModel, *_: Any) -> Any:
        self.model = model
        self.loads += 1
        return self

    def prefill(self, image: Pixels, notes: str, suffixes: Any, check_stop: CheckStop) -> None:
        check_stop()
        self.notes = notes
        if self.error:
            raise self.error

    def generate(
        self, suffixes: list[str], check_stop: CheckStop, seed: int | None = None, *, in_full: bool = False
    ) -> list[str]:
        if in_full:
            self.long_suffixes.append(suffixes)
            return [self.write_in_full(suffix) for suffix in suffixes]
        self.suffixes.append(suffixes)
        self.seeds.append(seed)
        generated = []
        for suffix in suffixes:
            code = next(code for code in self.answers if suffix.endswith(language_prompt(code)))
            answers = self.answers[code]
            generated.append(answers.pop(0) if len(answers) > 1 else answers[0])
        for answer in generated:
            if isinstance(answer, Exception):
                raise answer
        return generated

    def write_in_full(self, suffix: str) -> str:
        code = next(code for code, language in LANGUAGES.items() if f"Respond in {language.name}" in suffix)
        text = self.in_full.get(code, "")
        if isinstance(text, Exception):
            raise text
        return json.dumps({"long_description": text})

    def close(self) -> None:
        self.closed += 1


def describe(fake: FakeModel, languages: str, given: Hints | None = None) -> tuple[Translation, ...]:
    describer = LlmDescriber(lambda: fake.model, fake.load, idle_s=0)
    return describer.describe(PICTURE, languages.split(), given or hints(), lambda: None)


def facts(languages: str, given: Hints | None = None) -> tuple[Translation, ...]:
    """The translations without a model."""
    return describe_from_facts(languages.split(), given or hints())
