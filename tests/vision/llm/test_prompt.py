"""How a model is prompted: by the template inside it, one that llama.cpp knows by name, or one that is written out."""

from __future__ import annotations

import msgspec
import pytest

from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import INSTRUCTIONS, language_prompt
from imgproc_local.vision.models.catalogue import read_catalogue
from imgproc_local.vision.models.model import QUESTION_PLACEHOLDER, ChatFormat
from tests.support import tiny

TAILS = [language_prompt("en"), language_prompt("de")]


def written(chat: ChatFormat) -> list[str]:
    picture = tiny.pixels(tiny.scenes().draw(tiny.scenes().held_out_scenes(1, seed=20)[0], seed=1))
    llama = Llama(msgspec.structs.replace(tiny.tiny_model(), chat=chat))
    try:
        llama.read(picture, INSTRUCTIONS, TAILS, lambda: None)
        return llama.write(TAILS, lambda: None)
    finally:
        llama.close()


@pytest.mark.parametrize("template", ["chatml", "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"])
def test_the_model_s_own_template_by_its_name_or_written_out_says_the_same(template: str) -> None:
    assert written(ChatFormat(template=template)) == written(ChatFormat())


def test_a_template_of_the_catalogue_is_a_name_or_has_a_place_for_the_question() -> None:
    for name, entry in read_catalogue({}).items():
        assert entry.template.isalnum() or not entry.template or entry.template.count(QUESTION_PLACEHOLDER) == 1, name
