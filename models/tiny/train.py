"""Lets the tiny model learn a changed prompt of the service: trains its text model, on one processor core.

    python -m models.tiny.train

The vision encoder and the vocabulary stay as they are: llama.cpp computes the embeddings of pictures and the tokens of
texts, as in the service. Each step trains on the same scenes in all languages.
"""

from __future__ import annotations

import io
import math
import random
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from imgproc_local.domain.image import Pixels
from imgproc_local.vision.facts.texts import LocalizedText
from imgproc_local.vision.llm import prompt
from imgproc_local.vision.llm.llama import Llama
from imgproc_local.vision.models.model import VisionModel
from models.tiny import notes, scenes
from models.tiny.network import WIDTH, TextModel, read_text_model, write_text_model

FILE = Path(__file__).with_name("tiny-text.gguf")
STEPS, SCENES_PER_STEP, SEED = 400, 4, 7
MAX_RATE = 1.2e-3
"""The learning rate after the first tenth of the steps."""
USER = "<|im_start|>user\n"
ASSISTANT = "<|im_end|>\n<|im_start|>assistant\n"
END = "<|im_end|>"
IGNORED = -100
"""The target of tokens that no answer follows; the loss ignores them. Source: PyTorch, `cross_entropy`,
ignore_index."""

_LOG_EVERY_STEPS = 20
_FINAL_RATE_SHARE = 0.02
"""The learning rate at the end of the cosine schedule, as a share of its maximum."""
_ASPECT_RATIOS = (1, 1, 1, 4 / 3, 3 / 4, 3 / 2, 2 / 3, 16 / 9, 9 / 16, 5 / 2, 2 / 5)
_SHORT_SIDES_PX = (96, 120, 144, 192, 192, 256)
"""Width divided by height, and the shorter side, of the drawn pictures; repeated values are more frequent."""
_JPEG_PROBABILITY = 0.25
_COMPLAINT_PROBABILITY = 0.05
_DRAFT_PROBABILITY = 0.5
"""The share of batches in which the prompts of languages other than English have the English text to translate."""


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    model = VisionModel("tiny", FILE, FILE.with_name("tiny-mmproj.gguf"))
    text_model = read_text_model(FILE)
    train(text_model, Llama(model))
    write_text_model(text_model, FILE)


def train(text_model: TextModel, llama: Llama) -> None:
    """Run all training steps."""
    rng = random.Random(SEED)
    parameters = [*text_model.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=MAX_RATE, betas=(0.9, 0.98), weight_decay=0.02)
    started = time.monotonic()
    for step in range(STEPS):
        decay = 0.5 * (1 + math.cos(math.pi * step / STEPS))
        rate = MAX_RATE * min(1, (step + 1) / (STEPS / 10))  # it rises in the first tenth of the steps
        optimiser.param_groups[0]["lr"] = rate * (_FINAL_RATE_SHARE + (1 - _FINAL_RATE_SHARE) * decay)
        loss, exact = losses(text_model, *make_batch(rng, text_model, llama, SCENES_PER_STEP))
        optimiser.zero_grad()
        (4 * loss).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        if (step + 1) % _LOG_EVERY_STEPS == 0:
            print(f"{time.monotonic() - started:.0f} s, step {step + 1}, loss {loss.item():.4f}, exact {exact:.3f}")


def losses(text_model: TextModel, inputs: Tensor, targets: Tensor) -> tuple[Tensor, float]:
    """The cross entropy of the answers' tokens, and the share of completely correct answers.

    `inputs` are embeddings (B, T, W); `targets` (B, T) have the token that follows each of them, or IGNORED.
    """
    expected = targets != IGNORED
    logits = text_model.logits(text_model(inputs)[expected])
    correct = torch.ones_like(targets, dtype=torch.bool)
    correct[expected] = logits.argmax(-1) == targets[expected]
    return functional.cross_entropy(logits, targets[expected]), correct.all(-1).float().mean().item()


def make_batch(rng: random.Random, text_model: TextModel, llama: Llama, size: int) -> tuple[Tensor, Tensor]:
    """The inputs and targets of `losses` for `size` scenes that are not held out, each in all languages.

    They share the notes and the complaint of the prompt; the English text to translate is that of each scene.
    """
    complaint = rng.choice(notes.COMPLAINTS) if rng.random() < _COMPLAINT_PROBABILITY else ""
    has_draft = rng.random() < _DRAFT_PROBABILITY
    batch_scenes = [scenes.random_scene(rng) for _ in range(size)]
    instructions, noted = llama.tokens(USER + prompt.INSTRUCTIONS), llama.tokens(notes.picture_notes(rng))
    inputs, targets = [], []
    for scene in batch_scenes:
        picture = picture_embeddings(llama, _draw(scene, rng))
        english = LocalizedText(scenes.reference_answer(scene, "en").alt_text, "en")
        draft = prompt.draft_note(english) if has_draft else ""
        for language in scenes.LANGUAGES:
            question = ("" if language == "en" else draft) + prompt.language_prompt(language, complaint) + ASSISTANT
            asked = noted + llama.tokens(question)
            answer = llama.tokens(scenes.to_json(scenes.reference_answer(scene, language)) + END)
            before = len(instructions) + len(picture) + len(asked)
            tokens = torch.tensor([*instructions, *asked, *answer[:-1]])
            embedded = text_model.embedding(tokens)
            inputs.append(torch.cat((embedded[: len(instructions)], picture, embedded[len(instructions) :])))
            targets.append(torch.tensor([IGNORED] * (before - 1) + answer))
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(inputs, batch_first=True), pad(targets, batch_first=True, padding_value=IGNORED)


def picture_embeddings(llama: Llama, picture: Image.Image) -> Tensor:
    """What the vision encoder makes of a picture: (64, W)."""
    mtmd = llama.mtmd
    with llama.chunks(Pixels(*picture.size, picture.tobytes()), "") as chunks:
        chunk = mtmd.mtmd_input_chunks_get(chunks, 1)  # after the instructions
        llama.check(mtmd.mtmd_encode_chunk(llama.vision_encoder, chunk))
        shape = (mtmd.mtmd_input_chunk_get_n_tokens(chunk), WIDTH)
        values = np.ctypeslib.as_array(mtmd.mtmd_get_output_embd(llama.vision_encoder), shape)
        return torch.from_numpy(values.copy())


def _draw(scene: scenes.Scene, rng: random.Random) -> Image.Image:
    """A picture of the scene in a random size, sometimes with JPEG artefacts."""
    ratio, short_px = rng.choice(_ASPECT_RATIOS), rng.choice(_SHORT_SIDES_PX)
    size = (round(short_px * max(ratio, 1)), round(short_px * max(1 / ratio, 1)))
    picture = scenes.draw(scene, rng.getrandbits(32), size)
    if rng.random() >= _JPEG_PROBABILITY:
        return picture
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=rng.randint(75, 95))
    return Image.open(buffer).convert("RGB")


if __name__ == "__main__":
    main()
