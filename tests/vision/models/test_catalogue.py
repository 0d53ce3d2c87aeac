"""The catalogue of models, and names of models and of models in other programs."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from imgproc_local.domain.errors import ModelUnusable
from imgproc_local.vision.models.model import QUESTION_PLACEHOLDER, loopback_model, read_catalogue, require_name


def test_every_entry_is_complete_and_pinned() -> None:
    catalogue = read_catalogue()
    assert len(catalogue) > 5
    for name, entry in catalogue.items():
        require_name(name)
        assert entry.name == name
        assert entry.licence
        assert entry.languages
        assert entry.memory_mb * 1_000_000 > entry.size_bytes, "a model needs more memory than its files have bytes"
        assert entry.text != entry.mmproj
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", entry.origin)
        template = entry.chat.template
        assert template.isalnum() or not template or template.count(QUESTION_PLACEHOLDER) == 1


def test_the_readme_recommends_models_of_the_catalogue() -> None:
    readme = (files("imgproc_local.vision") / "README.md").read_text(encoding="utf-8")
    catalogue = read_catalogue()
    recommended = re.findall(r"`((?:gemma|qwen|lfm|minicpm|smolvlm)[\w.]*-[\w.-]+)`", readme)
    recommended += re.findall(r"models pull ((?!NAME)[\w.-]+)", readme)
    assert len(set(recommended)) > 4
    assert set(recommended) <= {*catalogue, "ocr"}


@pytest.mark.parametrize("name", ["", ".", "a/b", "a\\b", "A", "-a", "a.", "nul", "com1", "none", "ä", "a" * 65, "a\n"])
def test_an_invalid_name_is_rejected(name: str) -> None:
    with pytest.raises(ModelUnusable, match="model's name"):
        require_name(name)


def test_names_of_models_in_other_programs() -> None:
    model = loopback_model("ollama:hf.co/ggml-org/SmolVLM-500M-Instruct-GGUF:Q8_0")
    assert model is not None
    assert (model.program, model.name_in_program) == ("ollama", "hf.co/ggml-org/SmolVLM-500M-Instruct-GGUF:Q8_0")
    for name in ("ollama", "ollama:", "openai:gpt", "tiny", "ollama:a b", "ollama:a\nb", "ollama:" + "x" * 201):
        assert loopback_model(name) is None
