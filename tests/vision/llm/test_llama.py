"""`Llama` with the real llama.cpp and the tiny model: pictures are processed once, languages generated together."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from imgproc_local.domain.errors import CheckStop, ModelUnusable, StageCancelled
from imgproc_local.vision.facts.texts import LocalizedText
from imgproc_local.vision.llm import llama as llama_module
from imgproc_local.vision.llm.bindings import Interruption, bindings
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import NO_NOTES, language_prompt, long_prompt, parse_answer
from imgproc_local.vision.models.model import ChatFormat, VisionModel
from tests.support import tiny

SUFFIXES = [language_prompt(language) for language in tiny.LANGUAGES]


def never_stop() -> None:
    """A check_stop that never raises."""


def scene_pixels(number: int) -> tiny.Pixels:
    """A drawing of the held-out scene with this number."""
    scene = tiny.scenes().held_out_scenes(number + 1, seed=20)[number]
    return tiny.pixels(tiny.scenes().draw(scene, seed=number))


@pytest.fixture(scope="module")
def llama() -> Iterator[Llama]:
    loaded = Llama(tiny.tiny_model())
    yield loaded
    loaded.close()


def generate(llama: Llama, picture: tiny.Pixels, suffixes: list[str], seed: int | None = None) -> list[str]:
    llama.prefill(picture, NO_NOTES, suffixes, never_stop)
    return llama.generate(suffixes, never_stop, seed)


def test_languages_get_the_same_text_together_and_alone_and_again(llama: Llama) -> None:
    texts = []
    for number in range(3):
        picture = scene_pixels(number)
        together = generate(llama, picture, SUFFIXES)
        assert together == [generate(llama, picture, [suffix])[0] for suffix in SUFFIXES]
        texts.append(together)
    assert len({text for each in texts for text in each}) > 3, "other pictures get other texts"
    assert generate(llama, scene_pixels(0), SUFFIXES) == texts[0]
    many = generate(llama, scene_pixels(0), [*SUFFIXES, *SUFFIXES, *SUFFIXES[:2]])
    assert many == [*texts[0], *texts[0], *texts[0][:2]], "the context grows for more languages"


def test_prompts_that_do_not_fit_into_the_context_together_are_used_in_turn(
    llama: Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a retry are longer than those that `prefill` received."""
    llama._free_context()
    expected = generate(llama, scene_pixels(5), SUFFIXES)
    parts = Mock(wraps=llama._prefill_suffixes)
    monkeypatch.setattr(llama, "_prefill_suffixes", parts)
    filler = f"{' '.join(map(str, range(150)))} "
    generated = llama.generate([f"{number} {filler}{suffix}" for number, suffix in enumerate(SUFFIXES)], never_stop)
    assert len(generated) == len(SUFFIXES)
    assert all(generated), "none is empty or an error"
    assert parts.call_count > 1
    steps = Mock(wraps=llama._generate)
    monkeypatch.setattr(llama, "_generate", steps)
    [cut_off] = llama.generate([f"{filler * 4}{SUFFIXES[0]}"], never_stop, in_full=True)
    assert cut_off.startswith('{"long')
    assert 0 < steps.call_args.args[2] < llama_module._MAX_LONG_TOKENS, "there is room for a part of it"
    assert llama.generate([f"{filler * 5}{SUFFIXES[0]}"], never_stop) == [""], "one that leaves no room for an answer"
    assert llama.generate(SUFFIXES, never_stop) == expected


def test_a_long_description_is_json_of_its_own_and_the_alt_texts_stay_the_same(llama: Llama) -> None:
    """The tiny model was not trained to write one: it writes whatever the grammar allows."""
    expected = generate(llama, scene_pixels(6), SUFFIXES)
    draft = LocalizedText("A red circle is above a blue square. " * 8, "en")
    for suffixes in ([long_prompt("en")], [long_prompt(language, draft) for language in tiny.LANGUAGES]):
        generated = llama.generate(suffixes, never_stop, in_full=True)
        assert len(generated) == len(suffixes)
        assert all(re.match(r'{"long_description":"[^"]+("}$)?', text) for text in generated), generated
    assert llama.generate(SUFFIXES, never_stop) == expected


def test_the_instructions_are_processed_once_for_all_pictures(llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = []
    for number in (1, 2):
        llama._free_context()
        alone.append(generate(llama, scene_pixels(number), SUFFIXES))
    chunks = Mock(wraps=llama._prefill_chunk)
    monkeypatch.setattr(llama, "_prefill_chunk", chunks)
    assert [generate(llama, scene_pixels(number), SUFFIXES) for number in (1, 2)] == alone
    # of each picture only the picture and the notes, which begin after the instructions
    assert chunks.call_count == 4
    assert all(position > 0 and sequence == 1 for _, position, sequence in (call.args for call in chunks.mock_calls))


@pytest.mark.parametrize(("pixels_per_token", "used_px"), [(1000, (192, 192)), (100, (154, 154)), (50, (98, 98))])
def test_a_picture_with_too_many_tokens_is_scaled_down(
    llama: Llama, monkeypatch: pytest.MonkeyPatch, pixels_per_token: int, used_px: tuple[int, int]
) -> None:
    """llama.cpp limits the tokens of a tile, but not the number of tiles."""
    sizes = []
    chunks = Llama.chunks

    def record(self: Llama, image: tiny.Pixels, notes: str) -> Any:
        sizes.append((image.width_px, image.height_px))
        return chunks(self, image, notes)

    monkeypatch.setattr(Llama, "chunks", record)
    monkeypatch.setattr(Llama, "_image_tokens", lambda *_: sizes[-1][0] * sizes[-1][1] // pixels_per_token)
    assert parse_answer(generate(llama, scene_pixels(1), SUFFIXES[:1])[0])
    assert sizes[-1] == used_px


def test_every_phase_can_be_stopped_and_the_next_picture_works(llama: Llama) -> None:
    def cancelled() -> None:
        raise StageCancelled("Cancelled.")

    before = generate(llama, scene_pixels(4), SUFFIXES)
    with pytest.raises(StageCancelled):
        Llama(tiny.tiny_model(), cancelled)
    with pytest.raises(StageCancelled):
        llama.prefill(scene_pixels(3), NO_NOTES, SUFFIXES, cancelled)
    with pytest.raises(StageCancelled):
        llama.generate(SUFFIXES, cancelled)
    assert generate(llama, scene_pixels(4), SUFFIXES) == before


def test_llama_cpp_stops_between_two_operations(llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def stopped(self: Interruption, _: CheckStop) -> Iterator[None]:
        """The flag is set from the start without an exception, so that only llama.cpp itself can stop."""
        self.flag[0] = b"\x01"
        yield

    llama.prefill(scene_pixels(4), NO_NOTES, SUFFIXES, never_stop)
    monkeypatch.setattr(Interruption, "watching", stopped)
    # 2 is llama_decode's status for "aborted"
    with pytest.raises(ModelUnusable, match=r"\(2\)"):
        llama.generate(SUFFIXES, never_stop)
    with pytest.raises(ModelUnusable, match=r"\(-?\d+\)"):
        llama.prefill(scene_pixels(4), NO_NOTES, SUFFIXES, never_stop)


def test_the_vision_encoder_stops_between_two_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = 0
    at_node = Llama._at_node

    def count(self: Llama, tensor: object, asks_to_stop_here: bool, data: object) -> bool:
        nonlocal nodes
        nodes += asks_to_stop_here
        return at_node(self, tensor, asks_to_stop_here, data)

    monkeypatch.setattr(Llama, "_at_node", count)
    with closing(Llama(tiny.tiny_model())) as counting:
        counting.prefill(scene_pixels(4), NO_NOTES, SUFFIXES, never_stop)
        complete, nodes = nodes, 0
        monkeypatch.setattr(Interruption, "may_continue", lambda _: False)
        with pytest.raises(ModelUnusable):
            counting.prefill(scene_pixels(4), NO_NOTES, SUFFIXES, never_stop)
            raise ModelUnusable("the encoder does not report that it was stopped")
        assert 0 < nodes < complete / 2


def test_weights_are_never_loaded_into_amx_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels for these buffers crash if GCC 12 compiled them, as in a default build on a processor with AMX."""
    llama_cpp = bindings().llama
    load = Mock(wraps=llama_cpp.llama_model_load_from_file)
    monkeypatch.setattr(llama_cpp, "llama_model_load_from_file", load)
    Llama(tiny.tiny_model()).close()
    assert [call.args[1].use_extra_bufts for call in load.call_args_list] == [False]


def test_weights_that_compute_nan_are_reported_without_a_crash(tmp_path: Path) -> None:
    weights = bytearray(tiny.TEXT.read_bytes())
    weights[-4000:] = b"\x00\x7e" * 2000  # NaN as f16, in the last tensor
    (tmp_path / "text.gguf").write_bytes(weights)
    with closing(Llama(VisionModel("broken", tmp_path / "text.gguf", tiny.MMPROJ))) as broken:
        broken.prefill(scene_pixels(4), NO_NOTES, SUFFIXES, never_stop)
        with pytest.raises(ModelUnusable, match="NaN instead of numbers"):
            broken.generate(SUFFIXES, never_stop)


def test_a_prompt_longer_than_trained_is_an_error_and_the_next_picture_works(llama: Llama) -> None:
    before = generate(llama, scene_pixels(4), SUFFIXES)
    with pytest.raises(ModelUnusable, match="was trained for 2048 tokens"):
        llama.prefill(scene_pixels(4), "語 " * 3000, SUFFIXES, never_stop)
    llama._free_context()
    with pytest.raises(ModelUnusable, match="No picture was processed"):
        llama.generate(SUFFIXES, never_stop)
    assert generate(llama, scene_pixels(4), SUFFIXES) == before


@pytest.mark.parametrize("template", ["chatml", "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"])
def test_a_template_by_name_or_written_out_equals_the_one_in_the_file(llama: Llama, template: str) -> None:
    model = VisionModel("tiny", tiny.TEXT, tiny.MMPROJ, ChatFormat(template=template))
    with closing(Llama(model)) as loaded:
        assert generate(loaded, scene_pixels(1), SUFFIXES) == generate(llama, scene_pixels(1), SUFFIXES)


@pytest.mark.parametrize(
    ("physical", "logical", "allowed", "performance", "threads"),
    [(4, 8, 8, "", 4), (24, 24, 24, "0-1,10-13,22,23", 8), (4, 8, 2, "", 2)],
)
def test_a_model_computes_on_physical_cores_without_efficiency_cores(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    physical: int,
    logical: int,
    allowed: int,
    performance: str,
    threads: int,
) -> None:
    if performance:
        (tmp_path / "cpus").write_text(f"{performance}\n")
    monkeypatch.setattr(llama_module, "_PERFORMANCE_CPUS", tmp_path / "cpus")
    monkeypatch.setattr(llama_module.psutil, "cpu_count", lambda logical=True: counts[logical])
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(allowed)), raising=False)
    counts = (physical, logical)
    assert llama_module._physical_cores() == threads
