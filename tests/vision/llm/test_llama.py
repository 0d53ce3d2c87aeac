"""The real llama.cpp on the project's tiny model: one picture read once, every language written at once."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imgproc_local.domain.errors import ModelUnusable, StageCancelled
from imgproc_local.vision.llm.library import library
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import INSTRUCTIONS, language_prompt, parse_answer
from imgproc_local.vision.llm.selftest_child import describe_test_image
from imgproc_local.vision.llm.stop import StopFlag
from imgproc_local.vision.models.model import ChatFormat, VisionModel
from tests.support import tiny

TAILS = [language_prompt(language) for language in tiny.LANGUAGES]


def go_on() -> None:
    """Nothing stops it."""


def scene_pixels(number: int) -> tiny.Pixels:
    scene = tiny.scenes().held_out_scenes(number + 1, seed=20)[number]
    return tiny.pixels(tiny.scenes().draw(scene, seed=number))


@pytest.fixture(scope="module")
def llama() -> Iterator[Llama]:
    loaded = Llama(tiny.tiny_model())
    yield loaded
    loaded.close()


def written(llama: Llama, picture: tiny.Pixels, tails: list[str], seed: int | None = None) -> list[str]:
    llama.read(picture, INSTRUCTIONS, tails, go_on)
    return llama.write(tails, go_on, seed)


def test_it_says_what_it_sees(llama: Llama) -> None:
    scenes = tiny.scenes()
    found = []
    for scene in scenes.held_out_scenes(10, seed=21):
        answers = written(llama, tiny.pixels(scenes.draw(scene, seed=5)), TAILS)
        found += [
            answer == scenes.written(scenes.answer(scene, language))
            for answer, language in zip(answers, tiny.LANGUAGES, strict=True)
        ]
    assert sum(found) >= 0.9 * len(found)


def test_all_languages_at_once_say_what_each_alone_says(llama: Llama) -> None:
    for number in range(5):
        picture = scene_pixels(number)
        together = written(llama, picture, TAILS)
        llama.parallel = False
        try:
            one_by_one = llama.write(TAILS, go_on)
        finally:
            llama.parallel = True
        alone = [written(llama, picture, [tail])[0] for tail in TAILS]
        assert together == one_by_one == alone


def test_the_stock_chat_handler_writes_the_same() -> None:
    scenes = tiny.scenes().held_out_scenes(6, seed=30)
    pictures = [tiny.scenes().draw(scene, seed=3) for scene in scenes]
    urls = []
    for picture in pictures:
        file = io.BytesIO()
        picture.save(file, "PNG")
        urls.append("data:image/png;base64," + base64.b64encode(file.getvalue()).decode())
    asked = [(url, INSTRUCTIONS + tail) for url in urls for tail in TAILS]
    result = subprocess.run(
        [sys.executable, "-m", "tests.vision.stock_answers"],
        input=json.dumps({"text": str(tiny.TEXT), "mmproj": str(tiny.MMPROJ), "questions": asked}),
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    loaded = Llama(tiny.tiny_model())
    try:
        ours = [text for picture in pictures for text in written(loaded, tiny.pixels(picture), TAILS)]
    finally:
        loaded.close()
    assert json.loads(result.stdout) == ours


def test_the_same_picture_gets_the_same_words_again(llama: Llama) -> None:
    first = written(llama, scene_pixels(1), TAILS)
    written(llama, scene_pixels(2), TAILS[:1])
    assert written(llama, scene_pixels(1), TAILS) == first


def test_other_pictures_get_other_words(llama: Llama) -> None:
    assert written(llama, scene_pixels(1), TAILS) != written(llama, scene_pixels(2), TAILS)


def test_a_seed_draws_the_same_again_and_keeps_to_the_grammar(llama: Llama) -> None:
    drawn = [written(llama, scene_pixels(number), TAILS, seed=7) for number in range(3)]
    assert drawn == [written(llama, scene_pixels(number), TAILS, seed=7) for number in range(3)]
    assert all(parse_answer(text) for texts in drawn for text in texts)


@pytest.mark.parametrize("size_px", [(1, 1), (1024, 3), (3, 1024), (1024, 1024)])
def test_pictures_of_any_shape_are_taken(llama: Llama, size_px: tuple[int, int]) -> None:
    width, height = size_px
    assert parse_answer(written(llama, tiny.Pixels(width, height, b"\x80" * (width * height * 3)), TAILS[:1])[0])


def test_more_languages_than_before_find_room(llama: Llama) -> None:
    few = written(llama, scene_pixels(3), TAILS[:1])
    many = written(llama, scene_pixels(3), [*TAILS, *TAILS, *TAILS[:2]])
    assert many[0] == few[0]
    assert many[4:8] == many[:4]


def test_a_question_longer_than_one_batch_is_asked(llama: Llama) -> None:
    long_tails = [f"{'Think of the colours. ' * 40}{tail}" for tail in TAILS]
    assert len(written(llama, scene_pixels(3), long_tails)) == len(TAILS)


def cancelled() -> None:
    raise StageCancelled("Cancelled.")


def test_a_wish_to_stop_is_heeded_in_every_phase_and_the_next_picture_is_well(llama: Llama) -> None:
    before = written(llama, scene_pixels(4), TAILS)
    with pytest.raises(StageCancelled):
        Llama(tiny.tiny_model(), cancelled)
    with pytest.raises(StageCancelled):
        llama.read(scene_pixels(3), INSTRUCTIONS, TAILS, cancelled)
    with pytest.raises(StageCancelled):
        llama.write(TAILS, cancelled)
    assert written(llama, scene_pixels(4), TAILS) == before


class Deaf(StopFlag):
    """A wish to stop that Python does not see: only llama.cpp can heed it."""

    def __enter__(self) -> StopFlag:
        self.flag[0] = b"\x01"
        self.seen = False
        return self

    def __exit__(self, *_: object) -> None:
        """No thread was started."""


def test_llama_cpp_itself_heeds_the_flag_between_two_operations(llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    llama.read(scene_pixels(4), INSTRUCTIONS, TAILS, go_on)
    monkeypatch.setattr("imgproc_local.vision.llm.llama.StopFlag", Deaf)
    start = llama.tokens_written
    # 2 is llama_decode's status for "aborted"
    with pytest.raises(ModelUnusable, match=r"\(2\)"):
        llama.write(TAILS, go_on)
    assert llama.tokens_written == start
    with pytest.raises(ModelUnusable, match=r"\(-?\d+\)"):
        llama.read(scene_pixels(4), INSTRUCTIONS, TAILS, go_on)


def test_the_encoder_of_pictures_halts_between_two_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    class Counting(Llama):
        def _at_node(self, _tensor: object, asking: bool, _data: object) -> bool:
            nonlocal asked
            asked += asking
            return super()._at_node(_tensor, asking, _data)

    counting = Counting(tiny.tiny_model())
    try:
        counting.read(scene_pixels(4), INSTRUCTIONS, TAILS, go_on)
        whole, asked = asked, 0
        monkeypatch.setattr(counting, "_may_go_on", lambda: False)
        with pytest.raises(ModelUnusable):
            counting.read(scene_pixels(4), INSTRUCTIONS, TAILS, go_on)
            raise ModelUnusable("the encoder itself tells nobody that it was halted")
        assert 0 < asked < whole / 2
    finally:
        counting.close()


def test_weights_are_never_put_into_amx_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their kernels crash when GCC 12 compiled them, as a default build on a processor with AMX does."""
    low = library().low
    load, used = low.llama_model_load_from_file, []

    def record(path: bytes, params: Any) -> object:
        used.append(params.use_extra_bufts)
        return load(path, params)

    monkeypatch.setattr(low, "llama_model_load_from_file", record)
    Llama(tiny.tiny_model()).close()
    assert used == [False]


def test_weights_that_give_no_numbers_are_told_instead_of_ending_the_process(tmp_path: Path) -> None:
    weights = bytearray(tiny.TEXT.read_bytes())
    weights[-4000:] = b"\x00\x7e" * 2000  # f16 of no number, in the last tensor
    (tmp_path / "text.gguf").write_bytes(weights)
    broken = Llama(VisionModel("broken", tmp_path / "text.gguf", tiny.MMPROJ))
    try:
        broken.read(scene_pixels(4), INSTRUCTIONS, TAILS, go_on)
        with pytest.raises(ModelUnusable, match="no numbers"):
            broken.write(TAILS, go_on)
    finally:
        broken.close()


def test_more_than_the_model_was_made_for_is_refused_and_costs_the_next_picture_nothing(llama: Llama) -> None:
    before = written(llama, scene_pixels(4), TAILS)
    with pytest.raises(ModelUnusable, match="was made for 2048 tokens"):
        llama.read(scene_pixels(4), INSTRUCTIONS + "語 " * 3000, TAILS, go_on)
    assert written(llama, scene_pixels(4), TAILS) == before


def test_more_questions_than_were_announced_are_answered_one_by_one(llama: Llama) -> None:
    together = written(llama, scene_pixels(4), TAILS)
    llama._close_context()
    llama.read(scene_pixels(4), INSTRUCTIONS, TAILS[:1], go_on)
    assert llama.write(TAILS, go_on) == together
    assert llama.parallel


def test_no_picture_read_is_told(llama: Llama) -> None:
    fresh = Llama(tiny.tiny_model())
    try:
        with pytest.raises(ModelUnusable, match="No picture was read"):
            fresh.write(TAILS, go_on)
    finally:
        fresh.close()


def test_a_model_that_refuses_many_texts_at_once_writes_them_one_by_one(
    llama: Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = written(llama, scene_pixels(5), TAILS)
    together = llama._write_together

    def refuses(tails: list[str], *asked: Any) -> list[str]:
        if len(tails) > 1:
            raise ModelUnusable("refused")
        return together(tails, *asked)

    monkeypatch.setattr(llama, "_write_together", refuses)
    try:
        assert llama.write(TAILS, go_on) == before
        assert not llama.parallel
    finally:
        llama.parallel = True


def test_a_closed_model_holds_neither_file(tmp_path: Path) -> None:
    model = VisionModel("copy", tmp_path / "text.gguf", tmp_path / "eyes.gguf")
    model.text_path.write_bytes(tiny.TEXT.read_bytes())
    model.mmproj_path.write_bytes(tiny.MMPROJ.read_bytes())
    loaded = Llama(model)
    assert str(tmp_path) in Path("/proc/self/maps").read_text()
    loaded.close()
    loaded.close()
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize(
    ("text", "mmproj", "told"),
    [
        ("cut", "eyes", "cut.gguf can't be loaded: .*not within the file bounds"),
        ("junk", "eyes", "junk.gguf can't be loaded: .*invalid magic"),
        ("eyes", "text", "eyes.gguf can't be loaded: .*CLIP cannot be used as main model"),
        ("text", "junk", "junk.gguf can't be loaded with text.gguf"),
        ("missing", "eyes", "missing.gguf can't be loaded: .*No such file"),
    ],
)
def test_what_llama_cpp_refuses_is_told_without_a_path(tmp_path: Path, text: str, mmproj: str, told: str) -> None:
    (tmp_path / "text.gguf").write_bytes(tiny.TEXT.read_bytes())
    (tmp_path / "eyes.gguf").write_bytes(tiny.MMPROJ.read_bytes())
    (tmp_path / "cut.gguf").write_bytes(tiny.TEXT.read_bytes()[:900_000])
    (tmp_path / "junk.gguf").write_bytes(b"nothing of the kind")
    with pytest.raises(ModelUnusable, match=told) as caught:
        Llama(VisionModel("broken", tmp_path / f"{text}.gguf", tmp_path / f"{mmproj}.gguf"))
    assert str(tmp_path) not in caught.value.message


def test_an_unknown_chat_template_is_told() -> None:
    model = VisionModel("tiny", tiny.TEXT, tiny.MMPROJ, ChatFormat(template="of nobody"))
    with pytest.raises(ModelUnusable, match="does not know the chat template"):
        Llama(model)


def test_a_grammar_that_does_not_parse_is_told_instead_of_ending_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("imgproc_local.vision.llm.sampler.GRAMMAR", 'root ::= "unclosed')
    with pytest.raises(ModelUnusable, match="grammar"):
        Llama(tiny.tiny_model())


def test_trying_a_model_passes_where_it_works() -> None:
    describe_test_image(tiny.tiny_model())


def test_an_answer_without_end_is_cut(llama: Llama) -> None:
    llama.read(scene_pixels(1), INSTRUCTIONS, TAILS[:1], go_on)
    assert parse_answer(llama.write(TAILS[:1], go_on, most_tokens=5)[0]) is None


def test_numpy_is_not_loaded() -> None:
    code = (
        "import sys; from imgproc_local.vision.llm.library import library; library(); sys.exit('numpy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
