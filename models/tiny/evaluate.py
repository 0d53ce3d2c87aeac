"""Counts how many held-out scenes the exported model describes exactly, with the code of the service.

    python -m models.tiny.evaluate --scenes 100

Each picture is written to a file, decoded and scaled with libvips as in the service, and described by llama.cpp in
English and then, with the English text in the prompt, in all other languages together, with the production prompt and
grammar. PyTorch is not used.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from imgproc_local.codecs.picture.decode import thumbnail
from imgproc_local.codecs.picture.probe import probe
from imgproc_local.domain.image import EmbeddedMetadata, EmbeddedText
from imgproc_local.engine.analyze import THUMBNAIL_SIDE_PX
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.llm.prompt import draft_note, language_prompt, parse_answer, picture_notes
from imgproc_local.vision.models.model import VisionModel
from imgproc_local.vision.text.embedded_text import collect_texts
from models.tiny import scenes

MISLEADING_NOTES = EmbeddedMetadata(
    title=(EmbeddedText("Blue star"),),
    keywords=tuple(EmbeddedText(word) for word in ("summer", "green", "Katze", "三角")),
    city="Hamburg",
)
LONG_NOTES = EmbeddedMetadata(
    title=(EmbeddedText("Морской порт зимой на рассвете"),),
    description=(
        EmbeddedText(
            "The old harbour on a winter morning: three tugboats leave, and a red lighthouse stands far behind"
        ),
    ),
    keywords=tuple(EmbeddedText(word) for word in ("harbour", "Schiff", "夜明け", "blue", "triangle", "bateau")),
    persons=("Zoë Ångström", "Jean-Luc Müller"),
    city="Hamburg",
    country="Deutschland",
)
"""These two contradict the picture, with short texts and with long ones in several scripts."""


class Variant(NamedTuple):
    """How scenes are drawn, stored and described.

    `size` is (width, height) in px, `suffix` that of the file name, and `options` are the arguments of Pillow's `save`.
    `embedded` is the metadata. With a `complaint`, the prompt is that of a retry. With `direct`, no language is given
    the English text. With `anew`, the instructions are processed for each picture, instead of once for all.
    """

    name: str
    size: tuple[int, int]
    suffix: str
    options: dict[str, Any]
    embedded: EmbeddedMetadata = EmbeddedMetadata()
    complaint: str = ""
    direct: bool = False
    anew: bool = False


JPEG_80 = {"quality": 80}
VARIANTS = (
    Variant("192×192 PNG", (192, 192), ".png", {}),
    Variant("96×96 PNG", (96, 96), ".png", {}),
    Variant("1024×768 PNG", (1024, 768), ".png", {}),
    Variant("1600×1200 JPEG, quality 80", (1600, 1200), ".jpg", JPEG_80),
    Variant("800×1200 JPEG, quality 80", (800, 1200), ".jpg", JPEG_80),
    Variant("1000×400 PNG", (1000, 400), ".png", {}),
    Variant("192×192 PNG, misleading notes", (192, 192), ".png", {}, MISLEADING_NOTES),
    Variant("192×192 PNG, long notes", (192, 192), ".png", {}, LONG_NOTES),
    Variant("192×192 PNG, retry", (192, 192), ".png", {}, complaint="the text is too long"),
    Variant("192×192 PNG, no English first", (192, 192), ".png", {}, direct=True),
    Variant("192×192 PNG, instructions anew", (192, 192), ".png", {}, anew=True),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Evaluate the tiny vision model on held-out scenes.")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="where the two GGUF files are")
    parser.add_argument("--scenes", type=int, default=100, help="number of scenes per variant")
    parser.add_argument("--seed", type=int, default=2026, help="seed of the selection of scenes")
    parser.add_argument("--wrong", action="store_true", help="print each wrong answer")
    args = parser.parse_args()
    text, mmproj = args.folder / "tiny-text.gguf", args.folder / "tiny-mmproj.gguf"
    llama = Llama(VisionModel("tiny", text, mmproj))
    columns = (*scenes.LANGUAGES, "all")
    print(f"{'correct answers of ' + str(args.scenes):32}" + "".join(f"{column:>6}" for column in columns))
    try:
        for variant in VARIANTS:
            started, cpu_started = time.monotonic(), time.process_time()
            correct = _count_correct(llama, variant, args)
            took_s, cpu_s = time.monotonic() - started, time.process_time() - cpu_started
            counts = "".join(f"{correct[column]:6}" for column in columns)
            times = f"{took_s / args.scenes:.2f} s, {cpu_s / args.scenes:.2f} s of CPU time"
            print(f"{variant.name:32}{counts}   {times} per picture", flush=True)
    finally:
        llama.close()


def _count_correct(llama: Llama, variant: Variant, args: argparse.Namespace) -> dict[str, int]:
    """The number of correct answers per language; "all" counts scenes that are correct in every language."""
    correct = dict.fromkeys((*scenes.LANGUAGES, "all"), 0)
    for number, scene in enumerate(scenes.held_out_scenes(args.scenes, args.seed)):
        answers = _answers(llama, scene, number, variant)
        wrong = {
            language: answer
            for language, answer in answers.items()
            if answer != scenes.reference_answer(scene, language)
        }
        for language in answers.keys() - wrong.keys():
            correct[language] += 1
        correct["all"] += not wrong
        if args.wrong:
            for language, answer in wrong.items():
                print(f"  {scenes.reference_answer(scene, language).alt_text} … {answer and answer.alt_text}")
    return correct


def _answers(llama: Llama, scene: scenes.Scene, number: int, variant: Variant) -> dict[str, scenes.Answer | None]:
    """The answers of the model for one drawing of `scene`, by language. An incomplete answer is None."""
    name = f"scene-{number:03}{variant.suffix}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        scenes.draw(scene, number, variant.size).save(path, **variant.options)
        pixels = thumbnail(path, probe(path, max_pixels=10_000_000), THUMBNAIL_SIDE_PX, lambda: None)
    notes = picture_notes(collect_texts(variant.embedded, name), "")
    english, *others = (language_prompt(language, variant.complaint) for language in scenes.LANGUAGES)
    if variant.anew:
        llama.free_context()
    llama.prefill(pixels, notes, others, lambda: None)
    generated = llama.generate([english], lambda: None)
    first = parse_answer(generated[0])
    draft = draft_note(first.alt_text) if first and not variant.direct else ""
    generated += llama.generate([draft + suffix for suffix in others], lambda: None)
    return {
        language: answer and scenes.Answer(answer.filename, answer.alt_text)
        for language, answer in zip(scenes.LANGUAGES, map(parse_answer, generated), strict=True)
    }


if __name__ == "__main__":
    main()
