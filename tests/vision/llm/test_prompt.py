"""Chat templates: from the GGUF file, by a name that llama.cpp knows, or written out."""

from __future__ import annotations

import msgspec
import pytest

from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import NO_NOTES, language_prompt
from imgproc_local.vision.models.catalogue import read_catalogue
from imgproc_local.vision.models.model import QUESTION_PLACEHOLDER, ChatFormat
from tests.support import tiny

SUFFIXES = [language_prompt("en"), language_prompt("de")]


def generate(chat: ChatFormat) -> list[str]:
    """The answers of the tiny model with this chat format."""
    picture = tiny.pixels(tiny.scenes().draw(tiny.scenes().held_out_scenes(1, seed=20)[0], seed=1))
    llama = Llama(msgspec.structs.replace(tiny.tiny_model(), chat=chat))
    try:
        llama.prefill(picture, NO_NOTES, SUFFIXES, lambda: None)
        return llama.generate(SUFFIXES, lambda: None)
    finally:
        llama.close()


@pytest.mark.parametrize("template", ["chatml", "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"])
def test_a_template_by_name_or_written_out_equals_the_one_in_the_file(template: str) -> None:
    assert generate(ChatFormat(template=template)) == generate(ChatFormat())


def test_templates_of_the_catalogue_are_names_or_have_the_placeholder() -> None:
    for name, entry in read_catalogue().items():
        assert entry.template.isalnum() or not entry.template or entry.template.count(QUESTION_PLACEHOLDER) == 1, name
